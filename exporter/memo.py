"""Answers to questions about texts, each asked once: whether a pattern matches, what a path means, what number it has.

Senders repeat themselves: methods, paths, models and flags are few. An answer is found by the bytes of the text where
they stand in a body, so no text is made of them. The table is bounded, as senders choose the texts: when it is full, or
asked to, it forgets everything.
"""

import os
from array import array
from collections.abc import Callable, Sequence

import exporter.decode.words as words

TRIES = 32
"""Places that are looked at, so that texts which are chosen to meet in one place cost no more than unknown ones."""
MARK, KEY, HEAD, TAIL, ANSWER, SECOND, TEXT = range(7)
"""Cells of an entry: a number of the text, the question with its size, its first and last 8 bytes, the two answers, and
where it stands if these are not all of it. So most texts are found in one line of the cache."""
SHORT = 16
ENTRY = 8
SIZES = 1 << 40
"""More than the size of any text."""

Answer = Callable[[str], int | tuple[int, int]]
"""From a text to a signed 64-bit number, or to two of them."""


class Memo:
    """What has been answered. Questions are numbered by their place in `answers`, of which there is one at least.

    `entries`: answers that are remembered, a power of two; `room`: bytes of all longer texts; `longest`: of one.
    """

    def __init__(
        self, answers: Sequence[Answer], entries: int = 1 << 14, room: int = 1 << 20, longest: int = 1 << 10
    ) -> None:
        self.answers = answers
        self.limit = entries
        self.mask = 2 * entries - 1
        self.longest = longest
        self.seed = int.from_bytes(os.urandom(7), "little")
        self.entry_rows = memoryview(array("q", bytes(16 * ENTRY * entries)))
        self.entries = words.cells(self.entry_rows)
        self.room = bytearray(room)
        self.texts = self.room
        self.latest_rows = memoryview(array("q", bytes(8 * len(answers))))
        self.latest = words.cells(self.latest_rows)
        self.used = 0
        self.count = 0
        self.second = 0
        """The second answer to what was asked last."""

    def forget(self) -> None:
        """Ask everything anew."""
        for place in range(self.mask + 1):
            self.entries[ENTRY * place + MARK] = self.entries[ENTRY * place + KEY] = 0
        self.used = self.count = 0

    def answer(self, question: int, text: str) -> int:
        """The answer for a text."""
        raw = text.encode("utf-8", "replace")
        return self.ask(question, raw, 0, len(raw))

    def ask(self, question: int, data: bytes, at: int, size: int) -> int:
        """The answer for the text whose bytes stand there, in UTF-8; what is not UTF-8 is U+FFFD."""
        entries = self.entries
        key = (question + 1) * SIZES + size
        entry = self.latest[question]  # texts often follow themselves
        if entries[entry + KEY] == key and self.holds(entry, data, at, size):
            self.second = entries[entry + SECOND]
            return entries[entry + ANSWER]
        return self.look_up(question, data, at, size)

    def holds(self, entry: int, data: bytes, at: int, size: int) -> bool:
        """Whether an entry of a text of this size is of this text."""
        entries = self.entries
        if entries[entry + HEAD] != words.head(data, at, size) or entries[entry + TAIL] != words.tail(data, at, size):
            return False
        return size <= SHORT or words.same(self.texts, entries[entry + TEXT], data, at, size)

    def look_up(self, question: int, data: bytes, at: int, size: int) -> int:
        """The same by the table."""
        if size > self.longest:
            return self.learn(question, data[at : at + size], 0)
        entries = self.entries
        mark = words.mixed(data, at, size, self.seed + question) + 1
        key = (question + 1) * SIZES + size
        place = mark & self.mask
        for _ in range(TRIES):
            entry = ENTRY * place
            if entries[entry + MARK] == 0:
                break
            known = entries[entry + MARK] == mark and entries[entry + KEY] == key
            if known and self.holds(entry, data, at, size):
                self.latest[question] = entry
                self.second = entries[entry + SECOND]
                return entries[entry + ANSWER]
            place = (place + 1) & self.mask
        return self.learn(question, data[at : at + size], mark)

    def learn(self, question: int, raw: bytes, mark: int) -> int:
        """Find the answer, and remember it if it has a place."""
        found = self.answers[question](raw.decode("utf-8", "replace"))
        answer, self.second = found if isinstance(found, tuple) else (found, 0)
        size = len(raw)
        if size > self.longest:
            return answer
        if self.count >= self.limit or self.used + size > len(self.room):
            self.forget()
        place = mark & self.mask
        for _ in range(TRIES):
            entry = ENTRY * place
            if self.entries[entry + MARK] == 0:
                self.entries[entry + MARK] = mark
                self.entries[entry + KEY] = (question + 1) * SIZES + size
                self.entries[entry + HEAD] = words.head(raw, 0, size)
                self.entries[entry + TAIL] = words.tail(raw, 0, size)
                self.entries[entry + ANSWER] = answer
                self.entries[entry + SECOND] = self.second
                if size > SHORT:
                    words.copied(self.room, self.used, raw, 0, size)
                    self.entries[entry + TEXT] = self.used
                    self.used += size
                self.count += 1
                break
            place = (place + 1) & self.mask
        return answer

"""Answers to questions about texts, each asked once: whether a pattern matches, what a path means, what number it has.

Senders repeat themselves: methods, paths, models and flags are few. An answer is found by the bytes of the text where
they stand in a body, so no text is made of them. The table is bounded, as senders choose the texts: when it is full, or
asked to, it forgets everything.
"""

import os
from array import array
from collections.abc import Callable, Sequence

import exporter.decode.words as words

ENTRIES = 1 << 14
"""Answers that are remembered."""
PLACES = 2 * ENTRIES
ROOM = 1 << 20
"""Bytes of all remembered texts."""
LONGEST = 1024
"""Bytes of a text that is remembered."""
TRIES = 32
"""Places that are looked at, so that texts which are chosen to meet in one place cost no more than unknown ones."""
ENTRY = 4
"""Cells of an entry: the mark of the text, the question with the size of the text, where it stands, the answer."""
SIZES = 1 << 20
"""More than the size of any text that is remembered."""

Answer = Callable[[str], int]
"""From a text to a signed 64-bit number."""


class Memo:
    """What has been answered. Questions are numbered by their place in `answers`, which may grow."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = answers
        self.seed = int.from_bytes(os.urandom(7), "little")
        self.entry_rows = memoryview(array("q", bytes(8 * ENTRY * PLACES)))
        self.entries = words.cells(self.entry_rows)
        self.room = bytearray(ROOM)
        self.texts = self.room
        self.used = 0
        self.count = 0

    def forget(self) -> None:
        """Ask everything anew."""
        for place in range(0, ENTRY * PLACES, ENTRY):
            self.entries[place] = 0
        self.used = self.count = 0

    def answer(self, question: int, text: str) -> int:
        """The answer for a text."""
        raw = text.encode("utf-8", "replace")
        return self.ask(question, raw, 0, len(raw))

    def ask(self, question: int, data: bytes, at: int, size: int) -> int:
        """The answer for the text whose bytes stand there, in UTF-8; what is not UTF-8 is U+FFFD."""
        if size > LONGEST:
            return self.learn(question, data[at : at + size], 0)
        entries = self.entries
        mark = words.mixed(data, at, size, self.seed + question) + 1
        key = question * SIZES + size
        place = mark & (PLACES - 1)
        for _ in range(TRIES):
            entry = ENTRY * place
            if entries[entry] == 0:
                break
            known = entries[entry] == mark and entries[entry + 1] == key
            if known and words.same(self.texts, entries[entry + 2], data, at, size):
                return entries[entry + 3]
            place = (place + 1) & (PLACES - 1)
        return self.learn(question, data[at : at + size], mark)

    def learn(self, question: int, raw: bytes, mark: int) -> int:
        """Find the answer, and remember it if it has a place."""
        answer = self.answers[question](raw.decode("utf-8", "replace"))
        size = len(raw)
        if size > LONGEST:
            return answer
        if self.count >= ENTRIES or self.used + size > ROOM:
            self.forget()
        place = mark & (PLACES - 1)
        for _ in range(TRIES):
            entry = ENTRY * place
            if self.entries[entry] == 0:
                words.copied(self.room, self.used, raw, 0, size)
                self.entries[entry] = mark
                self.entries[entry + 1] = question * SIZES + size
                self.entries[entry + 2] = self.used
                self.entries[entry + 3] = answer
                self.used += size
                self.count += 1
                break
            place = (place + 1) & (PLACES - 1)
        return answer

"""Profiles as flat numbers, by which spans are read without looking at an object.

All lists of all profiles stand in one array, `Tables.code`. A list is given by where it begins and ends there; the
records in it have the cells that are named below. Whatever needs the text of an attribute is a question of
`exporter.memo`, and stands here as its number.
"""

import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Final

from exporter import record
from exporter.config import Settings
from exporter.decode.columns import Wanted
from exporter.memo import Answer
from exporter.profile import (
    RECORDS,
    TIMES_OF_A_SPAN,
    Condition,
    Evidence,
    Ignore,
    Match,
    RequestId,
    Source,
    SourceProfile,
    Stamp,
    Stream,
)
from exporter.record import MISSING
from exporter.sampling import read_state, weight_of_kept
from exporter.texts import path_of, status_of
from slo_rules.vocabulary import FIRST_TOKEN_SOURCES, OUTCOMES, ROLES, STAMPS

SLACK_NS: Final = 100_000_000
"""How much longer than its span an interval may be: emitters mix wall and monotonic clocks."""
MAX_COUNT: Final = 10**9
"""Tokens or items of one request."""
NONE: Final = -1
"""In place of a question, slot or event that there is not."""

# A rule: one profile.
ROLE, SOURCE, WITHIN, OF_LOGS, TELLS_FIRST = range(5)
PLAIN_AT, STAMPS_AT, COUNTS_AT, MODEL_AT, CLASS_AT, ID_AT, FRONTS_AT = range(5, 19, 2)
"""Where a list begins; the next cell says where it ends."""
STREAM_AT, STATUS_AT, METHOD_AT, PATH_AT, ROUTE_AT, OUTCOME_AT, RECORDS_AT, EMITTED_AT = range(19, 35, 2)
"""A list of attributes holds slots alone."""
ABSENT, PATH_QUESTION, ROUTE_QUESTION, CHOICE, CHOICE_SIZE, CHOICE_MARK, NUMBERED, NUMBERED_SIZE = range(35, 43)
NOT_NUMBERED_AT: Final = 43
RULE: Final = 45

# A plain stamp, which is the start or the end of its span: its cell and that of the time.
PLAIN: Final = 2
# A count: its cell and its attributes.
COUNT: Final = 3
# A stamp: its cell and its ways.
STAMP: Final = 3
# A way to find it.
BASE, EVENT, LAST, SKIP, WHERE_AT, _WHERE_TO, SLOT, ABSOLUTE, SIGN, UNIT = range(10)
WAY: Final = 10
# A condition: slot, whether it must be there, question.
CONDITION: Final = 3
# A wish for a value: slot, event, question, what its absence says.
WISH: Final = 4
# A candidate: rule, number of the reason to ignore it, kinds as bits, conditions.
CANDIDATE: Final = 5
# A kind of log record: its number, conditions.
KIND: Final = 3
# A text at the front of an id: where it stands among the texts, its size.
FRONT: Final = 2

UNSHAPED, FRONT_NUMBERED, BACK_NUMBERED, ASKED = range(4)
"""Patterns of numbered ids: none; one that needs a number at the front; `(.+)-[0-9]{1,n}`; any other."""
_FRONT: Final = re.compile(r"\[0-9\]\{1,([1-9])\}([-_:./])\((.*)\)")
_BACK: Final = re.compile(r"(?:\(\?!([A-Za-z0-9_|-]+)\))?\(\.\+\)-\[0-9\]\{1,([1-9])\}")
"""The spellings of these patterns that are known."""

BASES: Final = {
    "start": record.START, "end": record.END, "time": record.START, "observed": record.END, **record.STAMP_CELLS,
}  # fmt: skip
"""Cells that a stamp may be counted from."""

NO_CALL: Final = ("/models", "/metrics", "/health", "/tokenize", "/detokenize", "/load", "/ping", "/version")
EMBEDDINGS: Final = "/embeddings"

MODEL_KEYS: Final = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
CLASS_KEYS: Final = ("inference.class",)


class Tables:
    """Profiles, compiled. `number`: from the text of a label to its number."""

    def __init__(
        self, profiles: Sequence[SourceProfile], settings: Settings, wanted: Wanted, number: Callable[[str], int]
    ) -> None:
        self.wanted = wanted
        self.settings = settings
        self.code = array("q")
        self.texts = b""
        """Fronts of ids, one after the other."""
        self.answers: list[Answer] = []
        self.reasons = ["log_record"]
        """Why spans are no requests; the first is for log records of no known kind."""
        self.longest_skip = 0
        self._asked: dict[object, int] = {}
        self.label = self.question("label", lambda text: number(text) if text else MISSING)
        self.status = self.question("status", status_of)
        self.post = self.question("post", lambda text: int(text.upper() == "POST"))
        self.threshold = self.question("threshold", lambda text: _or_none(read_state(text).threshold))
        self.weight = self.question("weight", lambda text: weight_of_kept(read_state(text)))
        self.sampled = self.question("sampled", lambda text: int("ot=" in text))
        self.nothing = self._rule(SourceProfile(name="", role=ROLES[0], matches=()))
        """Of spans that no profile knows."""
        self.rules = [self._rule(profile) for profile in profiles]
        self.matches = [(match, self._candidate(number, match)) for number, profile in enumerate(profiles)
                        for match in profile.matches]  # fmt: skip
        self.matches += [(ignore.match, self._ignored(ignore)) for profile in profiles for ignore in profile.ignores]
        """In the order in which they are tried, each with the place of its candidate."""
        self.labels = [self._list(map(wanted.key, label.attributes)) for label in settings.labels.declared]

    def question(self, key: object, answer: Answer) -> int:
        """The number of a question, the same for the same key."""
        if key not in self._asked:
            self._asked[key] = len(self.answers)
            self.answers.append(answer)
        return self._asked[key]

    # Lists.

    def _list(self, cells: Iterable[int]) -> tuple[int, int]:
        start = len(self.code)
        self.code.extend(cells)
        return start, len(self.code)

    def _slots(self, keys: Iterable[str]) -> tuple[int, int]:
        return self._list(map(self.wanted.key, keys))

    def _records(self, records: Iterable[Sequence[int]]) -> tuple[int, int]:
        made = list(records)  # which may write lists of their own
        return self._list(cell for cells in made for cell in cells)

    def _rule(self, profile: SourceProfile) -> int:
        """Where the rule of a profile stands."""
        name, identity = profile.name, profile.request_id
        cells = [0] * RULE
        cells[ROLE] = ROLES.index(profile.role)
        cells[SOURCE] = FIRST_TOKEN_SOURCES.index(profile.first_token_from)
        cells[WITHIN] = MISSING if profile.within is None else hash(profile.within)
        cells[OF_LOGS] = int(profile.of_logs)
        cells[TELLS_FIRST] = int("first_token" in profile.stamps)
        cells[ABSENT] = NONE if profile.absent is None else self._is(profile.absent)
        cells[PATH_QUESTION] = self.question(("path", name), lambda text: self._path(name, path_of(text)))
        cells[ROUTE_QUESTION] = self.question(("route", name), lambda text: hash((name, text)))
        lists = {
            PLAIN_AT: self._records((record.STAMP_CELLS[stamp], BASES[ways[0].base])
                                    for stamp, ways in ordered(profile) if _is_plain(profile, ways)),
            STAMPS_AT: self._records((record.STAMP_CELLS[stamp], *self._ways(ways))
                                     for stamp, ways in ordered(profile) if not _is_plain(profile, ways)),
            COUNTS_AT: self._records((cell, *self._slots(keys)) for cell, keys in _counts(profile) if keys),
            MODEL_AT: self._slots(profile.labels.get("model") or MODEL_KEYS),
            CLASS_AT: self._slots(profile.labels.get("class") or CLASS_KEYS),
            ID_AT: self._slots(identity.attributes if identity else ()),
            FRONTS_AT: self._fronts(identity.strip if identity else ()),
            STREAM_AT: self._records(map(self._stream, profile.stream)),
            STATUS_AT: self._records(self._wish(source, self.status) for source in profile.status),
            METHOD_AT: self._slots(profile.method),
            PATH_AT: self._slots(profile.path),
            ROUTE_AT: self._slots(profile.route),
            OUTCOME_AT: self._records(self._outcomes(profile.outcome)),
            RECORDS_AT: self._records((RECORDS.index(kind), *self._conditions(match.attributes))
                                      for kind, match in profile.records.items()),
            EMITTED_AT: self._ways(profile.emitted),
        }  # fmt: skip
        for cell, (start, stop) in lists.items():
            cells[cell : cell + 2] = start, stop
        self._shapes(cells, identity)
        return self._list(cells)[0]

    def _path(self, name: str, path: str) -> tuple[int, int]:
        """The route, and whether it leads to the inference API."""
        return hash((name, path)), int(_is_call(path, self.settings))

    def _ways(self, stamps: Iterable[Stamp]) -> tuple[int, int]:
        return self._records(map(self._way, stamps))

    def _way(self, stamp: Stamp) -> Sequence[int]:
        self.longest_skip = max(self.longest_skip, stamp.skip)
        return (
            BASES[stamp.base],
            NONE if stamp.event is None else self.wanted.event(stamp.event),
            int(stamp.last),
            stamp.skip,
            *self._conditions(stamp.where),
            NONE if stamp.attribute is None else self.wanted.key(stamp.attribute),
            int(stamp.absolute),
            stamp.sign,
            stamp.unit_ns,
        )

    def _conditions(self, conditions: Iterable[Condition]) -> tuple[int, int]:
        return self._records(
            (
                self.wanted.key(each.attribute),
                int(each.present),
                NONE if each.pattern is None else self._matches(each.pattern),
            )
            for each in conditions
        )

    def _candidate(self, number: int, match: Match, reason: int = NONE) -> int:
        kinds = sum(1 << kind for kind in set(match.kinds))
        return self._list((number, reason, kinds, *self._conditions(match.attributes)))[0]

    def _ignored(self, ignore: Ignore) -> int:
        if ignore.reason not in self.reasons:
            self.reasons.append(ignore.reason)
        return self._candidate(NONE, ignore.match, self.reasons.index(ignore.reason))

    # Values.

    def _wish(self, source: Source, question: int, absent: int = MISSING) -> Sequence[int]:
        event = NONE if source.event is None else self.wanted.event(source.event)
        return self.wanted.key(source.attribute), event, question, absent

    def _stream(self, stream: Stream) -> Sequence[int]:
        absent = MISSING if stream.absent is None else stream.absent
        return self._wish(stream.source, self._matches(stream.pattern), absent)

    def _outcomes(self, evidence: Iterable[Evidence]) -> Iterable[Sequence[int]]:
        """One wish for all that one value may say, as far as nothing else is asked in between."""
        for source, group in groupby(evidence, key=lambda each: each.source):
            patterns = tuple((each.pattern, OUTCOMES.index(each.outcome)) for each in group)
            yield self._wish(source, self.question(("outcome", patterns), _first_match(patterns)))

    def _matches(self, pattern: re.Pattern[str]) -> int:
        return self.question(("matches", pattern), lambda text: int(pattern.fullmatch(text) is not None))

    def _is(self, expected: str) -> int:
        return self.question(("is", expected), lambda text: int(text == expected))

    # Ids.

    def _fronts(self, fronts: Iterable[str]) -> tuple[int, int]:
        return self._records(map(self._front, fronts))

    def _front(self, front: str) -> Sequence[int]:
        raw = front.encode()
        self.texts += raw
        return len(self.texts) - len(raw), len(raw)

    def _shapes(self, cells: list[int], identity: RequestId | None) -> None:
        """Those patterns of numbered ids for which no regular expression need be asked, or seldom."""
        if identity is None:
            return
        if identity.choice is not None:
            cells[CHOICE] = ASKED
            found = _spelt(identity.choice, _FRONT)
            if found and _is_pattern(found[3]):
                cells[CHOICE : CHOICE + 3] = FRONT_NUMBERED, int(found[1]), ord(found[2])
        if identity.sequence is not None:
            cells[NUMBERED] = ASKED
            if found := _spelt(identity.sequence, _BACK):
                cells[NUMBERED : NUMBERED + 2] = BACK_NUMBERED, int(found[2])
                fronts = self._fronts(found[1].split("|") if found[1] else ())
                cells[NOT_NUMBERED_AT : NOT_NUMBERED_AT + 2] = fronts


def _is_plain(profile: SourceProfile, ways: Sequence[Stamp]) -> bool:
    """Whether the first way is an end of the span, which is always there and inside."""
    return bool(ways) and not profile.of_logs and ways[0] in [Stamp(base=base) for base in TIMES_OF_A_SPAN]


def _counts(profile: SourceProfile) -> list[tuple[int, tuple[str, ...]]]:
    tokens = profile.tokens
    return [
        (record.INPUT, tokens.get("input", ())),
        (record.OUTPUT, tokens.get("output", ())),
        (record.CACHED, tokens.get("cached_input", ())),
        (record.ITEMS, profile.items),
    ]


def _spelt(pattern: re.Pattern[str], spelling: re.Pattern[str]) -> re.Match[str] | None:
    return spelling.fullmatch(pattern.pattern) if pattern.flags == re.UNICODE else None


def _is_pattern(text: str) -> bool:
    """Whether it is a regular expression by itself, so that the parentheses around it belong together."""
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _first_match(patterns: Sequence[tuple[re.Pattern[str], int]]) -> Answer:
    return lambda text: next((outcome for pattern, outcome in patterns if pattern.fullmatch(text)), NONE)


def _is_call(path: str, settings: Settings) -> bool:
    requests = settings.requests
    if requests.path not in path or path.endswith(NO_CALL):
        return False
    return requests.embeddings or not path.endswith(EMBEDDINGS)


def _or_none(number: int | None) -> int:
    return NONE if number is None else number


def ordered(profile: SourceProfile) -> list[tuple[str, tuple[Stamp, ...]]]:
    """The stamps of a profile, each after those that it is counted from."""
    done: dict[str, tuple[Stamp, ...]] = {}
    waiting = dict(profile.stamps)
    while waiting:
        for name in STAMPS:
            if name in waiting and all(way.base not in waiting for way in waiting[name]):
                done[name] = waiting.pop(name)
    return list(done.items())

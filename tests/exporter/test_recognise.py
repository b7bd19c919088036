from collections import Counter
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter import record
from exporter.config import Align, Label, Labels, Settings
from exporter.decode.columns import Resource
from exporter.decode.protobuf import Decoder
from exporter.profile import SourceProfile, built_in, read_profiles
from exporter.recognise import Recogniser, Strings, wanted_by
from exporter.record import IGNORED, MISSING, UNRECOGNISED
from exporter.tables import MAX_COUNT, SLACK_NS
from exporter.texts import parsed, path_of, scaled, unnumbered
from slo_rules.document import read
from slo_rules.vocabulary import FIRST_TOKEN_SOURCES, OUTCOMES, ROLES
from tests.exporter.spans import Sent, Value, body, chunks, envoy, event, ns, span, vllm

pytestmark = pytest.mark.both_builds

MS = 1_000_000
BUILT_IN = built_in()


class Seen(NamedTuple):
    """One row, by name of the cell; times in ms after T0, MISSING as None."""

    cells: list[int]
    strings: Strings

    def __getattr__(self, name: str) -> Any:
        value = self.cells[getattr(record, name.upper())]
        if value == MISSING:
            return None
        if name in record.STAMP_CELLS:
            return (value - ns(0)) / MS
        return self.strings.text(value) if name in ("model", "class", "clock") else value

    @property
    def klass(self) -> str | None:
        return None if self.cells[record.CLASS] == MISSING else self.strings.text(self.cells[record.CLASS])

    @property
    def declared(self) -> list[str | None]:
        return [None if cell == MISSING else self.strings.text(cell) for cell in self.cells[record.LABELS :]]


class Reader:
    """A decoder and a recogniser."""

    def __init__(self, spec: str = "", settings: Settings | None = None) -> None:
        profiles = [profile(spec)] if spec else BUILT_IN
        settings = settings or Settings()
        wanted = wanted_by(profiles, settings)
        self.strings = Strings()
        self.names = [each.name for each in profiles]
        self.decoder = Decoder(wanted)
        self.recogniser = Recogniser(profiles, settings, wanted, self.strings)

    def rows(self, *spans: Sent) -> list[Seen]:
        batch = self.decoder.decode(body(*spans))
        cells = self.recogniser.recognise(batch, self.decoder.generation, None).tolist()
        width = self.recogniser.width
        return [Seen(cells[at : at + width], self.strings) for at in range(0, len(cells), width)]

    def row(self, sent: Sent) -> Seen:
        (seen,) = self.rows(sent)
        return seen

    @property
    def dropped(self) -> Counter[str]:
        return self.recogniser.dropped


def profile(spec: str) -> SourceProfile:
    """One profile; `spec` are lines that stand under it, `role` and `match` aside."""
    head = "apiVersion: goodput/v1\nkind: SourceProfile\nmetadata: {name: own}\nspec:\n"
    lines = ["role: engine", "match: [{name: request}]", *spec.splitlines()]
    lines += [] if "stamps:" in spec else ["stamps: {arrived: start}"]
    text = head + "\n".join(f"  {line}" for line in lines if line.strip())
    problems: list[Any] = []
    (found,) = read_profiles(read(text, "own.yaml", problems, {}))
    assert not problems, problems
    return found


def request(attributes: dict[str, Value] | None = None, **others: Any) -> Sent:
    """A span of one second that the profile matches."""
    return span("request", **({"start": 0, "end": 1_000, "attributes": attributes} | others))


# Stamps

SPAN_STAMPS = {
    "start": ("arrived: start", {}, {"arrived": 0}),
    "end": ("ended: end", {}, {"ended": 1000}),
    "seconds after the start": ("first_token: {from: start, plus: t, unit: s}", {"t": 0.25}, {"first_token": 250}),
    "milliseconds": ("first_token: {from: start, plus: t, unit: ms}", {"t": 0.25}, {"first_token": 0.25}),
    "microseconds": ("first_token: {from: start, plus: t, unit: us}", {"t": 250}, {"first_token": 0.25}),
    "nanoseconds": ("first_token: {from: start, plus: t, unit: ns}", {"t": 250_000}, {"first_token": 0.25}),
    "whole seconds": ("first_token: {from: start, plus: t, unit: s}", {"t": 1}, {"first_token": 1000}),
    "before the end": ("first_token: {from: end, minus: t, unit: s}", {"t": 0.25}, {"first_token": 750}),
    "a number as text": ("first_token: {from: start, plus: t, unit: ms}", {"t": "250.5"}, {"first_token": 250.5}),
    "text with its own unit": (
        "first_token: {from: start, plus: t, unit: s}",
        {"t": "250.5ms"},
        {"first_token": 250.5},
    ),
    "from another stamp": (
        "scheduled: {from: first_token, minus: p, unit: s}\nfirst_token: {from: start, plus: t, unit: s}",
        {"t": 0.5, "p": 0.2},
        {"first_token": 500, "scheduled": 300},
    ),
    "from a stamp that is not there": (
        "first_token: {from: start, plus: t, unit: s}\nscheduled: {from: first_token, minus: p, unit: s}",
        {"p": 0.2},
        {"first_token": None, "scheduled": None},
    ),
    "an instant": ("first_token: {attribute: t, unit: ms}", {"t": (ns(250) // MS)}, {"first_token": 250}),
    "an instant as text": ("first_token: {attribute: t, unit: ns}", {"t": str(ns(250))}, {"first_token": 250}),
    "the first way that there is": (
        "first_token: [{from: start, plus: a, unit: s}, {from: start, plus: b, unit: s}, end]",
        {"b": 0.5},
        {"first_token": 500},
    ),
    "the next way where one cannot be": (
        "first_token: [{from: start, plus: a, unit: s}, {from: start, plus: b, unit: s}]",
        {"a": 9.0, "b": 0.5},
        {"first_token": 500},
    ),
}


@pytest.mark.parametrize(("spec", "attributes", "expected"), SPAN_STAMPS.values(), ids=SPAN_STAMPS)
def test_a_stamp_is_found(spec: str, attributes: dict[str, Value], expected: dict[str, float | None]) -> None:
    stamps = "\n".join(f"  {line}" for line in spec.splitlines())
    seen = Reader(f"stamps:\n{stamps}").row(request(attributes))
    assert {stamp: getattr(seen, stamp) for stamp in expected} == expected


@pytest.mark.parametrize(
    ("value", "stamp_ms", "reason"),
    [
        (0.25, 250, None),
        (0, 0, None),
        (1.0, 1000, None),
        (1 + SLACK_NS / 1e9, 1100, None),
        (1.2, None, "longer_than_span"),
        (1e9, None, "longer_than_span"),
        (1e300, None, "not_a_number"),
        (-0.001, None, "negative"),
        (-5, None, "negative"),
        ("soon", None, "not_a_number"),
        ("", None, "not_a_number"),
        (True, None, "not_a_number"),
        ("NaN", None, "not_a_number"),
        (float("nan"), None, "not_a_number"),
        (float("inf"), None, "not_a_number"),
    ],
)
def test_an_interval_that_cannot_be_loses_its_value_by_reason(
    value: Value, stamp_ms: float | None, reason: str | None
) -> None:
    reader = Reader("stamps: {arrived: start, first_token: {from: start, plus: t, unit: s}}")
    seen = reader.row(request({"t": value}))
    assert (seen.arrived, seen.first_token) == (0, stamp_ms)
    assert reader.dropped == ({} if reason is None else {reason: 1})


@pytest.mark.parametrize(("at_ms", "kept"), [(-100, True), (-101, False), (1_100, True), (1_101, False), (500, True)])
def test_a_stamp_lies_in_its_span_or_a_tenth_of_a_second_beside_it(at_ms: float, kept: bool) -> None:
    reader = Reader("stamps: {first_token: {event: t}}")
    seen = reader.row(request(events=[event("t", at_ms)]))
    assert seen.first_token == (at_ms if kept else None)
    assert reader.dropped == ({} if kept else {"outside_span": 1})


EVENTS = {
    "the first": ("{event: chunk}", "a@300(1) b@100(1) c@200(1)", 100),
    "the last": ("{event: chunk, pick: last}", "a@300(1) b@100(1) c@200(1)", 300),
    "the second": ("{event: chunk, skip: 1}", "a@300(1) b@100(1) c@200(1)", 200),
    "the last but one": ("{event: chunk, pick: last, skip: 1}", "a@300(1) b@100(1) c@200(1)", 200),
    "not so many": ("{event: chunk, skip: 3}", "a@300(1) b@100(1) c@200(1)", None),
    "none": ("{event: other}", "a@300(1)", None),
    "with a value": ('{event: chunk, where: {tokens: "[1-9]"}}', "a@100(0) b@200(1)", 200),
    "with one of some values": ("{event: chunk, where: {kind: b|c}}", "a@100(1) b@200(1)", 200),
    "of the whole value": ("{event: chunk, where: {kind: b}}", "bb@100(1) b@200(1)", 200),
    "with an attribute": ("{event: chunk, where: {kind: present}}", "a@100(1)", 100),
    "without an attribute": ("{event: chunk, where: {kind: absent}}", "a@100(1)", None),
    "without another attribute": ("{event: chunk, where: {error: absent}}", "a@100(1)", 100),
    "with all of them": ('{event: chunk, where: {kind: b, tokens: "1"}}', "b@100(0) a@200(1) b@300(1)", 300),
}


@pytest.mark.parametrize(("way", "sent", "expected"), EVENTS.values(), ids=EVENTS)
def test_an_event_is_picked(way: str, sent: str, expected: float | None) -> None:
    seen = Reader(f"stamps: {{first_token: {way}}}").row(request(events=chunks(sent)))
    assert seen.first_token == expected


def test_where_events_were_dropped_the_first_is_not_known_and_the_last_is() -> None:
    reader = Reader("stamps: {first_token: {event: chunk}, last_token: {event: chunk, pick: last}}")
    sent = request(events=chunks("a@100(1) b@200(1)"))
    whole = reader.row(sent)
    sent.message.dropped_events_count = 3
    cut = reader.row(sent)
    assert (whole.first_token, whole.last_token) == (100, 200)
    assert (cut.first_token, cut.last_token) == (None, 200)


# Counts


@pytest.mark.parametrize(
    ("value", "count", "dropped"),
    [
        (7, 7, False),
        (0, 0, False),
        ("7", 7, False),
        (7.0, 7, False),
        ("7.0", 7, False),
        (MAX_COUNT, MAX_COUNT, False),
        (MAX_COUNT + 1, None, True),
        (-1, None, True),
        ("many", None, True),
        (True, None, True),
        (float("nan"), None, True),
    ],
)
def test_a_count_is_a_whole_number_or_lost(value: Value, count: int | None, dropped: bool) -> None:
    reader = Reader("tokens: {output: [n]}")
    assert reader.row(request({"n": value})).output == count
    assert reader.dropped == ({"not_a_count": 1} if dropped else {})


def test_each_count_has_its_cell_and_takes_the_first_key_that_is_there() -> None:
    reader = Reader("tokens: {input: [new, old], output: [out], cached_input: [cached]}\nitems: images")
    seen = reader.row(request({"old": 3, "out": 5, "cached": 2, "images": 4}))
    assert (seen.input, seen.output, seen.cached, seen.items) == (3, 5, 2, 4)
    assert reader.row(request({"new": "x", "old": 3})).input == 3, "the next key where one holds no count"
    assert reader.row(request()).input is None


# Numbers, which compiled code reads in other ways than Python does


UNITS_NS = {"s": 10**9, "ms": 10**6, "us": 1_000, "ns": 1}
LONG = Reader("stamps: {scheduled: start, " + ", ".join(
    f"{stamp}: {{from: scheduled, plus: t, unit: {unit}}}"
    for stamp, unit in zip(("enqueued", "dequeued", "first_token", "last_token"), UNITS_NS, strict=True)
) + "}")  # fmt: skip
"""Of a span as long as any can be."""
DIGITS = st.text("0123456789", min_size=1, max_size=20)
HALVES = st.builds(lambda whole, part: (whole + 0.5) * 10.0**-part, st.integers(0, 10**6), st.integers(0, 9))
NUMBERS: st.SearchStrategy[Value] = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(10**10), 10**10),
    st.floats(),
    st.floats(-1e-8, 1e-8),
    st.floats(0, 1e10),
    HALVES,
    DIGITS,
    st.builds(lambda whole, part: f"{whole}.{part}", DIGITS, DIGITS),
    st.builds(lambda sign, whole, rest: sign + whole + rest, st.sampled_from(["", "-", "+", " "]), DIGITS,
              st.sampled_from(["", ".", "e3", "ms", "s", "\n", ".5", "_0"])),
    st.text("0123456789.-", max_size=30),
)  # fmt: skip


@given(NUMBERS)
@example(2**62 / 10**9)
@example(float(2**62))
@example("4611686018.427387904")
@example("4611686018.427387905")
@example("999999999999999999")
@example("1.123456789")
@example("0.0000000005")
@example(0.5e-9)
@example(1.5e-9)
def test_a_number_is_what_python_makes_of_it(value: Value) -> None:
    LONG.dropped.clear()
    sent = request({"t": value})
    sent.message.start_time_unix_nano, sent.message.end_time_unix_nano = 1, 2**62 - 1
    cells = LONG.row(sent).cells
    reasons: Counter[str] = Counter()
    for stamp, unit_ns in zip(("enqueued", "dequeued", "first_token", "last_token"), UNITS_NS.values(), strict=True):
        expected, reason = interval(value, unit_ns)
        assert cells[record.STAMP_CELLS[stamp]] == expected
        reasons += Counter([reason] if reason else [])
    assert LONG.dropped == reasons


def interval(value: Value, unit_ns: int) -> tuple[int, str | None]:
    """What the stamp is, or why there is none."""
    if isinstance(value, int):
        found: int | None = value * unit_ns
    else:
        found = scaled(value, unit_ns) if isinstance(value, float) else parsed(str(value), unit_ns)
    if found is None:
        return MISSING, "not_a_number"
    if found < 0:
        return MISSING, "negative"
    if found > min(2**62, 2**62 - 2 + SLACK_NS):
        return MISSING, "longer_than_span"
    return (1 + found, None) if 1 + found <= 2**62 - 1 + SLACK_NS else (MISSING, "outside_span")


# Ids


IDS = st.one_of(
    st.from_regex(r"([0-9]{1,5}_)?(chatcmpl-(tool-)?|cmpl-|resp_)?[a-z0-9é\n-]{0,6}(-[0-9]{0,5})?", fullmatch=True),
    st.text("0123456789_-cmpl\né", max_size=12),
)
VLLM = next(each for each in BUILT_IN if each.name == "vllm")
SHAPED = Reader()


@given(IDS)
@example("1_chatcmpl-a-1")
@example("12345_cmpl-a")
@example("cmpl-a-12345")
@example("cmpl-\n-1")
@example("-1")
@example("cmpl--1")
def test_an_id_is_what_the_patterns_make_of_it(identity: str) -> None:
    shape = VLLM.request_id
    assert shape is not None
    sequence = unnumbered(identity, shape.choice)
    own = unnumbered(sequence, shape.sequence)
    own = next((own[len(front) :] for front in shape.strip if own.startswith(front)), own)
    cells = SHAPED.row(vllm(0, 9, attributes={"gen_ai.request.id": identity})).cells
    expected = [hash(own.encode()), hash(sequence.encode())] if own else [MISSING, MISSING]
    assert [cells[record.REQUEST_ID], cells[record.SEQUENCE_ID]] == expected


# Which profile


MATCHES = {
    "name": ("[{name: request}]", {}, True),
    "another name": ("[{name: other}]", {}, False),
    "a pattern of names": ("[{name: 're*'}]", {}, True),
    "one of some": ("[{name: other}, {name: request}]", {}, True),
    "scope": ("[{scope: lib}]", {"scope": "lib"}, True),
    "another scope": ("[{scope: lib}]", {"scope": "lib2"}, False),
    "no scope": ("[{scope: ''}]", {"scope": ""}, True),
    "no scope, and there is one": ("[{scope: ''}]", {"scope": "lib"}, False),
    "kind": ("[{kind: server}]", {"kind": "server"}, True),
    "one of some kinds": ("[{kind: [client, server]}]", {"kind": "server"}, True),
    "another kind": ("[{kind: client}]", {"kind": "server"}, False),
    "an attribute": ("[{attributes: {a: present}}]", {"attributes": {"a": ""}}, True),
    "no attribute": ("[{attributes: {a: present}}]", {}, False),
    "absence": ("[{attributes: {a: absent}}]", {}, True),
    "absence, and it is there": ("[{attributes: {a: absent}}]", {"attributes": {"a": 1}}, False),
    "a value": ("[{attributes: {a: 'x|y'}}]", {"attributes": {"a": "y"}}, True),
    "a whole value": ("[{attributes: {a: x}}]", {"attributes": {"a": "xx"}}, False),
    "a number": ("[{attributes: {a: '200'}}]", {"attributes": {"a": 200}}, True),
    "a boolean": ("[{attributes: {a: 'true'}}]", {"attributes": {"a": True}}, True),
    "a double": ("[{attributes: {a: '0[.]5'}}]", {"attributes": {"a": 0.5}}, True),
    "a resource": ("[{resource: {r: x}}]", {"resource": {"r": "x"}}, True),
    "another resource": ("[{resource: {r: x}}]", {"resource": {"r": "y"}}, False),
    "a resource attribute that is absent": ("[{resource: {q: absent}}]", {"resource": {"r": "y"}}, True),
    "all that is said": ("[{name: request, kind: client}]", {"kind": "server"}, False),
}


@pytest.mark.parametrize(("match", "sent", "matches"), MATCHES.values(), ids=MATCHES)
def test_a_span_matches_a_profile(match: str, sent: dict[str, Any], matches: bool) -> None:
    own = profile("")
    (wanted,) = read_matches(match)
    reader = Reader()
    profiles = [replace(own, matches=wanted)]
    keys = wanted_by(profiles, Settings())
    reader.decoder, reader.recogniser = Decoder(keys), Recogniser(profiles, Settings(), keys, reader.strings)
    assert reader.row(request(**sent)).profile == (0 if matches else UNRECOGNISED)


def read_matches(match: str) -> list[Any]:
    text = f"apiVersion: goodput/v1\nkind: SourceProfile\nmetadata: {{name: x}}\nspec: {{role: part, match: {match}}}"
    problems: list[Any] = []
    found = [each.matches for each in read_profiles(read(text, "x.yaml", problems, {}))]
    assert not problems, problems
    return found


def test_a_span_that_is_to_be_ignored_is_counted_by_reason() -> None:
    reader = Reader("ignore: [{name: 'start*', reason: start_up}, {name: x, kind: client, reason: other}]")
    rows = reader.rows(*(span(name, start=0, end=1) for name in ("start up", "x", "request")))
    assert [row.profile for row in rows] == [IGNORED, UNRECOGNISED, 0]
    assert reader.recogniser.ignored == {"start_up": 1}


def test_the_first_profile_that_matches_wins_and_matching_goes_before_ignoring() -> None:
    seen = {
        sent.message.name: reader_name(sent)
        for sent in (
            vllm(0, 9),
            envoy(0, 9),
            span("POST /v1", kind="server", start=0, end=9, attributes={"http.request.method": "POST"}),
        )
    }
    assert seen == {"llm_request": "vllm", "ingress": "envoy", "POST /v1": "http-server"}


def reader_name(sent: Sent) -> str:
    reader = Reader()
    number: int = reader.row(sent).profile
    return reader.names[number]


def test_what_one_span_says_is_not_said_of_the_next() -> None:
    reader = Reader("tokens: {output: [n]}")
    rows = reader.rows(request({"n": 5}), request(), span("other", start=0, end=1, attributes={"n": 5}), request())
    assert [row.output for row in rows] == [5, None, None, None]


def test_the_last_of_an_attribute_that_is_given_twice_wins() -> None:
    sent = request({"n": 5})
    sent.message.attributes.add(key="n").value.int_value = 6
    assert Reader("tokens: {output: [n]}").row(sent).output == 6


def test_role_source_and_failure_are_in_the_row() -> None:
    seen = Reader("first_token_from: chunk").row(request(failed=True))
    assert (seen.role, seen.source, seen.failed) == (ROLES.index("engine"), FIRST_TOKEN_SOURCES.index("chunk"), 1)
    assert Reader("").row(request()).failed == 0


# Outcome and status


@pytest.mark.parametrize(
    ("flags", "outcome"),
    [
        ("-", None), ("", None), ("DC", "cancelled"), ("UT", "timeout"), ("SI", "timeout"), ("DT", "timeout"),
        ("UMSDR", "timeout"), ("UO", "shed"), ("RL", "shed"), ("RLSE", "shed"), ("UF", "error"), ("UH", "error"),
        ("UC", "error"), ("URX", "error"), ("NR", "error"), ("UPE", "error"), ("LR", "error"),
        ("UF,URX", "error"), ("URX,DC", "cancelled"), ("UT,DC", "cancelled"), ("URX,UT", "timeout"), ("NR,RL", "shed"),
        ("DCX", None), ("NRX", None),
    ],
)  # fmt: skip
def test_envoys_response_flags_tell_the_outcome(flags: str, outcome: str | None) -> None:
    evidence = Reader().row(envoy(0, 9, flags=flags)).evidence
    assert evidence == (None if outcome is None else OUTCOMES.index(outcome))


@pytest.mark.parametrize(
    ("value", "status"),
    [(200, 200), ("200", 200), ("0", 0), ("-1", None), ("", None), ("OK", None), (200.0, None), ("99999", 9999)],
)
def test_a_status_is_a_number_or_digits(value: Value, status: int | None) -> None:
    assert Reader("status: [s]").row(request({"s": value})).status == status


def test_a_status_may_stand_in_an_event_and_the_first_that_is_there_counts() -> None:
    reader = Reader("status: [s, {event: answered, attribute: code}]")
    assert reader.row(request(events=[event("answered", 1, {"code": "503"})])).status == 503
    assert reader.row(request({"s": 200}, events=[event("answered", 1, {"code": "503"})])).status == 200


def test_the_first_evidence_that_matches_is_taken() -> None:
    spec = 'outcome: [{attribute: a, matches: "5..", is: error}, {event: e, attribute: b, matches: .+, is: cancelled}]'
    reader = Reader(spec)
    found = [
        reader.row(request({"a": 503}, events=[event("e", 1, {"b": "x"})])).evidence,
        reader.row(request({"a": 200}, events=[event("e", 1, {"b": "x"})])).evidence,
        reader.row(request({"a": 200})).evidence,
    ]
    assert found == [OUTCOMES.index("error"), OUTCOMES.index("cancelled"), None]


@pytest.mark.parametrize(
    ("spec", "attributes", "stream"),
    [
        ("[{attribute: s}]", {"s": True}, 1),
        ("[{attribute: s}]", {"s": "True"}, 1),
        ("[{attribute: s}]", {"s": False}, 0),
        ("[{attribute: s}]", {}, None),
        ("[{attribute: s, absent: false}]", {}, 0),
        ("[{attribute: s, absent: true}]", {}, 1),
        ("[{attribute: c, matches: text/event-stream.*}]", {"c": "text/event-stream; charset=utf-8"}, 1),
        ("[{attribute: c, matches: text/event-stream.*}]", {"c": "application/json"}, 0),
        ("[{attribute: a}, {attribute: b}]", {"b": True}, 1),
        ("[{attribute: a, absent: false}, {attribute: b}]", {"b": True}, 1),
    ],
)
def test_whether_an_answer_is_a_stream_is_known_or_not(
    spec: str, attributes: dict[str, Value], stream: int | None
) -> None:
    assert Reader(f"stream: {spec}").row(request(attributes)).stream == stream


# Calls


@pytest.mark.parametrize(
    ("method", "path", "call"),
    [
        ("POST", "/v1/chat/completions", 1), ("POST", "/v1/completions", 1), ("post", "/v1/chat/completions", 1),
        ("POST", "/team-a/v1/chat/completions", 1), ("POST", "http://host:80/v1/chat/completions?x=1", 1),
        ("POST", "https://host/a/v1/x#frag", 1), ("POST", "/v1/images/generations", 1), (None, "/v1/messages", 1),
        ("GET", "/v1/chat/completions", 0), ("GET", "/v1/models", 0), ("POST", "/v1/models", 0), ("HEAD", "/v1/x", 0),
        ("POST", "/metrics", 0), ("POST", "/v1/metrics", 0), ("POST", "/health", 0), ("POST", "/v1/tokenize", 0),
        ("POST", "/generate", 0), ("POST", "http://host/v2/x", 0), ("POST", "http://v1/x", 0),
        ("POST", "/v1/embeddings", 0), ("POST", "/x?path=/v1/chat", 0),
    ],
)  # fmt: skip
def test_a_call_is_a_post_whose_path_says_so(method: str | None, path: str, call: int) -> None:
    attributes: dict[str, Value] = {"path": path}
    if method is not None:
        attributes["method"] = method
    assert Reader("path: path\nmethod: method").row(request(attributes)).call == call


def test_which_calls_count_is_a_setting() -> None:
    base = Settings()
    settings = replace(base, requests=replace(base.requests, embeddings=True, path="/generate"))
    reader = Reader("path: path", settings)
    paths = ["/generate", "/generate/embeddings", "/v1/chat"]
    assert [reader.row(request({"path": path})).call for path in paths] == [1, 1, 0]


def test_without_a_path_nothing_is_said_of_a_call() -> None:
    reader = Reader("path: path\nroute: task")
    assert reader.row(request()).call is None
    assert reader.row(request()).route is None


def test_a_route_is_the_path_without_host_and_query_or_what_stands_for_it() -> None:
    reader = Reader("path: path\nroute: task")
    urls = ["http://a/v1/x?y", "/v1/x", "https://b/v1/x#z"]
    assert len({reader.row(request({"path": url})).route for url in urls}) == 1
    assert reader.row(request({"path": "/v1/y"})).route != reader.row(request({"path": "/v1/x"})).route
    assert reader.row(request({"task": "t"})).route == reader.row(request({"task": "t"})).route is not None


@pytest.mark.parametrize(
    ("url", "path"),
    [("/a/b", "/a/b"), ("http://h", "/"), ("http://h/", "/"), ("http://h/a://b", "/a://b"), ("/a://b/c", "/a://b/c"),
     ("", ""), ("?x", ""), ("h/a", "h/a")],
)  # fmt: skip
def test_the_path_of_a_url_or_target(url: str, path: str) -> None:
    assert path_of(url) == path


# Ids


def test_ids_of_several_emitters_are_the_same_without_their_fronts_and_numbers() -> None:
    own = Reader(
        'request_id: {attribute: id, strip: [chatcmpl-, cmpl-], choice: "[0-9]+_(.*)", sequence: "(.*)-[0-9]+"}'
    )
    texts = ["abc", "chatcmpl-abc", "cmpl-abc", "abc-1", "chatcmpl-abc-12", "0_chatcmpl-abc"]
    rows = [own.row(request({"id": text})) for text in texts]
    assert len({row.request_id for row in rows}) == 1
    assert own.row(request({"id": "abd"})).request_id != rows[0].request_id


def test_the_sequences_of_a_request_are_told_apart_and_its_choices_are_not() -> None:
    own = Reader('request_id: {attribute: id, choice: "[0-9]+_(.*)", sequence: "(.*)-[0-9]+"}')
    first, choice, second = (own.row(request({"id": text})) for text in ("a-0", "1_a-0", "a-1"))
    assert first.request_id == choice.request_id == second.request_id
    assert first.sequence_id == choice.sequence_id != second.sequence_id


@pytest.mark.parametrize("attributes", [{}, {"id": ""}, {"id": "chatcmpl-"}])
def test_without_an_id_there_is_none(attributes: dict[str, Value]) -> None:
    seen = Reader("request_id: {attribute: id, strip: chatcmpl-}").row(request(attributes))
    assert (seen.request_id, seen.sequence_id) == (None, None)


def test_the_first_link_is_kept() -> None:
    others = [request(), request()]
    seen = Reader("").row(request(links=others))
    assert seen.link == int.from_bytes(others[0].message.span_id, "big", signed=True)
    assert Reader("").row(request()).link is None


# Clocks


@pytest.mark.parametrize(
    ("resource", "clock"),
    [
        ({"host.id": "i", "host.name": "h", "k8s.node.name": "n", "service.name": "s"}, "i"),
        ({"host.name": "h", "k8s.node.name": "n", "service.name": "s"}, "h"),
        ({"k8s.node.name": "n", "service.name": "s"}, "n"),
        ({"service.name": "s", "service.instance.id": "1"}, "s/1"),
        ({"service.name": "s"}, "s"),
        ({"host.name": "", "service.name": "s"}, "s"),
        ({}, ""),
    ],
)
def test_a_clock_is_known_by_its_host_else_by_its_service(resource: dict[str, str], clock: str) -> None:
    assert Reader().recogniser.clock_of(Resource(resource)) == clock


@pytest.mark.parametrize(
    ("resource", "clock"),
    [
        ({"host.name": "a"}, "a"), ({"host.name": "b"}, "a"), ({"host.name": "c"}, "c"),
        ({"service.name": "worker", "service.instance.id": "7"}, "vllm"),
        ({"service.name": "vllm", "service.instance.id": "1"}, "vllm"),
    ],
)  # fmt: skip
def test_clocks_that_are_said_to_be_the_same_are_one(resource: dict[str, str], clock: str) -> None:
    settings = replace(Settings(), align=Align(same_clock=(("a", "b"), ("vllm", "worker"))))
    assert Reader("", settings).recogniser.clock_of(Resource(resource)) == clock


# Labels


def test_the_model_is_the_one_that_answered_else_the_one_asked_for() -> None:
    reader = Reader("")
    attributes: dict[str, Value] = {"llm.model_name": "c", "gen_ai.request.model": "b", "gen_ai.response.model": "a"}
    found = []
    for _ in range(4):
        found.append(reader.row(request(attributes)).model)
        attributes = dict(list(attributes.items())[:-1])
    assert found == ["a", "b", "c", None]


def test_a_profile_may_say_where_model_and_class_stand() -> None:
    reader = Reader("labels: {model: [m], class: [k]}")
    seen = reader.row(request({"m": "mine", "gen_ai.response.model": "theirs", "k": "batch"}))
    assert (seen.model, seen.klass) == ("mine", "batch")


def test_labels_are_read_from_spans_of_no_profile_too() -> None:
    seen = Reader("").row(span("other", start=0, end=1, attributes={"inference.class": "batch", "llm.model_name": "m"}))
    assert (seen.profile, seen.klass, seen.model) == (UNRECOGNISED, "batch", "m")


@pytest.mark.parametrize(
    ("attributes", "resource", "value"),
    [
        ({"x-tenant": "a"}, {"x-tenant": "b"}, "a"),
        ({}, {"x-tenant": "b"}, "b"),
        ({"tenant.id": "c"}, {"x-tenant": "b"}, "c"),
        ({"x-tenant": ""}, {"x-tenant": "b"}, "b"),
        ({"x-tenant": 7}, {}, "7"),
        ({}, {}, None),
    ],
)
def test_a_declared_label_is_read_from_the_span_else_from_its_resource(
    attributes: dict[str, Value], resource: dict[str, Value], value: str | None
) -> None:
    labels = Labels(declared=(Label(name="tenant", attributes=("x-tenant", "tenant.id")),))
    seen = Reader("", replace(Settings(), labels=labels)).row(
        request(attributes, resource={"host.name": "h"} | resource)
    )
    assert seen.declared == [value]


def test_long_label_values_are_cut() -> None:
    assert Reader("").row(request({"llm.model_name": "m" * 1_000})).model == "m" * 256


# Strings


def test_a_text_has_one_number() -> None:
    strings = Strings()
    assert strings.number("a") == strings.number("a") != strings.number("b")
    assert [strings.text(strings.number(text)) for text in ("a", "b", "a")] == ["a", "b", "a"]


def test_texts_beyond_the_bound_are_other() -> None:
    strings = Strings(limit=3)
    numbers = [strings.number(f"t{n}") for n in range(5)]
    assert [strings.text(number) for number in numbers] == ["t0", "t1", "t2", "other", "other"]
    assert strings.number("t0") == numbers[0]
    assert strings.identity("t4") != strings.identity("t3"), "where only sameness counts, texts stay apart"


def test_room_is_made_in_turns_and_what_is_in_use_stays() -> None:
    strings = Strings(limit=2)
    kept, _ = strings.number("kept"), strings.number("gone")
    strings.turn()
    assert (strings.text(kept), strings.number("new") == strings.number("new")) == ("kept", True)
    assert strings.number("kept") == kept
    strings.turn()
    assert (strings.text(kept), strings.text(strings.number("gone"))) == ("kept", "gone")


# Numbers as text


@pytest.mark.parametrize(
    ("text", "ns_of_a_second"),
    [
        ("1", 10**9), ("0.5", 5 * 10**8), ("1e-3", 10**6), ("850.3ms", 850_300_000), ("12us", 12_000), ("12µs", 12_000),
        ("7ns", 7), ("2s", 2 * 10**9), ("-1", -(10**9)), ("", None), ("ms", None), ("1 ms", None), ("1m", None),
        ("1.2.3s", None), ("x", None), ("nan", None), ("inf", None), ("1e400", None),
    ],
)  # fmt: skip
def test_text_is_a_number_or_a_duration_with_its_unit(text: str, ns_of_a_second: int | None) -> None:
    assert parsed(text, 10**9) == ns_of_a_second


@given(st.text(max_size=12), st.sampled_from([1, 10**9]))
def test_no_text_is_anything_but_a_number_or_none(text: str, unit: int) -> None:
    value = parsed(text, unit)
    assert value is None or abs(value) < 2**100

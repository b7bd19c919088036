"""Whatever the JSON: protobuf that the decoder takes, or BadBody."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.decode.columns import BadBody
from exporter.decode.jsonbody import to_protobuf
from exporter.decode.protobuf import Decoder
from exporter.replay import bodies
from tests.exporter.decode.oracle import WANTED, seen_of

DECODER = Decoder(WANTED)

KEYS = st.sampled_from([
    "resourceSpans", "scopeSpans", "spans", "resource", "scope", "attributes", "key", "value", "name", "traceId",
    "spanId", "parentSpanId", "kind", "status", "code", "events", "links", "startTimeUnixNano", "endTimeUnixNano",
    "timeUnixNano", "stringValue", "intValue", "doubleValue", "boolValue", "arrayValue", "values", "kvlistValue",
    "traceState", "droppedEventsCount", "other",
])  # fmt: skip
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6),
    st.sampled_from(["5B8EFFF798038103D269B633813FC60C", "EEE19B7EC3C1B174", "1544712660000000000", "a", 10**400]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)


def takes(body: bytes) -> bool:
    """Whether the body is taken; if so, every span of it is a row or named as refused."""
    try:
        content, refused = to_protobuf(body)
    except BadBody:
        return False
    batch = DECODER.decode(content)
    assert {each.place for each in refused} <= {each.place for each in batch.refused}
    seen_of(batch)
    return True


def under(value: Any, *path: str) -> Any:
    """The value where a body holds such things, so that it is looked at."""
    for key in reversed(path):
        value = {key: [value]}
    return value


@settings(max_examples=300)
@given(VALUES, st.sampled_from([(), ("resourceSpans",), ("resourceSpans", "scopeSpans", "spans")]))
def test_any_json_is_spans_or_a_bad_body(value: Any, path: tuple[str, ...]) -> None:
    takes(json.dumps(under(value, *path)).encode())


@settings(max_examples=200)
@given(st.binary(max_size=30) | st.text(max_size=30).map(str.encode))
def test_any_bytes_are_spans_or_a_bad_body(body: bytes) -> None:
    takes(body)


@pytest.fixture(scope="module")
def recorded(captures: Path) -> list[Any]:
    """Recorded JSON bodies."""
    return [
        json.loads(body.content)
        for file in sorted(captures.glob("*/traces.json.lines"))
        for body in list(bodies(file))[:20]
        if len(body.content) < 10_000
    ]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything in a document."""
    found = [path]
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found += places(inner, (*path, key))
    return found


@settings(max_examples=300)
@given(st.integers(0, 2**16), st.lists(st.tuples(st.integers(0, 2**16), VALUES), min_size=1, max_size=3))
def test_a_recorded_body_with_other_values_is_spans_or_a_bad_body(
    recorded: list[Any], choice: int, changes: list[tuple[int, Any]]
) -> None:
    document = copy.deepcopy(recorded[choice % len(recorded)])
    for place, value in changes:
        paths = places(document)[1:]
        if not paths:
            break
        *way, last = paths[place % len(paths)]
        holder = document
        for key in way:
            holder = holder[key]
        holder[last] = value
    takes(json.dumps(document).encode())


def test_recorded_bodies_are_taken(recorded: list[Any]) -> None:
    assert len(recorded) > 10
    assert all(takes(json.dumps(document).encode()) for document in recorded)

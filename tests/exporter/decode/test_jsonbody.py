import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from exporter.decode import columns
from exporter.decode.columns import BadBody, Refused
from exporter.decode.jsonbody import to_protobuf
from exporter.decode.protobuf import Decoder
from exporter.replay import bodies
from tests.exporter.decode.oracle import WANTED, Attribute, Seen, seen_of

TRACE, SPAN = "5B8EFFF798038103D269B633813FC60C", "eee19b7ec3c1b174"


def document(**changes: Any) -> dict[str, Any]:
    """A body of one span."""
    span = {"traceId": TRACE, "spanId": SPAN, "startTimeUnixNano": "1000", "endTimeUnixNano": "2000"} | changes
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def decode(value: Any) -> tuple[list[Seen], list[Refused]]:
    content, refused = to_protobuf(json.dumps(value).encode())
    return seen_of(Decoder(WANTED).decode(content)), refused


def only(**changes: Any) -> Seen:
    (seen,), refused = decode(document(**changes))
    assert refused == []
    return seen


def attributes(*values: Any) -> list[Attribute]:
    """What is read of attributes with these AnyValues."""
    return only(attributes=[{"key": "a", "value": value} for value in values]).attributes


# The mapping


def test_the_example_of_the_specification_is_read(data: Path) -> None:
    (seen,), refused = decode(json.loads((data / "otlp" / "trace.json").read_bytes()))
    assert refused == []
    assert (seen.trace.hex().upper(), seen.span.hex().upper()) == (TRACE, "EEE19B7EC3C1B174")
    assert seen.parent.hex().upper() == "EEE19B7EC3C1B173"
    assert (seen.start, seen.end) == (1_544_712_660_000_000_000, 1_544_712_661_000_000_000)
    assert (seen.kind, seen.name, seen.scope) == (2, "I'm a server span", "my.library")
    assert seen.resource == {"service.name": "my.service"}


def test_every_member_that_is_read_is_carried_over() -> None:
    seen = only(
        parentSpanId="0000000000000009", traceState="ot=th:8", name="n", kind=3, droppedEventsCount=4,
        status={"code": 2, "message": "no"}, attributes=[{"key": "tokens", "value": {"intValue": "7"}}],
        events=[{"timeUnixNano": "1500", "name": "token", "attributes": [{"key": "a", "value": {"intValue": 1}}]}],
        links=[{"traceId": TRACE, "spanId": SPAN}],
    )  # fmt: skip
    trace, span = bytes.fromhex(TRACE), bytes.fromhex(SPAN)
    assert seen == Seen(
        trace=trace, span=span, parent=bytes(7) + b"\x09", start=1_000, end=2_000, kind=3, status=2, name="n",
        scope="", resource={}, attributes=[(b"tokens", columns.INTEGER, 7)],
        events=[(b"token", 1_500, [(b"a", columns.INTEGER, 1)])], links=[(trace, span)], state=b"ot=th:8",
        dropped_events=4,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({"stringValue": "x"}, columns.STRING),
        ({"boolValue": False}, columns.BOOLEAN),
        ({"intValue": 5}, columns.INTEGER),
        ({"intValue": "-5"}, columns.INTEGER),
        ({"intValue": 5.0}, columns.INTEGER),
        ({"doubleValue": 0.5}, columns.DOUBLE),
        ({"doubleValue": 1}, columns.DOUBLE),
        ({"doubleValue": "0.5"}, columns.DOUBLE),
        ({"doubleValue": "NaN"}, columns.DOUBLE),
        ({"doubleValue": "-Infinity"}, columns.DOUBLE),
        ({"arrayValue": {"values": [{"stringValue": "x"}]}}, columns.STRING),
        ({"arrayValue": {}}, columns.OTHER),
        ({"arrayValue": {"values": [{"arrayValue": {"values": [{"intValue": 1}]}}]}}, columns.OTHER),
        ({"kvlistValue": {"values": []}}, columns.OTHER),
        ({"bytesValue": "AAE="}, columns.OTHER),
    ],
    ids=str,
)
def test_a_value_keeps_its_type(value: dict[str, Any], kind: int) -> None:
    assert [found for _, found, _ in attributes(value)] == [kind]


@pytest.mark.parametrize(
    "value",
    [
        None, {}, {"stringValue": None}, {"stringValue": 5}, {"boolValue": "true"}, {"boolValue": 1},
        {"intValue": True}, {"intValue": "1e3"}, {"intValue": 0.5}, {"intValue": "9223372036854775808"},
        {"intValue": "٣"}, {"intValue": [1]}, {"doubleValue": "a lot"}, {"doubleValue": True}, {"doubleValue": {}},
        {"unknownValue": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_value_of_the_wrong_type_loses_only_its_attribute(value: object) -> None:
    assert attributes(value, {"intValue": 1}) == [(b"a", columns.INTEGER, 1)]


def test_a_double_too_large_for_a_double_is_lost() -> None:
    body = json.dumps(document(attributes=[{"key": "a", "value": {"doubleValue": 0.5}}]))
    content, _ = to_protobuf(body.replace("0.5", "1" + "0" * 400).encode())
    assert seen_of(Decoder(WANTED).decode(content))[0].attributes == []


def test_absent_null_and_unknown_members_change_nothing() -> None:
    plain = only()
    assert plain == only(parentSpanId="", name=None, status=None, attributes=None, events=None, links=None, kind=None)
    assert plain == only(flags=257, droppedAttributesCount=3, somethingNew={"deep": [1]})
    assert decode({}) == decode({"resourceSpans": None}) == ([], [])
    assert (
        decode({"resourceSpans": [{"resource": None, "scopeSpans": [{"scope": None, "spans": []}, None]}, {}]})[0] == []
    )


def test_numbers_may_be_strings_and_strings_numbers() -> None:
    assert only(startTimeUnixNano=1000, endTimeUnixNano=2e3, kind="2") == only(kind=2)


def test_text_beyond_unicode_is_carried_as_a_question_mark() -> None:
    content, _ = to_protobuf(json.dumps(document(name="X")).replace('"X"', r'"a\ud800"').encode())
    assert seen_of(Decoder(WANTED).decode(content))[0].name == "a?"


# What one span loses by


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"traceId": "q6urzc3v"}, "traceId must be 32 hex characters, found 'q6urzc3v'"),
        (
            {"traceId": "W47/95gDgQPSabYzgT/GDA=="},
            "traceId must be 32 hex characters, found 'W47/95gDgQPSabYzgT/GDA=='",
        ),
        ({"traceId": "٣" * 32}, f"traceId must be 32 hex characters, found '{'٣' * 32}'"),
        ({"traceId": 5}, "traceId must be 32 hex characters, found 5"),
        ({"spanId": None}, "spanId must be 16 hex characters, found None"),
        ({"parentSpanId": "12"}, "parentSpanId must be 16 hex characters, found '12'"),
        ({"kind": "SPAN_KIND_SERVER"}, "kind must be an integer from 0 to 2147483647, found 'SPAN_KIND_SERVER'"),
        ({"kind": -1}, "kind must be an integer from 0 to 2147483647, found -1"),
        ({"status": {"code": "ERROR"}}, "code must be an integer from 0 to 2147483647, found 'ERROR'"),
        ({"startTimeUnixNano": 0.5}, f"startTimeUnixNano must be an integer from 0 to {2**63 - 1}, found 0.5"),
        ({"endTimeUnixNano": {}}, f"endTimeUnixNano must be an integer from 0 to {2**63 - 1}, found an object"),
        ({"events": [{"timeUnixNano": "now"}]}, f"timeUnixNano must be an integer from 0 to {2**63 - 1}, found 'now'"),
        ({"droppedEventsCount": 2**32}, "droppedEventsCount must be an integer from 0 to 4294967295, found 4294967296"),
    ],
    ids=range(13),
)
def test_a_span_that_cannot_be_read_is_refused_by_name_and_the_others_stay(change: Any, reason: str) -> None:
    body = document()
    spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans += [spans[0] | change, spans[0] | {"name": "third"}]
    content, refused = to_protobuf(json.dumps(body).encode())
    assert refused == [Refused(1, reason)]
    batch = Decoder(WANTED).decode(content)
    assert [each.name for each in seen_of(batch)] == ["", "third"]
    assert [each.place for each in batch.refused] == [1], "the decoder leaves out what stands in for it"


@pytest.mark.parametrize("link", [{}, None, {"traceId": TRACE}, {"traceId": "xyz", "spanId": SPAN}])
def test_a_link_with_bad_ids_is_left_out_and_its_span_stays(link: Any) -> None:
    good = {"traceId": TRACE.lower(), "spanId": SPAN.upper()}
    assert only(links=[link, good]).links == [(bytes.fromhex(TRACE), bytes.fromhex(SPAN))]


# What the body loses by


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "$: must be an object, found a list"),
        (None, "$: must be an object, found None"),
        ({"resourceSpans": {}}, "$.resourceSpans: must be a list, found an object"),
        ({"resourceSpans": [5]}, "$.resourceSpans[0]: must be an object, found 5"),
        ({"resourceSpans": [{"resource": "x"}]}, "$.resourceSpans[0].resource: must be an object, found 'x'"),
        (
            {"resourceSpans": [{"resource": {"attributes": [{"key": 1}]}}]},
            "$.resourceSpans[0].resource.attributes[0].key: must be a string, found 1",
        ),
        (
            {"resourceSpans": [{"scopeSpans": [{"scope": {"name": ["x"]}}]}]},
            "$.resourceSpans[0].scopeSpans[0].scope.name: must be a string, found a list",
        ),
        (
            document(name={"x": 1}),
            "$.resourceSpans[0].scopeSpans[0].spans[0].name: must be a string, found an object",
        ),
        (
            document(attributes={"a": 1}),
            "$.resourceSpans[0].scopeSpans[0].spans[0].attributes: must be a list, found an object",
        ),
        (
            document(attributes=[{"key": "a", "value": "x"}]),
            "$.resourceSpans[0].scopeSpans[0].spans[0].attributes[0].value: must be an object, found 'x'",
        ),
        (
            document(attributes=[{"key": "a", "value": {"arrayValue": {"values": [1]}}}]),
            "$.resourceSpans[0].scopeSpans[0].spans[0].attributes[0].value.values[0]: must be an object, found 1",
        ),
        (document(events=["x"]), "$.resourceSpans[0].scopeSpans[0].spans[0].events[0]: must be an object, found 'x'"),
        (
            {"resourceSpans": "x" * 100},
            f"$.resourceSpans: must be a list, found '{'x' * 56}...",
        ),
    ],
    ids=range(13),
)
def test_a_body_of_another_shape_is_refused_with_its_path(value: Any, message: str) -> None:
    with pytest.raises(BadBody) as caught:
        decode(value)
    assert str(caught.value) == message


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe\xfd", b'{"a": 1} x', b"[" * 100_000, b"1" * 5_000, b"\x0a\x00"])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(BadBody, match=r"^not JSON: |^\$: must be an object"):
        to_protobuf(body)


def test_no_depth_is_too_much_for_the_message() -> None:
    """What the parser just so takes must not be too deep for whoever speaks of it."""
    for depth in range(900, 1_000):
        with pytest.raises(BadBody):
            to_protobuf(b'{"resourceSpans": {"a":' + b"[" * depth + b"]" * depth + b"}}")


def test_deep_values_are_bounded() -> None:
    value: dict[str, Any] = {"intValue": 1}
    for _ in range(100):
        value = {"arrayValue": {"values": [value]}}
    assert attributes(value) == [(b"a", columns.OTHER, None)]


# Against protobuf


def as_otlp_json(body: bytes) -> bytes:
    """The same body in OTLP's JSON: what protobuf writes, with ids in hex and enums as integers."""
    found = MessageToDict(ExportTraceServiceRequest.FromString(body), use_integers_for_enums=True)
    for group in found.get("resourceSpans", []):
        for scoped in group.get("scopeSpans", []):
            for span in scoped.get("spans", []):
                for each in (span, *span.get("links", [])):
                    _in_hex(each)
    return json.dumps(found).encode()


def _in_hex(ids: dict[str, Any]) -> None:
    for key in ("traceId", "spanId", "parentSpanId"):
        if key in ids:
            ids[key] = b64decode(ids[key]).hex()


def test_json_and_protobuf_of_the_same_spans_give_the_same_rows(data: Path) -> None:
    checked = 0
    for file in sorted((data / "captures").glob("*/traces.pb")):
        for body in list(bodies(file))[:40]:
            if body.encoding == "protobuf":
                content, refused = to_protobuf(as_otlp_json(body.content))
                batch = Decoder(WANTED).decode(body.content)
                assert seen_of(Decoder(WANTED).decode(content)) == seen_of(batch)
                assert refused == []
                checked += batch.spans
    assert checked > 1_000

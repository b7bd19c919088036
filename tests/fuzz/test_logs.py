"""Log records of any kind: columns as protobuf's own parser reads them or BadBody, and no request that is lost."""

from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from exporter.config import Settings
from exporter.decode import columns
from exporter.decode.columns import BODY, BadBody, Batch, Wanted
from exporter.decode.protobuf import Decoder
from exporter.expose.collect import collect
from exporter.expose.text import write_text
from exporter.pipeline import Pipeline
from exporter.profile import built_in
from exporter.receive import Signal
from exporter.record import MISSING
from exporter.replay import bodies
from tests.exporter.live import slo, slos
from tests.fuzz.test_pipeline import STEPS, changed

pytestmark = pytest.mark.both_builds

S: Final = 1_000_000_000
KEYS: Final = ("access_log_type", "request_id", "emit_time", "response_flags", BODY)
WANTED: Final = Wanted(KEYS, ())
DECODER: Final = Decoder(WANTED)
PROFILES: Final = built_in()
SLOS, _ = slos(slo("ttft end_to_end 95 1s 5m", "completion end_to_end 99 2s 30m"))
Seen = tuple[int, int, bytes, bytes, str, dict[str, str]]


@pytest.fixture(scope="module")
def recorded(data: Path) -> list[tuple[Signal, bytes]]:
    """Small bodies of logs and of the spans beside them."""
    found: list[tuple[Signal, bytes]] = []
    for folder in sorted((data / "logs").iterdir()):
        for file in (*folder.glob("logs.pb*"), *(data / "captures" / folder.name).glob("traces.pb*")):
            small = sorted((each for each in bodies(file) if len(each.content) < 9_000), key=lambda e: len(e.content))
            found += [(each.signal, each.content) for each in small[:: max(1, len(small) // 5)]]
    return found


def of_batch(batch: Batch) -> list[Seen]:
    """Times, ids, event name and texts of every record."""
    found: list[Seen] = []
    for place in range(0, batch.spans * columns.HEAD, columns.HEAD):
        head = batch.heads[place : place + columns.HEAD].tolist()
        texts = {}
        for at in range(head[columns.ATTRIBUTES_FROM], head[columns.ATTRIBUTES_TO]):
            slot, kind, value, length = batch.attributes[at * columns.ATTRIBUTE : (at + 1) * columns.ATTRIBUTE]
            key = next(name for name, number in WANTED.keys.items() if number == slot).decode()
            text = batch.body[value : value + length].decode("utf-8", "replace") if kind == columns.STRING else ""
            texts[key] = text
        ids = [cell.to_bytes(8, "big", signed=True) for cell in head[: columns.PARENT]]
        times = [0 if head[cell] == MISSING else head[cell] for cell in (columns.START, columns.END)]
        name = batch.groups[head[columns.GROUP]].name
        found.append((times[0], times[1], ids[0] + ids[1], ids[2], name, texts))
    return found


def by_protobuf(body: bytes) -> list[Seen]:
    """The same, of records that can be used."""
    found: list[Seen] = []
    for group in ExportLogsServiceRequest.FromString(body).resource_logs:
        for item in (item for scope in group.scope_logs for item in scope.log_records):
            times = (item.time_unix_nano, item.observed_time_unix_nano)
            if len(item.trace_id) not in (0, 16) or len(item.span_id) not in (0, 8) or max(times) >= 2**62:
                continue
            values = [(each.key, each.value) for each in item.attributes] + [(BODY, item.body)]
            texts = {key: value.string_value for key, value in values if key in KEYS and value.WhichOneof("value")}
            trace, span = item.trace_id or bytes(16), item.span_id or bytes(8)
            found.append((times[0], times[1], trace, span, item.event_name, texts))
    return found


@settings(max_examples=200)
@given(st.integers(0, 2**16), st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=3))))
def test_what_protobuf_takes_is_read_alike(
    recorded: list[tuple[Signal, bytes]], choice: int, changes: list[tuple[float, bytes]]
) -> None:
    records = [content for signal, content in recorded if signal == "logs"]
    body = changed(records[choice % len(records)], changes)
    try:
        told = by_protobuf(body)
    except DecodeError:
        with suppress(BadBody):
            DECODER.decode(body, True)
        return
    assert of_batch(DECODER.decode(body, True)) == told


@settings(max_examples=100)
@given(STEPS, st.booleans())
def test_records_of_any_kind_cost_neither_the_process_nor_a_request(
    recorded: list[tuple[Signal, bytes]], steps: list[tuple[int, list[tuple[float, bytes]], int]], replay: bool
) -> None:
    pipeline, now_ns = Pipeline(Settings(), PROFILES, SLOS, replay=replay), 1_795_957_600 * S
    for choice, changes, seconds in steps:
        now_ns += seconds * S
        signal, content = recorded[choice % len(recorded)]
        with suppress(BadBody):
            pipeline.feed(
                changed(content, changes), encoding="protobuf", transport="http", now_ns=now_ns, signal=signal
            )
        if not replay:
            pipeline.tick(now_ns)
        assert {
            family.name for family in text_string_to_metric_families(write_text(collect(pipeline, now_ns)).decode())
        }
    if replay:
        pipeline.finish()
    else:
        pipeline.tick(now_ns + 700 * S)
        pipeline.tick(now_ns + 1400 * S)
        assert not pipeline.tally.flights.flights
    assert pipeline.table.stored == 0
    assert sum(pipeline.record_fates.values()) == sum(pipeline.records_received.values())
    for boundary in pipeline.report()["boundaries"].values():
        assert boundary["arrivals"] == sum(boundary["outcomes"].values()) + boundary["in_flight"]

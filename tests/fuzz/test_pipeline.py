"""Whatever comes in, in whatever order and at whatever time: a receipt or BadBody, and a scrape that parses."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from exporter.config import Settings
from exporter.decode.columns import BadBody
from exporter.expose.collect import collect
from exporter.expose.text import write_openmetrics, write_text
from exporter.pipeline import Pipeline
from exporter.profile import built_in
from exporter.replay import bodies
from tests.exporter.live import slo, slos

pytestmark = pytest.mark.both_builds

S = 1_000_000_000
PROFILES = built_in()
SLOS, _ = slos(slo("ttft end_to_end 95 1s 5m", "completion model 99 30s 30m"))


@pytest.fixture(scope="module")
def recorded(data: Path) -> list[bytes]:
    """Small bodies of every emitter."""
    found: list[bytes] = []
    for file in sorted((*(data / "captures").glob("*/traces.pb"), *(data / "captures").glob("*/traces.pb.gz"))):
        small = sorted((body.content for body in bodies(file) if len(body.content) < 8_000), key=len)
        found += small[:: max(1, len(small) // 3)]
    return found


CHANGES = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=3)), max_size=3)
STEPS = st.lists(st.tuples(st.integers(0, 2**16), CHANGES, st.integers(0, 30)), min_size=1, max_size=6)


def changed(body: bytes, changes: list[tuple[float, bytes]]) -> bytes:
    """The same body with some bytes replaced."""
    for share, part in changes:
        at = int(share * len(body))
        body = body[:at] + part + body[at + len(part) :]
    return body


@settings(max_examples=150)
@given(STEPS, st.booleans())
def test_spans_of_any_kind_cost_neither_the_process_nor_the_scrape(
    recorded: list[bytes], steps: list[tuple[int, list[tuple[float, bytes]], int]], replay: bool
) -> None:
    pipeline, now_ns = Pipeline(Settings(), PROFILES, SLOS, replay=replay), 1_790_000_000 * S
    for choice, changes, seconds in steps:
        now_ns += seconds * S
        content = changed(recorded[choice % len(recorded)], changes)
        with suppress(BadBody):
            pipeline.feed(content, encoding="protobuf", transport="http", now_ns=now_ns)
        if not replay:
            pipeline.tick(now_ns)
    if replay:
        pipeline.finish()
    else:
        pipeline.tick(now_ns + 700 * S)
    assert pipeline.table.stored == 0
    assert sum(pipeline.fates.values()) == sum(pipeline.received.values())
    families = collect(pipeline, now_ns)
    assert {family.name for family in text_string_to_metric_families(write_text(families).decode())}
    assert write_openmetrics(families).endswith(b"# EOF\n")
    for boundary in pipeline.report()["boundaries"].values():
        assert boundary["arrivals"] == sum(boundary["outcomes"].values()) + boundary["in_flight"]

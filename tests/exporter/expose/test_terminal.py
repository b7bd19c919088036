from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from exporter.expose.terminal import count, duration, number, show
from tests.exporter.live import Live, slo
from tests.exporter.spans import envoy, span, vllm


def shown(report: dict[str, Any], width: int = 110) -> str:
    """What a reader sees, without colours."""
    out = StringIO()
    show(report, Console(file=out, width=width))
    return out.getvalue()


def line(text: str, start: str) -> list[str]:
    """The cells of the line that begins with a word."""
    return next(each.split() for each in text.splitlines() if each.split()[:1] == [start])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"), (0, "0 ms"), (0.0001234, "0.123 ms"), (0.0123456, "12.3 ms"), (0.9994, "999 ms"), (1.0, "1 s"),
        (1.2345, "1.23 s"), (59.99, "60 s"), (999.4, "999 s"), (86_400.0, "86400 s"),
    ],
)  # fmt: skip
def test_a_time_is_shown_in_the_unit_that_reads_best(value: float | None, text: str) -> None:
    assert duration(value) == text


@pytest.mark.parametrize(
    ("value", "sign", "text"),
    [
        (None, False, "-"), (None, True, "-"), (0.0, False, "0.00"), (8.0, True, "+8.00"), (-0.5, True, "-0.50"),
        (20.0, False, "20.00"), (123.45, False, "123.5"), (3_000.0, False, "3,000"),
    ],
)  # fmt: skip
def test_a_rate_is_shown_with_as_many_digits_as_matter(value: float | None, sign: bool, text: str) -> None:
    assert number(value, sign=sign) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0"), (1_200, "1,200"), (2.5, "2.5")])
def test_a_count_is_whole_unless_it_was_sampled(value: float, text: str) -> None:
    assert count(value) == text


def test_no_data_is_a_dash_and_never_zero() -> None:
    live = Live(slo("ttft end_to_end 95 1s 5m"))
    live.feed(envoy(0, 1_000))
    text = shown(live.report(60_000))
    assert line(text, "ttft") == ["ttft", "0", "-", "-", "-", "-", "-", "-"]
    assert line(text, "completion")[1:3] == ["1", "1"]
    assert "no data" in text
    assert "0 good of 0: -" in text
    assert "output tokens" not in text


def test_a_report_without_requests_says_so() -> None:
    assert "No requests were found in these spans." in shown(Live().report(0))


def test_values_verdicts_and_rates_are_shown() -> None:
    live = Live(
        slo(
            "ttft end_to_end 95 1s 5m", "completion end_to_end 99 500ms 30m", spec="goodput: {target: 99%, period: 30d}"
        )
    )
    for second in range(10):
        gateway = envoy(second * 1_000, second * 1_000 + 1_000)
        live.feed(gateway, vllm(second * 1_000, second * 1_000 + 900, ttft=100, output=11, prompt=5, parent=gateway))
    text = shown(live.report(60_000))
    assert line(text, "ttft")[:4] == ["ttft", "10", "100", "ms"]
    assert "0 good of 10: 0.00 %, target 99 %" in text
    assert "failed: completion 10" in text
    assert "p95 <= 1 s" in text
    assert "violated" in text
    assert "met" in text
    assert "1.00 requests/s, 5.00 input tokens/s, 11.00 output tokens/s, 16.00 total tokens/s" in text
    assert "neither rate is the capacity" in text


def test_spans_that_were_not_used_are_told_by_reason() -> None:
    live = Live()
    live.feed(span("SELECT", start=0, end=1), span("Worker init", scope="vllm.worker", kind="internal", start=0, end=1))
    live.feed(vllm(0, 1_000, ttft=9_000))
    text = shown(live.report(60_000))
    assert "Spans: not_request 1, unrecognised 1, used 1" in text
    assert "No requests: start_up 1" in text
    assert "Values dropped: longer_than_span 1" in text


def test_clocks_are_shown_where_their_offset_is_known() -> None:
    live = Live()
    gateway = envoy(0, 1_000, resource={"host.name": "edge"})
    live.feed(gateway, vllm(120, 900, parent=gateway, resource={"host.name": "gpu"}))
    text = shown(live.report(60_000))
    assert line(text, "gpu") == ["gpu", "edge", "+10.000", "ms", "110.000", "ms"]


@pytest.mark.parametrize("width", [60, 110, 200])
def test_markup_in_what_senders_chose_is_text(width: int) -> None:
    live = Live()
    gateway = envoy(0, 1_000, resource={"host.name": "[red]edge[/]"})
    live.feed(gateway, vllm(120, 900, parent=gateway, resource={"host.name": "[/]"}))
    assert "[" in shown(live.report(60_000), width)

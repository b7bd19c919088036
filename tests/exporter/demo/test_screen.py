"""exporter.demo.screen: what stands on the screen follows from the report, and what is not known is a dash."""

import io
from typing import Any

import pytest
from rich.console import Console, RenderableType

from exporter.demo.screen import Moment, Reading, inside, line, picture, reading, summary
from exporter.demo.trace import PHASES, SECOND_NS

START = 1_000 * SECOND_NS
NORMAL, SURGE, RECOVERY = PHASES


def report(rate: float = 8.0, ttft_s: float | None = 0.05, verdict: str = "met") -> dict[str, Any]:
    metrics = {
        "ttft": {"count": 80, "p50": 0.02, "p95": ttft_s, "p99": ttft_s},
        "tpot": {"count": 80, "p50": 0.007, "p95": 0.008, "p99": 0.009},
        "completion": {"count": 80, "p50": 1.5, "p95": 3.25, "p99": 4.0},
    }
    window = {
        "arrivals_per_second": rate,
        "completions_per_second": rate,
        "backlog_growth_per_second": 0.0,
        "outcomes": {"ok": 80, "shed": 3, "error": 0},
        "metrics": metrics,
    }
    objective = {
        "metric": "ttft", "boundary": "end_to_end", "percentile": "95", "threshold_s": 1.0, "window": "10s",
        "verdict": verdict, "value_s": ttft_s, "samples": 80,
    }  # fmt: skip
    return {
        "boundaries": {"end_to_end": {"arrivals": 83, "in_flight": 7, "outcomes": {"ok": 80, "shed": 3, "error": 0}}},
        "windows": {
            "10s": {
                "from_unix_nano": START + SECOND_NS,
                "to_unix_nano": START + 11 * SECOND_NS,
                "boundaries": dict.fromkeys(("end_to_end", "service", "model"), window),
            }
        },
        "slos": {
            "chat": {
                "objectives": {"ttft": objective},
                "windows": {"10s": {"attainment": 0.96, "goodput_requests_per_second": 7.7}},
            }
        },
    }


def moment(*history: Reading) -> Moment:
    return Moment(phase=SURGE, elapsed_s=14.2, total_s=48, url="http://127.0.0.1:9464/metrics", history=history)


def printed(renderable: RenderableType) -> str:
    console = Console(file=io.StringIO(), width=80)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_screen_fits_a_terminal_of_80_by_24() -> None:
    rows = printed(picture(report(), moment(*[reading(report())] * 60))).splitlines()
    assert len(rows) <= 24
    assert max(map(len, rows)) <= 80


@pytest.mark.parametrize(
    "words",
    ["SURGE", "14 of 48 s", "http://127.0.0.1:9464/metrics", "8.0/s", "7.7/s", "good 96%", "in flight 7",
     "0.020  0.050", "1.50  3.25  4.00", "p95 <= 1.00 s", "met", SURGE.advice[:40]],
)  # fmt: skip
def test_the_screen_shows(words: str) -> None:
    assert words in printed(picture(report(), moment()))


def test_curves_share_one_scale_and_unknown_readings_are_blank() -> None:
    low, high = (Reading(arrivals=value, completions=None, goodput=2.0, attainment=None) for value in (2.0, 16.0))
    rows = printed(picture(report(), moment(low, high))).splitlines()
    assert next(row for row in rows if row.startswith("arrivals")).rstrip().endswith("▁█")
    assert next(row for row in rows if row.startswith("goodput")).rstrip().endswith("▁▁")
    assert next(row for row in rows if row.startswith("completions")).rstrip().endswith("8.0/s")


def test_an_empty_report_is_dashes_and_no_zero() -> None:
    text = printed(picture({}, moment()))
    assert "-  -  -" in text
    assert "0.0" not in text.replace("127.0.0.1", "")


def test_a_line_holds_every_boundary_metric_and_verdict() -> None:
    text = line(report(ttft_s=3.5, verdict="violated"), moment())
    assert "\n" not in text
    assert text.startswith(" 14.2s surge    arrivals 8.0 completions 8.0 goodput 7.7 good 96%")
    assert text.count("ttft 0.020/3.50/3.50 tpot 7.0/8.0/9.0 completion 1.50/3.25/4.00") == 3
    assert text.endswith("chat/ttft violated")


def test_a_line_without_samples_is_dashes() -> None:
    assert "model: ttft -/-/- tpot -/-/- completion -/-/-" in line({}, moment())


@pytest.mark.parametrize(
    ("begin_s", "end_s", "name"),
    [(0, 10, "normal"), (2, 12, "normal"), (3, 13, None), (12, 22, "surge"), (40, 50, None), (-1, 9, None)],
)
def test_a_window_belongs_to_a_phase_that_holds_all_of_it(begin_s: int, end_s: int, name: str | None) -> None:
    window = {"from_unix_nano": START + begin_s * SECOND_NS, "to_unix_nano": START + end_s * SECOND_NS}
    assert inside({"windows": {"10s": window}}, PHASES, START) == name


def test_a_report_without_a_window_belongs_to_no_phase() -> None:
    assert inside({}, PHASES, START) is None


def test_the_summary_names_the_numbers_to_look_at_and_both_counts() -> None:
    kept = {"normal": report(), "surge": report(rate=32.0, ttft_s=3.9, verdict="violated")}
    text = " ".join(printed(summary(kept, report(), 90, {"ok": 85, "shed": 5})).split())
    assert "32.0 arrivals/s" in text
    assert "3.90 s end to end" in text
    assert "violated" in text
    assert "Clients counted 90 requests: 85 ok, 5 shed." in text
    assert "Exporter counted 83 arrivals: 80 ok, 3 shed." in text
    assert "recovery" not in text, "a phase that was not seen is not shown"

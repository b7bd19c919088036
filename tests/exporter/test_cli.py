import gzip
import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from exporter.cli import main
from tests.exporter.live import slo
from tests.exporter.spans import body, envoy, vllm
from tests.exporter.wire import varint

WRONG_USE = 2
CHAT = slo("ttft end_to_end 95 200ms 5m", "completion end_to_end 95 2s 5m")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a capture of three requests and an SLO, to be run in."""
    monkeypatch.chdir(tmp_path)
    good, slow, lost = envoy(0, 1_000), envoy(2_000, 5_000), envoy(6_000, 7_000, status=404)
    engines = [
        vllm(100, 900, ttft=50, output=11, prompt=100, parent=good),
        vllm(2_100, 4_900, ttft=50, output=1, prompt=100, parent=slow),
    ]
    bodies = [body(good, engines[0]), body(slow, engines[1], lost)]
    (tmp_path / "traces.pb").write_bytes(b"".join(varint(len(each)) + each for each in bodies))
    (tmp_path / "slo.yaml").write_text(CHAT)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


# All commands


@pytest.mark.parametrize("command", ["serve", "replay", "check", "demo", "health"])
def test_every_command_has_help_with_an_example(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Example: goodput-exporter {command}" in result.output
    assert f"  {command} " in run("--help").output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Usage:"), (("replya",), "No such command 'replya'"), (("replay",), "Missing argument"),
        (("check",), "Missing argument"), (("replay", "x", "--lateness", "10"), "must be a duration with its unit"),
        (("serve", "--web.listen-address", "9464"), "must be [HOST]:PORT"),
        (("serve", "--web.listen-address", ":70000"), "must be [HOST]:PORT"),
        (("serve", "--log.level", "loud"), "'loud' is not one of"),
    ],
)  # fmt: skip
def test_wrong_use_is_said_and_has_its_own_exit_code(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == WRONG_USE
    assert message in result.output.replace("\n", " ")


# replay


def test_a_replay_prints_a_report(folder: Path) -> None:
    result = run("replay", "traces.pb", "--slo.file", "slo.yaml")
    assert (result.exit_code, result.stderr) == (0, "")
    for text in ("end_to_end", "ok 2", "client_error 1", "chat", "neither rate is the capacity"):
        assert text in result.output


def test_a_replay_prints_json_for_machines(folder: Path) -> None:
    result = run("replay", "traces.pb", "--slo.file", "slo.yaml", "--json")
    report = json.loads(result.stdout)
    assert list(report) == sorted(report)
    assert report["schema"] == "goodput-exporter/report/v1"
    boundary = report["boundaries"]["end_to_end"]
    assert boundary["arrivals"] == 3
    assert {outcome: count for outcome, count in boundary["outcomes"].items() if count} == {"ok": 2, "client_error": 1}
    assert boundary["metrics"].keys() == {"ttft", "tpot", "completion"}
    assert boundary["metrics"]["ttft"].keys() == {"count", "mean", "p50", "p95", "p99", "max", "error_ratio"}
    assert boundary["tokens"] == {"input": 200, "output": 12, "cached_input": None, "items": None}
    chat = report["slos"]["chat"]
    assert (chat["eligible"], chat["good"], chat["failed"], chat["unjudged"]) == (
        2,
        1,
        {"completion": 1},
        {"client_error": 1},
    )
    assert {name: each["verdict"] for name, each in chat["objectives"].items()} == {
        "completion": "violated",
        "ttft": "met",
    }
    assert report["spans"] == {"used": 5}


def test_a_report_without_data_holds_nulls_and_no_zero_latency(folder: Path) -> None:
    (folder / "empty.pb").write_bytes(b"")
    result = run("replay", "empty.pb", "--slo.file", "slo.yaml", "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["boundaries"], report["as_of_unix_nano"]) == (0, {}, None)
    assert report["slos"]["chat"]["attainment"] is None
    assert {each["verdict"] for each in report["slos"]["chat"]["objectives"].values()} == {"no_data"}
    assert {each["value_s"] for each in report["slos"]["chat"]["objectives"].values()} == {None}


def rows(folder: Path) -> list[dict[str, Any]]:
    result = run("replay", "traces.pb", "--slo.file", "slo.yaml", "--requests", "out.jsonl")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]


def test_a_row_is_written_for_each_request_and_boundary(folder: Path) -> None:
    found = rows(folder)
    assert Counter(row["boundary"] for row in found) == {"end_to_end": 3, "service": 3, "model": 2}
    assert {frozenset(row) for row in found} == {frozenset((
        "trace_id", "span_id", "boundary", "model", "class", "outcome", "arrived_unix_nano", "first_token_unix_nano",
        "ended_unix_nano", "ttft_s", "tpot_s", "completion_s", "input_tokens", "output_tokens", "cached_input_tokens",
        "first_token_from", "uncertainty_s", "phases", "slos",
    ))}  # fmt: skip


def test_what_is_not_known_of_a_request_is_null(folder: Path) -> None:
    found = {(row["boundary"], row["outcome"], row["output_tokens"]): row for row in rows(folder)}
    good, single = found["end_to_end", "ok", 11], found["end_to_end", "ok", 1]
    refused = found["end_to_end", "client_error", None]
    assert (good["ttft_s"], good["tpot_s"], good["completion_s"], good["cached_input_tokens"]) == (
        0.15,
        0.075,
        1.0,
        None,
    )
    assert (single["tpot_s"], single["completion_s"]) == (None, 3.0)
    unknown = ("ttft_s", "tpot_s", "input_tokens", "output_tokens", "first_token_unix_nano", "first_token_from")
    assert [refused[key] for key in unknown] == [None] * len(unknown)
    assert refused["phases"] == {}


def test_verdicts_stand_in_the_row_at_which_the_slo_judges(folder: Path) -> None:
    found = {(row["boundary"], row["outcome"], row["output_tokens"]): row["slos"] for row in rows(folder)}
    assert found["end_to_end", "ok", 11] == {"chat": {"good": True, "failed": []}}
    assert found["end_to_end", "ok", 1] == {"chat": {"good": False, "failed": ["completion"]}}
    assert found["end_to_end", "client_error", None] == {"chat": {"good": None, "failed": []}}
    assert found["model", "ok", 11] == {}


def test_a_body_that_is_not_otlp_is_told_and_costs_only_itself(folder: Path) -> None:
    (folder / "traces.pb").write_bytes((folder / "traces.pb").read_bytes() + b"\x02\x0a\x05")
    result = run("replay", "traces.pb", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["boundaries"]["end_to_end"]["arrivals"] == 3
    assert "traces.pb: body 2 at byte" in result.stderr
    assert "a field of 5 bytes goes beyond the end of its message" in result.stderr
    assert "1 body was not OTLP and left out" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gone.pb",), "gone.pb: No such file or directory"),
        (("traces.pb", "--slo.file", "gone.yaml"), "gone.yaml:1:1: must be a readable file in UTF-8"),
        (("traces.pb", "--config.file", "slo.yaml"), "slo.yaml:1:1 apiVersion: must be a known key"),
        (("traces.pb", "--slo.file", "traces.pb"), "traces.pb:1:1"),
        (("traces.pb", "--requests", "no/such/folder.jsonl"), "No such file or directory"),
        (("empty",), "empty: no files of spans or logs in this folder"),
        (("bad.gz",), "bad.gz: gzip that is cut off or broken"),
    ],
    ids=range(7),
)
def test_a_file_that_cannot_be_used_ends_a_replay(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    (folder / "empty").mkdir()
    (folder / "bad.gz").write_bytes(gzip.compress(b"x" * 99)[:-4])
    result = run("replay", *arguments)
    assert (result.exit_code, result.stdout) == (WRONG_USE, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_the_same_spans_in_another_order_give_the_same_bytes(folder: Path) -> None:
    raw = (folder / "traces.pb").read_bytes()
    size = raw[0] & 127 | raw[1] << 7
    (folder / "reversed.pb").write_bytes(raw[size + 2 :] + raw[: size + 2])
    assert run("replay", "traces.pb", "--json").stdout == run("replay", "reversed.pb", "--json").stdout


# check


def test_check_says_that_all_is_well(folder: Path) -> None:
    result = run("check", "slo.yaml")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "1 file without a mistake\n")
    assert run("check", "slo.yaml", "slo.yaml").exit_code == 0


def test_check_names_every_mistake_and_fails(folder: Path) -> None:
    (folder / "slo.yaml").write_text(CHAT.replace("200ms", "200").replace("2s", "2"))
    result = run("check", "slo.yaml", "gone.yaml")
    assert result.exit_code == 1
    assert [line.split(" ")[0] for line in result.stdout.splitlines()] == [
        "gone.yaml:1:1:",
        "slo.yaml:6:71",
        "slo.yaml:7:77",
    ]


# serve and health


def test_serve_refuses_bad_files_before_it_listens(folder: Path) -> None:
    (folder / "config.yaml").write_text("windows: {delay: 10}\n")
    root = logging.getLogger()
    handlers = root.handlers[:]
    try:
        result = run("serve", "--config.file", "config.yaml", "--slo.file", "gone.yaml")
    finally:
        root.handlers[:] = handlers
    assert result.exit_code == WRONG_USE
    assert "config.yaml:1:18 windows.delay" in result.output
    assert "gone.yaml:1:1" in result.output


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "nonsense"])
def test_an_exporter_that_does_not_answer_is_not_healthy(url: str) -> None:
    result = run("health", "--url", url)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{url}: ")

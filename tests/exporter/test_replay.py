import gzip
import json
import os
import tracemalloc
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.config import Settings
from exporter.judge import Judgement
from exporter.measure import Interval, Measured
from exporter.pipeline import Pipeline
from exporter.profile import built_in
from exporter.replay import Body, Unreadable, bodies, feed, files_of, frames, hexadecimal, row_of, uncertainty_s
from tests.exporter.spans import body, envoy, json_body
from tests.exporter.wire import varint

PROTOBUF = [body(envoy(0, 1)), body(envoy(0, 2), envoy(0, 3))]
JSON = [json_body(envoy(0, 1)), json_body(envoy(0, 2), envoy(0, 3))]


def framed(contents: Sequence[bytes]) -> bytes:
    return b"".join(varint(len(content)) + content for content in contents)


def written(tmp_path: Path, raw: bytes, name: str = "traces.pb") -> Path:
    path = tmp_path / name
    path.write_bytes(raw)
    return path


PRETTY = json.dumps(json.loads(JSON[1]), indent=2).encode()
FORMS: dict[str, tuple[bytes, str, list[bytes]]] = {
    "framed protobuf": (framed(PROTOBUF), "protobuf", PROTOBUF),
    "framed JSON": (framed(JSON), "json", JSON),
    "one protobuf body": (PROTOBUF[1], "protobuf", PROTOBUF[1:]),
    "one JSON body": (JSON[1], "json", JSON[1:]),
    "one JSON body over several lines": (PRETTY, "json", [PRETTY]),
    "JSON lines": (b"\n".join(JSON) + b"\n", "json", JSON),
    "JSON lines with empty ones between them": (b"\n\n".join(JSON), "json", JSON),
    "JSON lines of Windows": (b"\r\n".join(JSON) + b"\r\n", "json", JSON),
    "gzipped as a whole": (gzip.compress(framed(PROTOBUF)), "protobuf", PROTOBUF),
    "gzipped JSON lines": (gzip.compress(b"\n".join(JSON)), "json", JSON),
    "gzipped body by body": (framed([gzip.compress(each) for each in PROTOBUF]), "protobuf", PROTOBUF),
    "gzipped both ways": (gzip.compress(framed([gzip.compress(each) for each in JSON])), "json", JSON),
    "some gzipped": (framed([PROTOBUF[0], gzip.compress(PROTOBUF[1])]), "protobuf", PROTOBUF),
    "nothing": (b"", "protobuf", []),
    "one empty frame": (b"\x00", "protobuf", [b""]),
}


@pytest.mark.parametrize(("raw", "encoding", "contents"), FORMS.values(), ids=FORMS)
def test_the_form_of_a_file_is_found_from_its_bytes(
    tmp_path: Path, raw: bytes, encoding: str, contents: list[bytes]
) -> None:
    found = list(bodies(written(tmp_path, raw)))
    assert [each.content for each in found] == contents
    assert {each.encoding for each in found} <= {encoding}


def test_a_json_document_that_could_be_a_frame_is_a_document(tmp_path: Path) -> None:
    """Its first byte is the size of what is left, and the next one that of a body."""
    raw = b'{\n"resourceSpans": []}'.ljust(124)
    assert frames(raw) == ([(1, 124)], True)
    assert [each.encoding for each in bodies(written(tmp_path, raw))] == ["json"]


def test_a_body_knows_where_it_stood(tmp_path: Path) -> None:
    path = written(tmp_path, framed(PROTOBUF))
    assert [each.place for each in bodies(path)] == [
        f"{path}: body 0 at byte 2", f"{path}: body 1 at byte {4 + len(PROTOBUF[0])}",
    ]  # fmt: skip
    lines = written(tmp_path, b"\n".join(JSON), "traces.jsonl")
    assert [each.place for each in bodies(lines)] == [f"{lines}:1", f"{lines}:2"]


@given(st.lists(st.sampled_from([*PROTOBUF, b"\x0a\x00", b""]), min_size=1, max_size=4))
def test_frames_are_found_again(contents: list[bytes]) -> None:
    raw = framed(contents)
    found, whole = frames(raw)
    assert whole
    assert [raw[start:stop] for start, stop in found] == contents


@given(st.binary(max_size=40))
def test_frames_follow_each_other_and_are_whole_if_they_reach_the_end(raw: bytes) -> None:
    found, whole = frames(raw)
    ends = [0, *(stop for _, stop in found)]
    assert all(end < start <= stop for end, (start, stop) in zip(ends, found, strict=False))
    assert whole == (ends[-1] == len(raw))


def test_a_recording_is_read_body_by_body_not_as_a_whole(tmp_path: Path) -> None:
    content = 200 * PROTOBUF[0]
    path = written(tmp_path, framed(500 * [content]))
    tracemalloc.start()
    count = sum(each.content == content for each in bodies(path))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 500
    assert most < path.stat().st_size / 20


def test_a_recording_may_come_through_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "traces.pb"
    os.mkfifo(path)
    with ThreadPoolExecutor() as pool:
        pool.submit(path.write_bytes, framed(PROTOBUF))
        assert [each.content for each in bodies(path)] == PROTOBUF


@pytest.mark.skipif(not Path("/proc/version").exists(), reason="needs files that the system makes up as they are read")
def test_a_file_that_has_no_end_to_seek_is_read() -> None:
    assert [each.encoding for each in bodies(Path("/proc/version"))] == ["protobuf"]


def test_a_recording_that_becomes_shorter_while_it_is_read_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, framed(1_000 * PROTOBUF))
    reading = bodies(path)
    assert next(reading).content == PROTOBUF[0]
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(Unreadable, match=r"traces.pb: it became shorter while it was read, at byte \d+"):
        assert all(each.content for each in reading)


def test_a_recording_that_is_cut_off_loses_only_its_last_body(tmp_path: Path) -> None:
    raw = framed(PROTOBUF)
    found = list(bodies(written(tmp_path, raw[:-3])))
    assert [each.content for each in found[:-1]] == PROTOBUF[:-1]
    assert found[-1].place.endswith(", cut off or broken")
    assert feed(pipeline(), found[-1])[0] is False


def test_a_json_line_that_is_broken_costs_only_itself(tmp_path: Path) -> None:
    path = written(tmp_path, b"\n".join([b'{"resourceSp', *JSON]), "traces.jsonl")
    assert [feed(pipeline(), each)[0] for each in bodies(path)] == [False, True, True]


# Bad files


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (gzip.compress(b"x" * 100)[:-5], "gzip that is cut off or broken: "),
        (b"\x1f\x8bnonsense", "gzip that is cut off or broken: "),
        (gzip.compress(b"x") + b"trailing", "gzip that is cut off or broken: "),
        (framed([gzip.compress(b"x" * 100)[:-5]]), "body 0 at byte 1: gzip that is cut off or broken: "),
    ],
    ids=range(4),
)
def test_bad_gzip_is_named_with_its_place(tmp_path: Path, raw: bytes, message: str) -> None:
    path = written(tmp_path, raw)
    with pytest.raises(Unreadable) as caught:
        list(bodies(path))
    assert str(caught.value).startswith(f"{path}: {message}")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"gone\.pb: No such file or directory"):
        list(bodies(tmp_path / "gone.pb"))


def test_what_a_file_inflates_to_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.replay.MAX_FILE", 1_000)
    with pytest.raises(Unreadable, match="more than 1000 bytes when inflated"):
        list(bodies(written(tmp_path, gzip.compress(bytes(1_001)))))


def test_deep_json_is_no_crash(tmp_path: Path) -> None:
    (found,) = bodies(written(tmp_path, b"[" * 100_000))
    assert feed(pipeline(), found)[0] is False


def pipeline() -> Pipeline:
    return Pipeline(Settings(), built_in(), [], replay=True)


@pytest.mark.parametrize(
    ("content", "taken", "fault"),
    [
        (PROTOBUF[1], True, ""),
        (b"\x0a\x05", False, "here: byte 2: a field of 5 bytes goes beyond the end of its message"),
        (
            body(envoy(0, 1), envoy(5, 4)),
            True,
            "here: span 1: end_time_unix_nano must not be before start_time_unix_nano",
        ),
    ],
    ids=range(3),
)
def test_a_body_that_is_not_otlp_loses_only_itself(content: bytes, taken: bool, fault: str) -> None:
    of = pipeline()
    found = feed(of, Body("here", "protobuf", content))
    assert found[0] == taken
    assert found[1].startswith(fault)
    assert bool(found[1]) == bool(fault)
    assert feed(of, Body("here", "protobuf", PROTOBUF[0])) == (True, "")


# Folders


def test_a_folder_stands_for_its_files_of_spans_and_logs(tmp_path: Path) -> None:
    names = ["b/traces.pb", "a/traces.json.lines", "a/traces.pb.gz", "a/otlp.jsonl", "c.otlp", "d.json", "e.bin",
             "a/logs.jsonl"]  # fmt: skip
    others = [
        "a/index.jsonl",
        "a/truth.jsonl.gz",
        "a/metrics.json",
        "README.md",
        "a/profile_export.jsonl",
    ]
    for name in (*names, *others):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert files_of([str(tmp_path)]) == sorted(tmp_path / name for name in names)
    assert files_of([str(tmp_path / "README.md"), str(tmp_path / "b")]) == [
        tmp_path / "README.md",
        tmp_path / "b/traces.pb",
    ]


def test_a_folder_without_spans_or_logs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    with pytest.raises(Unreadable, match="no files of spans or logs in this folder"):
        files_of([str(tmp_path)])


# Rows


def row(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"boundary": "model", "row": [-1, 1, 2] + [0] * 60}
    return row_of(Measured(**(fields | changes)), {}, {"model": "m", "class": "c"})


def test_what_is_not_known_is_null_never_zero() -> None:
    assert row() == {
        "trace_id": "ffffffffffffffff0000000000000001", "span_id": "0000000000000002", "boundary": "model",
        "model": "m", "class": "c", "outcome": "unknown", "arrived_unix_nano": None, "first_token_unix_nano": None,
        "ended_unix_nano": None, "ttft_s": None, "tpot_s": None, "completion_s": None, "input_tokens": None,
        "output_tokens": None, "cached_input_tokens": None, "first_token_from": None, "uncertainty_s": None,
        "phases": {}, "slos": {},
    }  # fmt: skip


def test_what_is_known_is_in_seconds() -> None:
    values = {"ttft": Interval(500_000_000, 0), "tpot_ns": 20_000_000, "completion": Interval(2_000_000_000, 3_000_000)}
    found = row(**values, phases={"queue": 1_000_000}, output=0)
    assert (found["ttft_s"], found["tpot_s"], found["completion_s"], found["uncertainty_s"]) == (0.5, 0.02, 2.0, 0.003)
    assert (found["phases"], found["output_tokens"]) == ({"queue": 0.001}, 0)


def test_verdicts_stand_in_the_row() -> None:
    judgements = {"b": Judgement(False, ("ttft",), "", ()), "a": Judgement(None, (), "cancelled", ())}
    found = row_of(Measured(boundary="model", row=[0] * 60), judgements, {})
    assert found["slos"] == {"a": {"good": None, "failed": []}, "b": {"good": False, "failed": ["ttft"]}}
    assert list(found["slos"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("ttft", "completion", "clock", "uncertainty"),
    [(0, 5, None, 5), (None, 5, None, None), (0, 0, None, 0), (0, 0, 9, 9)],
)
def test_the_uncertainty_is_the_largest_and_unknown_if_any_is(
    ttft: int | None, completion: int | None, clock: int | None, uncertainty: int | None
) -> None:
    found = Measured(
        boundary="x", row=[], ttft=Interval(1, ttft), completion=Interval(1, completion), clock_error_ns=clock
    )
    assert uncertainty_s(found) == (None if uncertainty is None else uncertainty / 1e9)


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_cell_in_hex_has_sixteen_digits_and_comes_back(cell: int) -> None:
    text = hexadecimal(cell)
    assert len(text) == 16
    assert int(text, 16) == cell % 2**64

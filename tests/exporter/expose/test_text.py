"""The text writer, against its golden files, prometheus-client's parsers and promtool."""

import gc
import subprocess
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric, parser
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.samples import Sample, Timestamp
from prometheus_client.utils import floatToGoString

from exporter import account
from exporter.account import Cells, Edges, Histogram, layout
from exporter.expose.text import (
    CHUNK_LINES,
    Exemplar,
    Family,
    Grid,
    HistogramPoint,
    Histograms,
    Point,
    Writer,
    spell_edge,
    write_openmetrics,
    write_text,
)
from exporter.histogram import slot_of_ns
from exporter.record import WEIGHT_ONE
from slo_rules.families import FAMILIES, FAMILY, FamilySpec

GOLDEN = Path(__file__).parents[2] / "golden"
TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
SLOW = Exemplar(TRACE, SPAN, 0.9, 1_700_000_000.25)


def small_scrape() -> list[Family]:
    """Every kind of family and of point, once."""
    ttft = HistogramPoint(
        ("end_to_end", 'a"b\\c\nd', "default", "model"), (0.25, 1.0, 20.0), (3, 1, 0, 2), 41.123, {1: SLOW}
    )
    arrivals = [Point(("end_to_end", "default", "span"), 7), Point(("model", "default", "span"), 6)]
    return [
        Family(FAMILY["inference_ttft_seconds"], [ttft]),
        Family(FAMILY["inference_arrivals_total"], arrivals),
        Family(FAMILY["inference_output_tokens_total"], [Point(("model", "llama", ""), 1_234_567, SLOW)]),
        Family(FAMILY["inference_slo_attainment_ratio"], []),
        Family(FAMILY["inference_slo_burn_rate"], [Point(("chat", "5m"), float("inf"))]),
        Family(FAMILY["inference_window_end_timestamp_seconds"], [Point((), 1_700_000_000)]),
    ]


def one_gauge(value: str) -> list[Family]:
    return [
        Family(FAMILY["inference_accelerators"], [Point((value,), 8)]),
        Family(FAMILY["goodput_exporter_open_requests"], [Point((), 3)]),
    ]


def samples_of(text: bytes) -> list[Sample]:
    return [s for family in parser.text_string_to_metric_families(text.decode()) for s in family.samples]


def openmetrics_families_of(text: bytes) -> list[Metric]:
    return list(openmetrics_parser.text_string_to_metric_families(text.decode()))  # type: ignore[no-untyped-call]


def openmetrics_samples_of(text: bytes) -> list[Sample]:
    return [s for family in openmetrics_families_of(text) for s in family.samples]


both_formats = pytest.mark.parametrize(
    ("write", "read"),
    [(write_text, samples_of), (write_openmetrics, openmetrics_samples_of)],
    ids=["text", "openmetrics"],
)
Write = Callable[[Iterable[Family]], bytes]
Read = Callable[[bytes], list[Sample]]


@pytest.mark.parametrize(("write", "file"), [(write_text, "exposition.txt"), (write_openmetrics, "exposition.om")])
def test_a_small_scrape_is_the_golden_file_to_the_byte(write: Write, file: str) -> None:
    assert write(small_scrape()).decode() == (GOLDEN / file).read_text()


@both_formats
def test_an_independent_parser_reads_back_every_value(write: Write, read: Read) -> None:
    found = {(s.name, *sorted(s.labels.items())): s.value for s in read(write(small_scrape()))}
    model = [("boundary", "end_to_end"), ("class", "default"), ("first_token_from", "model"), ("model", 'a"b\\c\nd')]
    buckets = {
        ("inference_ttft_seconds_bucket", *sorted([*model, ("le", le)])): value
        for le, value in (("0.25", 3), ("1.0", 4), ("20.0", 4), ("+Inf", 6))
    }
    assert found == {
        **buckets,
        ("inference_ttft_seconds_sum", *model): 41.123,
        ("inference_ttft_seconds_count", *model): 6,
        ("inference_arrivals_total", ("boundary", "end_to_end"), ("class", "default"), ("evidence", "span")): 7,
        ("inference_arrivals_total", ("boundary", "model"), ("class", "default"), ("evidence", "span")): 6,
        ("inference_output_tokens_total", ("boundary", "model"), ("model", "llama")): 1_234_567,
        ("inference_slo_burn_rate", ("slo", "chat"), ("window", "5m")): float("inf"),
        ("inference_window_end_timestamp_seconds",): 1_700_000_000,
    }


def test_openmetrics_names_counters_without_total_and_states_units_that_end_the_name() -> None:
    families = openmetrics_families_of(write_openmetrics(small_scrape()))
    assert [(f.name, f.type, f.unit) for f in families] == [
        ("inference_ttft_seconds", "histogram", "seconds"),
        ("inference_arrivals", "counter", ""),
        ("inference_output_tokens", "counter", "tokens"),
        ("inference_slo_attainment_ratio", "gauge", "ratio"),
        ("inference_slo_burn_rate", "gauge", ""),
        ("inference_window_end_timestamp_seconds", "gauge", "seconds"),
    ]


@both_formats
def test_quote_backslash_and_line_feed_in_a_label_come_back_as_they_were(write: Write, read: Read) -> None:
    text = write(one_gauge('a"b\\c\nd'))
    assert rb'inference_accelerators{model="a\"b\\c\nd"} 8.0' in text.split(b"\n")
    assert [(s.labels, s.value) for s in read(text)] == [({"model": 'a"b\\c\nd'}, 8), ({}, 3)]


@both_formats
@given(value=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_label_value_comes_back_as_it_was(write: Write, read: Read, value: str) -> None:
    assert [s.labels for s in read(write(one_gauge(value)))] == [{"model": value}, {}]


@both_formats
def test_what_utf8_cannot_carry_is_replaced_and_the_rest_still_parses(write: Write, read: Read) -> None:
    assert [s.labels for s in read(write(one_gauge("a\ud800b")))] == [{"model": "a?b"}, {}]


@both_formats
def test_an_empty_label_value_leaves_the_label_out(write: Write, read: Read) -> None:
    assert [s.labels for s in read(write(one_gauge("")))] == [{}, {}]
    assert b"inference_accelerators 8.0\n" in write(one_gauge(""))


@both_formats
def test_one_ttft_of_123_ms_is_0_123_under_seconds(write: Write, read: Read) -> None:
    point = HistogramPoint(("model", "llama", "default", "token"), (0.1, 0.25), (0, 1, 0), 0.123, {})
    values = {s.name: s.value for s in read(write([Family(FAMILY["inference_ttft_seconds"], [point])]))}
    assert values["inference_ttft_seconds_sum"] == 0.123
    assert all(name.count("_seconds") == 1 for name in values)


@pytest.mark.parametrize(
    ("edge", "spelt"),
    [
        (1, "1.0"), (0.25, "0.25"), (40.0, "40.0"), (1310.72, "1310.72"), (86_400, "86400.0"), (0.00005, "5e-05"),
        (999_999.5, "999999.5"), (1_000_000, "1e+06"), (1_234_567.5, "1.2345675e+06"), (1e16, "1e+16"),
        (float("inf"), "+Inf"),
    ],
)  # fmt: skip
def test_edges_are_spelt_as_in_go(edge: float, spelt: str) -> None:
    assert spell_edge(edge) == spelt


@given(edge=st.floats(min_value=0, exclude_min=True))
def test_edges_are_spelt_as_prometheus_client_spells_them(edge: float) -> None:
    assert spell_edge(edge) == floatToGoString(edge)  # type: ignore[no-untyped-call]


def test_exemplars_stand_on_counters_and_buckets_only() -> None:
    samples = openmetrics_samples_of(write_openmetrics(small_scrape()))
    found = {(s.name, s.labels.get("le")): s.exemplar for s in samples}
    carried = {key: exemplar for key, exemplar in found.items() if exemplar}
    assert list(carried) == [("inference_ttft_seconds_bucket", "1.0"), ("inference_output_tokens_total", None)]
    for exemplar in carried.values():
        assert exemplar.labels == {"trace_id": TRACE, "span_id": SPAN}
        assert (exemplar.value, exemplar.timestamp) == (0.9, Timestamp(1_700_000_000, 250_000_000))


def test_a_gauge_shows_no_exemplar() -> None:
    family = Family(FAMILY["inference_accelerators"], [Point(("llama",), 8, SLOW)])
    assert b" # {" not in write_openmetrics([family])


def test_the_plain_format_has_no_exemplars() -> None:
    assert b" # {" not in write_text(small_scrape())


@pytest.mark.parametrize(
    ("trace", "span", "shown"),
    [
        ("t" * 56, "s" * 57, {"trace_id": "t" * 56, "span_id": "s" * 57}),
        ("t" * 56, "s" * 58, {"trace_id": "t" * 56}),
        ("t" * 120, "s", {"trace_id": "t" * 120}),
        ("t" * 121, "s", None),
        ("", "", None),
    ],
    ids=["exactly_128", "span_id_too_many", "trace_id_alone", "neither", "no_ids"],
)
def test_exemplar_labels_stay_within_128_characters(trace: str, span: str, shown: dict[str, str] | None) -> None:
    point = Point(("model", "llama", "default"), 5, Exemplar(trace, span, 5, 1.0))
    (sample,) = openmetrics_samples_of(write_openmetrics([Family(FAMILY["inference_output_tokens_total"], [point])]))
    assert (sample.exemplar.labels if sample.exemplar else None) == shown


@both_formats
def test_a_later_scrape_by_the_same_writer_is_what_a_new_writer_writes(write: Write, read: Read) -> None:
    writer = Writer()
    later = writer.openmetrics if write is write_openmetrics else writer.text
    later(small_scrape())
    later(one_gauge("llama"))
    assert later(small_scrape()) == write(small_scrape())


def test_labels_of_series_that_are_gone_are_forgotten() -> None:
    class Watched(str):
        __slots__ = ("__weakref__",)

    writer = Writer()
    value = Watched("llama")
    watch = weakref.ref(value)
    writer.text(one_gauge(value))
    del value
    gc.collect()
    assert watch() == "llama"
    writer.text(one_gauge("qwen"))
    gc.collect()
    assert watch() is None


def test_a_point_with_the_wrong_number_of_labels_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        write_text([Family(FAMILY["inference_accelerators"], [Point((), 1)])])


def test_a_histogram_whose_counts_do_not_fit_its_edges_is_refused() -> None:
    point = HistogramPoint((), (0.1, 1.0), (1, 2), 0.3, {})
    with pytest.raises(ValueError, match="2 edges need one count more, found 2"):
        write_text([Family(FAMILY["goodput_exporter_evaluation_duration_seconds"], [point])])


def any_point(spec: FamilySpec) -> Point | HistogramPoint:
    labels = tuple("x" for _ in spec.labels)
    return HistogramPoint(labels, (0.1, 1.0), (1, 2, 3), 4.5, {}) if spec.kind == "histogram" else Point(labels, 1)


def every_family() -> list[Family]:
    return [Family(spec, [any_point(spec)]) for spec in FAMILIES]


def test_every_family_passes_the_strict_openmetrics_parser() -> None:
    text = write_openmetrics(every_family())
    assert len(openmetrics_families_of(text)) == len(FAMILIES)
    assert text.count(b"# EOF") == 1


@pytest.mark.needs("promtool")
def test_promtool_has_no_complaint_about_any_family() -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=write_text(every_family()), capture_output=True, check=False
    )
    assert (done.returncode, done.stdout.decode(), done.stderr.decode()) == (0, "", "")


# Columns

SIGNED = st.integers(-(2**63), 2**63 - 1)
WEIGHTS = st.one_of(
    st.integers(0, 10**6).map(lambda whole: whole * WEIGHT_ONE),
    st.integers(0, 2**64),
    st.sampled_from([2**53, 2**62, 2**73]).flatmap(lambda edge: st.integers(edge - 2, edge + 2)),
)
DURATIONS = st.one_of(
    st.integers(0, 10**10),
    st.sampled_from([99_999, 100_000, 10**9, 10**15, 10**16]).flatmap(lambda edge: st.integers(edge - 2, edge + 2)),
)
UNIX_NS = st.one_of(
    st.integers(0, 2**63 - 1),
    st.builds(lambda ms, off: ms * 10**6 + 500_000 + off, st.integers(10**12, 4 * 10**12), st.integers(-1500, 1500)),
)
LABEL = st.sampled_from(["", "llama", 'a"b', "\u00fcn\u00efcode", "x\ny"])


@both_formats
@given(data=st.data())
def test_columns_are_written_to_the_byte_as_their_points(write: Write, read: Read, data: st.DataObject) -> None:
    spec = FAMILY["inference_window_phase_seconds"]
    ns = data.draw(st.booleans())
    numbers = st.one_of(st.none(), DURATIONS if ns else WEIGHTS)
    grid = Grid([(window, "99") for window in ("1m", "1h")], "ns" if ns else "weight")
    whole = Grid()
    for key in data.draw(st.lists(st.tuples(LABEL, LABEL, LABEL), max_size=3)):
        grid.add(key, (data.draw(LABEL),), data.draw(st.lists(numbers, min_size=2, max_size=2)))
        whole.add(key, (), [data.draw(numbers)])
    of_whole = FAMILY["inference_output_tokens_total"]
    columns = [
        Family(spec, grid), Family(of_whole, whole), Family(FAMILY["inference_ttft_seconds"], any_histograms(data))
    ]  # fmt: skip
    assert write(columns) == write([Family(family.spec, list(family.points)) for family in columns])


def any_histograms(data: st.DataObject) -> Histograms:
    """A few of different edges, some with more than cells can hold."""
    cells = Cells()
    columns = Histograms(cells)
    for key in data.draw(st.lists(st.tuples(LABEL, LABEL, LABEL), max_size=3)):
        edges = Edges(data.draw(st.sampled_from([(10**8, 10**9), (5 * 10**4, 10**6, 20 * 10**9)])))
        place = cells.allocate(edges.size)
        for value in data.draw(st.lists(DURATIONS, max_size=4)):
            slot = slot_of_ns(value)
            seen = data.draw(st.tuples(SIGNED, SIGNED, SIGNED, UNIX_NS))
            weight = data.draw(WEIGHTS.filter(lambda weight: 0 < weight < 2**61))
            Histogram(edges, cells, place).add(value, weight, account.Exemplar(*seen))
            if data.draw(st.booleans()):
                size, of_sum, _ = layout()
                count = place + size * edges.bucket(value, slot)
                count += data.draw(st.sampled_from([0, of_sum, of_sum + 1]))
                cells.carried[count] = cells.carried.get(count, 0) + data.draw(WEIGHTS)
        columns.add(key, (data.draw(LABEL),), edges.edges_ns, place)
    return columns


def test_a_copy_of_cells_stays_as_it_was() -> None:
    cells = Cells()
    edges = Edges((10**9,))
    place = cells.allocate(edges.size)
    columns = Histograms(cells.copy())
    columns.add(("model", "llama", "default"), ("ok",), (10**9,), place)
    before = write_openmetrics([Family(FAMILY["inference_completion_seconds"], columns)])
    Histogram(edges, cells, place).add(10**8, WEIGHT_ONE, account.Exemplar(1, 2, 3, 4))
    cells.carried[place] = 2**70
    assert write_openmetrics([Family(FAMILY["inference_completion_seconds"], columns)]) == before


def test_columns_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="1 last labels need as many numbers, found 2"):
        Grid().add(("model",), (), (1, 2))


@both_formats
def test_chunks_are_a_whole_scrape_in_pieces_of_bounded_size(write: Write, read: Read) -> None:
    families = [*small_scrape(), long_family(), *one_gauge("llama")]
    chunks = list(Writer().chunks(families, openmetrics=write is write_openmetrics))
    assert b"".join(chunks) == write(families)
    assert len(chunks) > 3
    assert all(chunk.count(b"\n") < CHUNK_LINES + 50 for chunk in chunks)


def long_family() -> Family:
    cells = Cells()
    histograms = Histograms(cells)
    edges = Edges((10**9, 2 * 10**9))
    for number in range(3000):
        histograms.add(("model", f"model-{number}", "default"), ("ok",), edges.edges_ns, cells.allocate(edges.size))
    return Family(FAMILY["inference_completion_seconds"], histograms)

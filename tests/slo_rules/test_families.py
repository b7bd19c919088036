"""The registry of exported families: what the contract lists, no more, and named as Prometheus users expect."""

import re
from collections.abc import Iterator

import pytest

from slo_rules.families import FAMILIES, FAMILY, FamilySpec

# Name (braces list alternatives) | type | labels (B = boundary, model, class and the declared ones) | unit.
CONTRACT = """
inference_ttft_seconds | histogram | B, first_token_from | seconds
inference_tpot_seconds | histogram | B, formula | seconds
inference_completion_seconds | histogram | B, outcome | seconds
inference_phase_seconds | histogram | B, phase | seconds
inference_window_{ttft,tpot,completion}_seconds | gauge | B, window, percentile | seconds
inference_window_phase_seconds | gauge | B, phase, window, percentile | seconds
inference_window_samples | gauge | B, metric, window |
inference_window_error_ratio | gauge | metric | ratio
inference_window_end_timestamp_seconds | gauge | | seconds
inference_window_{arrivals,completions,backlog_growth}_per_second | gauge | boundary, class, window | per_second
inference_window_arrivals_tail_seconds | gauge | boundary, class, window | seconds
inference_arrivals_total | counter | boundary, class, evidence | requests
inference_completions_total | counter | B, outcome | requests
inference_departures_total | counter | boundary, class | requests
inference_in_flight_requests | gauge | boundary, class, evidence | requests
inference_in_flight_older_requests | gauge | boundary, class, age | requests
inference_{oldest_in_flight,backlog_drain}_seconds | gauge | boundary, class | seconds
inference_{input,cached_input,output}_tokens_total | counter | B | tokens
inference_items_total | counter | B | items
inference_slo_{eligible,good}_requests_total | counter | slo | requests
inference_slo_bad_requests_total | counter | slo, failed | requests
inference_slo_unjudged_requests_total | counter | slo, reason | requests
inference_slo_objective_{eligible,good}_requests_total | counter | slo, objective | requests
inference_slo_good_output_tokens_total | counter | slo | tokens
inference_slo_attainment_ratio | gauge | slo, window | ratio
inference_slo_attainment_bound_ratio | gauge | slo, window, bound | ratio
inference_slo_goodput_{requests,output_tokens}_per_second | gauge | slo, window | per_second
inference_slo_{completions,output_tokens}_per_second | gauge | slo, window | per_second
inference_slo_verdict | gauge | slo, objective, verdict |
inference_slo_percentile_bound_seconds | gauge | slo, objective, bound | seconds
inference_slo_target_ratio | gauge | slo | ratio
inference_slo_period_seconds | gauge | slo | seconds
inference_slo_period_start_timestamp_seconds | gauge | slo | seconds
inference_slo_threshold_seconds | gauge | slo, objective, metric, boundary, percentile, window | seconds
inference_slo_error_budget_remaining_ratio | gauge | slo | ratio
inference_slo_burn_rate | gauge | slo, window |
inference_{clock_offset,clock_offset_error}_seconds | gauge | reference, clock | seconds
inference_accelerators | gauge | model |
goodput_exporter_build_info | gauge | version, compiled |
goodput_exporter_spans_received_total | counter | transport |
goodput_exporter_spans_total | counter | fate |
goodput_exporter_log_records_received_total | counter | transport |
goodput_exporter_log_records_total | counter | fate |
goodput_exporter_lost_starts_total | counter | healed_by |
goodput_exporter_lost_ends_total | counter | |
goodput_exporter_export_calls_total | counter | transport, code |
goodput_exporter_scrapes_total | counter | source, result |
goodput_exporter_attributes_dropped_total | counter | reason |
goodput_exporter_negative_intervals_total | counter | |
goodput_exporter_samples_out_of_range_total | counter | metric |
goodput_exporter_label_overflow_total | counter | label |
goodput_exporter_requests_joined_total | counter | result |
goodput_exporter_{open_requests,open_requests_limit} | gauge | |
goodput_exporter_series | gauge | family |
goodput_exporter_unbalanced_requests | gauge | boundary |
goodput_exporter_watermark_timestamp_seconds | gauge | | seconds
goodput_exporter_profile_last_seen_timestamp_seconds | gauge | profile | seconds
goodput_exporter_config_last_reload_successful | gauge | |
goodput_exporter_config_last_reload_success_timestamp_seconds | gauge | | seconds
goodput_exporter_evaluation_duration_seconds | histogram | | seconds
"""


def alternatives(name: str) -> list[str]:
    before, brace, rest = name.partition("{")
    inside, _, after = rest.partition("}")
    return [before + word + after for word in inside.split(",")] if brace else [name]


def contract() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    for line in CONTRACT.strip().splitlines():
        names, kind, labels, unit = (cell.strip() for cell in line.split("|"))
        expanded = labels.replace("B", "boundary, model, class") if labels.startswith("B") else labels
        for name in alternatives(names):
            yield name, kind, tuple(filter(None, expanded.split(", "))), unit


def test_the_registry_holds_every_family_of_the_contract_and_none_beside() -> None:
    assert list(contract()) == [(f.name, f.kind, f.labels, f.unit) for f in FAMILIES]


def test_every_family_is_found_by_its_name() -> None:
    assert [FAMILY[f.name] for f in FAMILIES] == list(FAMILIES)
    assert len(FAMILY) == len(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_names_follow_the_prometheus_conventions(family: FamilySpec) -> None:
    words = family.name.split("_")
    assert re.fullmatch(r"(inference|goodput_exporter)_[a-z][a-z_]*[a-z]", family.name)
    assert (words[-1] == "total") == (family.kind == "counter")
    assert all(words.count(suffix) <= 1 for suffix in ("total", "seconds", "ratio", "tokens", "requests"))
    assert not {"ms", "milliseconds", "percent", "minutes", "count", "sum", "bucket"} & set(words)
    if family.unit in ("seconds", "ratio", "tokens", "items", "per_second"):
        assert family.name.removesuffix("_total").endswith("_" + family.unit)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_labels_are_unique_and_never_those_that_the_formats_reserve(family: FamilySpec) -> None:
    assert len(set(family.labels)) == len(family.labels)
    assert not {"le", "quantile", "job", "instance"} & set(family.labels)
    assert all(re.fullmatch(r"[a-z][a-z_]*", label) for label in family.labels)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)
def test_help_is_one_sentence_on_one_line(family: FamilySpec) -> None:
    assert re.fullmatch(r"[A-Z1][^\n\"\\]+\.", family.help)


def test_declared_labels_stand_after_boundary_model_and_class() -> None:
    family = FAMILY["inference_completions_total"].with_labels(["tenant", "tier"])
    assert family.labels == ("boundary", "model", "class", "tenant", "tier", "outcome")


def test_families_that_are_not_of_requests_take_no_declared_labels() -> None:
    for name in ("inference_arrivals_total", "inference_slo_verdict", "goodput_exporter_open_requests"):
        assert FAMILY[name] == FAMILY[name].with_labels(["tenant"])

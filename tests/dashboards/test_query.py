"""Queries are built from names that there are, in the order that replicas need: rate, sum, ratio."""

import pytest

from dashboards.query import UnknownLabel, family, rule, share

GOOD = "inference_slo_good_requests_total"


def test_filters_are_variables_and_fixed_values_are_quoted() -> None:
    found = family("inference_completions_total", "boundary", "model", only={"outcome": ("error", "shed")})
    assert str(found) == 'inference_completions_total{boundary=~"$boundary", model=~"$model", outcome=~"error|shed"}'


def test_a_window_is_one_value_and_not_a_pattern() -> None:
    assert str(family("inference_window_samples", "window")) == 'inference_window_samples{window="$window"}'


def test_a_family_that_nobody_exports_is_an_error() -> None:
    with pytest.raises(KeyError):
        family("inference_ttfb_seconds")


@pytest.mark.parametrize("label", ["modell", "window"])
def test_a_label_that_the_family_has_not_is_an_error(label: str) -> None:
    with pytest.raises(UnknownLabel, match=label):
        family("inference_arrivals_total", label)
    with pytest.raises(UnknownLabel, match=label):
        family("inference_arrivals_total").sum(label)


def test_what_was_summed_away_cannot_be_grouped_by_again() -> None:
    with pytest.raises(UnknownLabel, match="slo"):
        family(GOOD).sum().sum("slo")


def test_a_quantile_adds_up_buckets_of_replicas_first() -> None:
    buckets = family("inference_ttft_seconds", suffix="_bucket").per_second("5m")
    expected = "histogram_quantile(0.95, sum by (le, model) (rate(inference_ttft_seconds_bucket[5m])))"
    assert str(buckets.quantile(0.95, "model")) == expected


def test_a_share_is_absent_where_its_whole_is_zero() -> None:
    good, eligible = (family(f"inference_slo_{kind}_requests_total").sum("slo") for kind in ("good", "eligible"))
    assert str(share(good, eligible)) == f"{good}\n/ ({eligible} > 0)"
    assert str(share(good, eligible.sum())) == f"{good}\n/ on () group_left () ({eligible.sum()} > 0)"


def test_a_recorded_series_is_named_as_the_rules_name_it() -> None:
    found = rule("inference_slo_burn_rate", "ratio_rate", "1h")
    assert str(found) == '{__name__=~"slo:inference_slo_burn_rate:ratio_rate1h", slo=~"$slo"}'

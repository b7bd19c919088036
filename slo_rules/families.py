"""Everything that is exported: names, types, labels, units and help, once. Exporter, rules and dashboards import it.

A name is spelt in full (prefix, unit, `_total`), so that a search for what a scrape shows ends in this file. The unit
is the word that OpenMetrics wants at the end of the name (`seconds`, `ratio`, `tokens`); where the name does not end
in it (`inference_arrivals_total` counts requests) it still says what is counted, and an empty unit is a plain number.

Families of requests also carry the labels that users declare. These are known only at run time; they stand after
boundary, model and class, and join through `FamilySpec.with_labels`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class FamilySpec:
    """One exported family. `labels` is the order in which a point gives its values."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    unit: str
    help: str

    @property
    def takes_declared_labels(self) -> bool:
        """Whether its series are of requests, one for each combination of labels."""
        return self.labels[: len(OF_REQUESTS)] == OF_REQUESTS

    def with_labels(self, declared: Sequence[str]) -> "FamilySpec":
        """The family with the labels that users declared, or the family itself if it takes none."""
        if not declared or not self.takes_declared_labels:
            return self
        return replace(self, labels=(*OF_REQUESTS, *declared, *self.labels[len(OF_REQUESTS) :]))


OF_REQUESTS: Final = ("boundary", "model", "class")
"""The labels of every family that counts or times requests."""

_B: Final = OF_REQUESTS
_TRAFFIC: Final = ("boundary", "class")
_SLO: Final = ("slo",)
_SLO_WINDOW: Final = ("slo", "window")
_SLO_OBJECTIVE: Final = ("slo", "objective")
_CLOCKS: Final = ("reference", "clock")

_LATENCIES: Final = (
    FamilySpec(
        "inference_ttft_seconds", "histogram", (*_B, "first_token_from"), "seconds",
        "Time to first token of requests that ended ok, or were cancelled after it.",
    ),
    FamilySpec(
        "inference_tpot_seconds", "histogram", (*_B, "formula"), "seconds",
        "Time per output token of requests that ended ok with two tokens or more.",
    ),
    FamilySpec(
        "inference_completion_seconds", "histogram", (*_B, "outcome"), "seconds",
        "Time from the opening of the boundary to the end of the request, by outcome.",
    ),
    FamilySpec(
        "inference_phase_seconds", "histogram", (*_B, "phase"), "seconds",
        "Parts of the completion latency of requests that ended ok.",
    ),
)  # fmt: skip

_WINDOWS: Final = (
    FamilySpec(
        "inference_window_ttft_seconds", "gauge", (*_B, "window", "percentile"), "seconds",
        "Percentile of the time to first token in the window, nearest rank; absent when the window is empty.",
    ),
    FamilySpec(
        "inference_window_tpot_seconds", "gauge", (*_B, "window", "percentile"), "seconds",
        "Percentile of the time per output token in the window, nearest rank; absent when the window is empty.",
    ),
    FamilySpec(
        "inference_window_completion_seconds", "gauge", (*_B, "window", "percentile"), "seconds",
        "Percentile of the completion latency in the window, nearest rank; absent when the window is empty.",
    ),
    FamilySpec(
        "inference_window_phase_seconds", "gauge", (*_B, "phase", "window", "percentile"), "seconds",
        "Percentile of a phase in the window, nearest rank; absent when the window is empty.",
    ),
    FamilySpec(
        "inference_window_samples", "gauge", (*_B, "metric", "window"), "",
        "Samples behind the percentiles of the window.",
    ),
    FamilySpec(
        "inference_window_error_ratio", "gauge", ("metric",), "ratio",
        "Largest relative error of any percentile that is shown.",
    ),
    FamilySpec(
        "inference_window_end_timestamp_seconds", "gauge", (), "seconds",
        "Unix time as of which the windows are read.",
    ),
    FamilySpec(
        "inference_window_arrivals_per_second", "gauge", (*_TRAFFIC, "window"), "per_second",
        "Requests that started in the window, per second.",
    ),
    FamilySpec(
        "inference_window_completions_per_second", "gauge", (*_TRAFFIC, "window"), "per_second",
        "Requests that ended in the window with any outcome, per second.",
    ),
    FamilySpec(
        "inference_window_backlog_growth_per_second", "gauge", (*_TRAFFIC, "window"), "per_second",
        "Arrivals less completions in the window, per second; negative when the backlog shrinks.",
    ),
    FamilySpec(
        "inference_window_arrivals_tail_seconds", "gauge", (*_TRAFFIC, "window"), "seconds",
        "End of the window in which arrivals may not be known yet; absent unless only ends tell of arrivals.",
    ),
)  # fmt: skip

_TRAFFIC_COUNTS: Final = (
    FamilySpec(
        "inference_arrivals_total", "counter", (*_TRAFFIC, "evidence"), "requests",
        "Requests that started.",
    ),
    FamilySpec(
        "inference_completions_total", "counter", (*_B, "outcome"), "requests",
        "Requests that ended, by outcome.",
    ),
    FamilySpec(
        "inference_departures_total", "counter", _TRAFFIC, "requests",
        "Requests that ended, whatever the outcome, of the class under which they arrived.",
    ),
    FamilySpec(
        "inference_in_flight_requests", "gauge", (*_TRAFFIC, "evidence"), "requests",
        "Requests that started and have not ended.",
    ),
    FamilySpec(
        "inference_in_flight_older_requests", "gauge", (*_TRAFFIC, "age"), "requests",
        "Requests that started longer ago than the age and have not ended; absent while nothing tells of starts.",
    ),
    FamilySpec(
        "inference_oldest_in_flight_seconds", "gauge", _TRAFFIC, "seconds",
        "Time since the start of the oldest request that has not ended; absent while nothing tells of starts.",
    ),
    FamilySpec(
        "inference_backlog_drain_seconds", "gauge", _TRAFFIC, "seconds",
        "Time to finish what is in flight at the present rate of completions; absent while nothing tells of starts.",
    ),
    FamilySpec(
        "inference_input_tokens_total", "counter", _B, "tokens",
        "Input tokens of requests that ended, cached ones included.",
    ),
    FamilySpec(
        "inference_cached_input_tokens_total", "counter", _B, "tokens",
        "Input tokens that were served from a cache; part of the input tokens.",
    ),
    FamilySpec(
        "inference_output_tokens_total", "counter", _B, "tokens",
        "Output tokens of requests that ended.",
    ),
    FamilySpec(
        "inference_items_total", "counter", _B, "items",
        "Items (images, scores) made by work that has no tokens.",
    ),
)  # fmt: skip

_SLOS: Final = (
    FamilySpec(
        "inference_slo_eligible_requests_total", "counter", _SLO, "requests",
        "Requests judged good or bad.",
    ),
    FamilySpec(
        "inference_slo_good_requests_total", "counter", _SLO, "requests",
        "Requests that ended ok and met every limit of the SLO.",
    ),
    FamilySpec(
        "inference_slo_bad_requests_total", "counter", (*_SLO, "failed"), "requests",
        "Eligible requests that were not good, by the limit that failed, `several`, or the outcome.",
    ),
    FamilySpec(
        "inference_slo_unjudged_requests_total", "counter", (*_SLO, "reason"), "requests",
        "Requests that the SLO selects and that are neither good nor bad, by reason.",
    ),
    FamilySpec(
        "inference_slo_objective_eligible_requests_total", "counter", _SLO_OBJECTIVE, "requests",
        "Requests judged on the limit of one objective.",
    ),
    FamilySpec(
        "inference_slo_objective_good_requests_total", "counter", _SLO_OBJECTIVE, "requests",
        "Requests that met the limit of one objective.",
    ),
    FamilySpec(
        "inference_slo_good_output_tokens_total", "counter", _SLO, "tokens",
        "Output tokens of good requests.",
    ),
    FamilySpec(
        "inference_slo_attainment_ratio", "gauge", _SLO_WINDOW, "ratio",
        "Good by eligible requests in the window; absent when none is eligible.",
    ),
    FamilySpec(
        "inference_slo_attainment_bound_ratio", "gauge", (*_SLO_WINDOW, "bound"), "ratio",
        "Attainment if every unknown request of the window was bad (lower) or good (upper).",
    ),
    FamilySpec(
        "inference_slo_goodput_requests_per_second", "gauge", _SLO_WINDOW, "per_second",
        "Good requests in the window, per second.",
    ),
    FamilySpec(
        "inference_slo_goodput_output_tokens_per_second", "gauge", _SLO_WINDOW, "per_second",
        "Output tokens of good requests in the window, per second.",
    ),
    FamilySpec(
        "inference_slo_completions_per_second", "gauge", _SLO_WINDOW, "per_second",
        "Requests that the SLO selects and that ended in the window with any outcome, judged or not, per second.",
    ),
    FamilySpec(
        "inference_slo_output_tokens_per_second", "gauge", _SLO_WINDOW, "per_second",
        "Output tokens of the requests that the SLO selects and that ended in the window, per second.",
    ),
    FamilySpec(
        "inference_slo_verdict", "gauge", (*_SLO_OBJECTIVE, "verdict"), "",
        "1 for the verdict that holds for the objective over its window, 0 for the others.",
    ),
    FamilySpec(
        "inference_slo_percentile_bound_seconds", "gauge", (*_SLO_OBJECTIVE, "bound"), "seconds",
        "The percentile of the objective if what is in flight ended now (lower) or never (upper); absent without logs.",
    ),
    FamilySpec(
        "inference_slo_target_ratio", "gauge", _SLO, "ratio",
        "Declared share of eligible requests that should be good.",
    ),
    FamilySpec(
        "inference_slo_period_seconds", "gauge", _SLO, "seconds",
        "Declared period of the target; one of the calendar with its nominal length.",
    ),
    FamilySpec(
        "inference_slo_period_start_timestamp_seconds", "gauge", _SLO, "seconds",
        "Unix time at which the present period of the target began, if it is one of the calendar.",
    ),
    FamilySpec(
        "inference_slo_threshold_seconds", "gauge",
        (*_SLO_OBJECTIVE, "metric", "boundary", "percentile", "window"), "seconds",
        "Declared threshold of the objective.",
    ),
    FamilySpec(
        "inference_slo_error_budget_remaining_ratio", "gauge", _SLO, "ratio",
        "Part of the error budget that is left of what came since the start of this process; negative when overspent.",
    ),
    FamilySpec(
        "inference_slo_burn_rate", "gauge", _SLO_WINDOW, "",
        "Share of bad requests in the window by the share that the target allows; also in the windows of `alerts`.",
    ),
)  # fmt: skip

_SURROUNDINGS: Final = (
    FamilySpec(
        "inference_clock_offset_seconds", "gauge", _CLOCKS, "seconds",
        "Estimated offset of a clock from the reference, middle of its bounds.",
    ),
    FamilySpec(
        "inference_clock_offset_error_seconds", "gauge", _CLOCKS, "seconds",
        "Half the width of the bounds of the clock offset.",
    ),
    FamilySpec(
        "inference_accelerators", "gauge", ("model",), "",
        "Declared number of accelerators that serve the model.",
    ),
)  # fmt: skip

_SELF: Final = (
    FamilySpec(
        "goodput_exporter_build_info", "gauge", ("version", "compiled"), "",
        "1, labelled with the version and whether the compiled modules are in use.",
    ),
    FamilySpec(
        "goodput_exporter_spans_received_total", "counter", ("transport",), "",
        "Spans read from accepted bodies.",
    ),
    FamilySpec(
        "goodput_exporter_spans_total", "counter", ("fate",), "",
        "Spans by what became of them.",
    ),
    FamilySpec(
        "goodput_exporter_log_records_received_total", "counter", ("transport",), "",
        "Log records read from accepted bodies.",
    ),
    FamilySpec(
        "goodput_exporter_log_records_total", "counter", ("fate",), "",
        "Log records by what became of them.",
    ),
    FamilySpec(
        "goodput_exporter_lost_starts_total", "counter", ("healed_by",), "",
        "Requests whose start no log record told of, by the later record that did.",
    ),
    FamilySpec(
        "goodput_exporter_lost_ends_total", "counter", (), "",
        "Requests that were given up as unknown, because no log record or span told of their end.",
    ),
    FamilySpec(
        "goodput_exporter_export_calls_total", "counter", ("transport", "code"), "",
        "Answers to senders by status code.",
    ),
    FamilySpec(
        "goodput_exporter_scrapes_total", "counter", ("source", "result"), "",
        "Readings of model servers' gauges by URL and what became of them.",
    ),
    FamilySpec(
        "goodput_exporter_attributes_dropped_total", "counter", ("reason",), "",
        "Attributes with an impossible value; the value is lost, the span is used.",
    ),
    FamilySpec(
        "goodput_exporter_negative_intervals_total", "counter", (), "",
        "Intervals that would be negative because two clocks differ; no sample is made of them.",
    ),
    FamilySpec(
        "goodput_exporter_samples_out_of_range_total", "counter", ("metric",), "",
        "Samples longer than a histogram holds, counted in its top slot.",
    ),
    FamilySpec(
        "goodput_exporter_label_overflow_total", "counter", ("label",), "",
        "Requests whose label value became `other` because the label has its full number of values.",
    ),
    FamilySpec(
        "goodput_exporter_requests_joined_total", "counter", ("result",), "",
        "Requests put together from spans, by completeness.",
    ),
    FamilySpec(
        "goodput_exporter_open_requests", "gauge", (), "",
        "Requests that wait for more spans.",
    ),
    FamilySpec(
        "goodput_exporter_open_requests_limit", "gauge", (), "",
        "Requests that may wait for more spans before the oldest is evicted.",
    ),
    FamilySpec(
        "goodput_exporter_series", "gauge", ("family",), "",
        "Series held for a family.",
    ),
    FamilySpec(
        "goodput_exporter_unbalanced_requests", "gauge", ("boundary",), "",
        "Arrivals less outcomes less in flight; anything but 0 is a fault of this program.",
    ),
    FamilySpec(
        "goodput_exporter_watermark_timestamp_seconds", "gauge", (), "seconds",
        "Unix time of the newest span.",
    ),
    FamilySpec(
        "goodput_exporter_profile_last_seen_timestamp_seconds", "gauge", ("profile",), "seconds",
        "Unix time of the newest end of a span that matched the source profile.",
    ),
    FamilySpec(
        "goodput_exporter_config_last_reload_successful", "gauge", (), "",
        "1 if the last reading of configuration, SLO and profile files succeeded, else 0.",
    ),
    FamilySpec(
        "goodput_exporter_config_last_reload_success_timestamp_seconds", "gauge", (), "seconds",
        "Unix time of the last successful reading of configuration, SLO and profile files.",
    ),
    FamilySpec(
        "goodput_exporter_evaluation_duration_seconds", "histogram", (), "seconds",
        "Time that one evaluation of windows and SLOs took.",
    ),
)  # fmt: skip

FAMILIES: Final = (*_LATENCIES, *_WINDOWS, *_TRAFFIC_COUNTS, *_SLOS, *_SURROUNDINGS, *_SELF)
"""Every family, in the order in which a scrape shows them."""

FAMILY: Final[Mapping[str, FamilySpec]] = {family.name: family for family in FAMILIES}
"""The same by name."""

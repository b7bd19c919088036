"""The exporter under measurement: its settings, its SLOs, and proof that it did its work."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from exporter.config import Settings
from exporter.expose.collect import collect
from exporter.expose.text import Writer
from exporter.pipeline import Pipeline
from exporter.profile import built_in
from slo_rules.document import Problem, Problems, read
from slo_rules.slo import SLO, read_slos
from slo_rules.vocabulary import BOUNDARIES
from tests.bench.mix import Mix

MAX_OPEN: Final = 10_000_000
"""Requests: more than any case has, so that none is evicted."""
MAX_VALUES: Final = 100_000
"""Of labels, and series: likewise."""

_OBJECTIVES: Final = (
    "ttft, boundary: end_to_end, percentile: 95, threshold: 2s, window: 5m",
    "tpot, boundary: end_to_end, percentile: 95, threshold: 50ms, window: 5m",
    "completion, boundary: service, percentile: 99, threshold: 10s, window: 30m",
    "ttft, boundary: model, percentile: 50, threshold: 500ms, window: 1m",
)


class NotDone(Exception):
    """The exporter did not do what was to be measured."""


def slo_file(count: int, models: int = 4) -> str:
    """The text of an SLO file. One in two SLOs is of all requests, the others each of one model."""
    return "\n---\n".join(_slo(number, models) for number in range(count))


def _slo(number: int, models: int) -> str:
    selector = f"  selector: {{model: llama-{number // 2 % models:05}}}\n" if number % 2 else ""
    objectives = "".join(f"    - {{metric: {_OBJECTIVES[(number + each) % 4]}}}\n" for each in (0, 1))
    head = f"apiVersion: goodput/v1\nkind: SLO\nmetadata: {{name: slo-{number}}}\nspec:\n"
    return f"{head}{selector}  objectives:\n{objectives}"


def slos(count: int, models: int = 4) -> Sequence[SLO]:
    """The SLOs of that file."""
    problems: list[Problem] = []
    nodes = read(slo_file(count, models), "slo.yaml", problems, {}) if count else []
    found = read_slos(nodes, BOUNDARIES, ("model", "class"))
    if problems:
        raise Problems(problems)
    return found


def config_file(mix: Mix, delay_ms: int, *, grpc: int, http: int, web: int) -> str:
    """The text of the configuration file, with ports of loopback, and how far windows lag behind."""
    return (
        f'receive: {{grpc: "127.0.0.1:{grpc}", http: "127.0.0.1:{http}"}}\nweb: {{listen: "127.0.0.1:{web}"}}\n'
        f"windows: {{delay: {delay_ms}ms}}\njoin: {{grace: {mix.grace_ms}ms, max_open: {MAX_OPEN}}}\n"
        f"limits: {{label_values: {MAX_VALUES}, series: {MAX_VALUES}}}\n"
    )


def pipeline(mix: Mix, slo_count: int) -> Pipeline:
    """One in process with the same settings, as the server makes it."""
    plain = Settings()
    settings = replace(
        plain,
        join=replace(plain.join, grace_ns=mix.grace_ms * 1_000_000, max_open=MAX_OPEN),
        limits=replace(plain.limits, label_values=MAX_VALUES, series=MAX_VALUES),
    )
    return Pipeline(settings, built_in(), slos(slo_count, mix.models), reports=False)


def exposed(of: Pipeline, now_ns: int) -> str:
    """What a scrape of it would give."""
    return Writer().text(collect(of, now_ns)).decode()


def total(text: str, name: str, **labels: str) -> float:
    """The sum of the series of a name that have these labels, in what was scraped."""
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    lines = re.findall(rf"^{name}(?:{{(.*)}})? (\S+)", text, re.MULTILINE)
    return sum(float(value) for found, value in lines if all(each in found for each in wanted))


def check(text: str, requests: int, *, judged: bool) -> None:
    """Raise NotDone unless as many requests were joined whole, of three spans that count, and judged."""
    whole = total(text, "goodput_exporter_requests_joined_total", result="whole")
    others = total(text, "goodput_exporter_requests_joined_total") - whole
    lost = _fates(text, (*_LOST, *_ASIDE))
    eligible = total(text, "inference_slo_eligible_requests_total")
    if whole != requests or others or any(lost.values()) or (judged and not eligible):
        raise NotDone(f"{requests} requests sent, {whole:g} whole, {others:g} others, {lost}, {eligible:g} judged")


def check_taken(text: str, spans: int) -> None:
    """Raise NotDone unless so many spans came, none of them was lost, and requests were judged."""
    received = total(text, "goodput_exporter_spans_received_total")
    lost = _fates(text, _LOST)
    eligible = total(text, "inference_slo_eligible_requests_total")
    if received != spans or any(lost.values()) or not eligible:
        raise NotDone(f"{spans} spans sent, {received:g} received, {lost}, {eligible:g} judged")


def _fates(text: str, names: Sequence[str]) -> dict[str, float]:
    return {fate: total(text, "goodput_exporter_spans_total", fate=fate) for fate in names}


_LOST: Final = ("too_late", "future", "duplicate", "malformed", "evicted")
_ASIDE: Final = ("unrecognised", "not_request")
"""Part of no request: there are such spans in recordings, and none in a mix."""

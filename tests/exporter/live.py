"""A live pipeline in a test's own time, with source profiles as a user would write them. Times in ms after T0."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from exporter.config import Settings
from exporter.expose.collect import collect
from exporter.expose.text import Writer
from exporter.pipeline import Pipeline
from exporter.profile import SourceProfile, built_in, read_profiles
from exporter.receive import Encoding, Receipt
from slo_rules.document import Problem, read
from slo_rules.slo import SLO, read_slos
from slo_rules.vocabulary import BOUNDARIES
from tests.exporter.spans import Sent, body, json_body, ns

EDGE: Final = """
apiVersion: goodput/v1
kind: SourceProfile
metadata: {name: edge}
spec:
  role: gateway
  match: [{scope: edge, kind: server}]
  stamps:
    arrived: start
    dispatched: {event: dispatched}
    first_token: {event: chunk, where: {kind: reasoning|content|tool, tokens: "[1-9][0-9]*"}}
    last_token: {event: chunk, pick: last, where: {kind: reasoning|content|tool, tokens: "[1-9][0-9]*"}}
    ended: end
  tokens: {output: [tokens]}
  stream: [{attribute: stream}]
  status: [http.response.status_code]
  path: [url.path]
  outcome: [{event: chunk, attribute: error, matches: ".+", is: error}]
"""
"""A gateway that tells of each chunk of the answer what it is and how many tokens it holds."""

SERVER: Final = """
apiVersion: goodput/v1
kind: SourceProfile
metadata: {name: token-server}
spec:
  role: engine
  match: [{scope: token-server}]
  stamps:
    arrived: start
    enqueued: {event: queued}
    scheduled: {event: scheduled}
    first_token: {event: chunk, where: {tokens: "[1-9][0-9]*"}}
    last_token: {event: chunk, pick: last, where: {tokens: "[1-9][0-9]*"}}
    ended: end
  tokens: {input: [prompt], output: [tokens]}
"""
"""A model server that does so too."""

BROKER: Final = """
apiVersion: goodput/v1
kind: SourceProfile
metadata: {name: broker-publish}
spec:
  role: queue
  match: [{scope: broker, kind: producer}]
  stamps: {arrived: start, enqueued: end}
---
apiVersion: goodput/v1
kind: SourceProfile
metadata: {name: broker-consume}
spec:
  role: queue
  match: [{scope: broker, kind: consumer}]
  stamps: {dequeued: start, ended: end}
"""
"""A queue whose producer is done when the job is in it."""


def profiles(*texts: str) -> list[SourceProfile]:
    """The profiles of some files, before the built-in ones."""
    problems: list[Problem] = []
    own = [profile for text in texts for profile in read_profiles(read(text, "own.yaml", problems, {}))]
    assert not problems, problems
    return [*own, *built_in()]


def slo(*objectives: str, name: str = "chat", spec: str = "") -> str:
    """An SLO file: `ttft end_to_end 95 1s 5m` is an objective, `spec` holds further lines."""
    lines = ["apiVersion: goodput/v1", "kind: SLO", f"metadata: {{name: {name}}}", "spec:"]
    lines += [f"  {line}" for line in spec.splitlines()] + ["  objectives:"]
    keys = ("metric", "boundary", "percentile", "threshold", "window")
    for objective in objectives:
        fields = zip(keys, objective.split(), strict=True)
        lines.append("    - {" + ", ".join(f"{key}: {value}" for key, value in fields) + "}")
    return "\n".join(lines)


def slos(*texts: str) -> tuple[list[SLO], list[Problem]]:
    """The SLOs of some files, and what is wrong with them."""
    problems: list[Problem] = []
    nodes = [node for text in texts for node in read(text, "slo.yaml", problems, {})]
    return read_slos(nodes, BOUNDARIES, ("model", "class")), problems


@dataclass(frozen=True, slots=True)
class Scrape:
    """What Prometheus reads, by its own parser."""

    samples: list[Sample]

    @classmethod
    def of(cls, text: str) -> "Scrape":
        """All samples of a text; fails if it does not parse."""
        return cls([sample for family in text_string_to_metric_families(text) for sample in family.samples])

    def where(self, name: str, **labels: str) -> Iterator[Sample]:
        """The series of a name with these labels among theirs."""
        for sample in self.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                yield sample

    def total(self, name: str, **labels: str) -> float | None:
        """Their sum, as `sum(name{labels})`; None where there is none."""
        values = [sample.value for sample in self.where(name, **labels)]
        return sum(values) if values else None

    def quantile_bucket(self, q: float, name: str, **labels: str) -> tuple[float, float]:
        """The bucket, seconds, that holds the rank of a quantile: all that its buckets say of it."""
        edges: dict[float, float] = {}
        for sample in self.where(f"{name}_bucket", **labels):
            edge = float(sample.labels["le"])
            edges[edge] = edges.get(edge, 0) + sample.value
        below = 0.0
        for edge in sorted(edges):
            if edges[edge] >= q * edges[float("inf")]:
                return below, edge
            below = edge
        raise AssertionError(f"no buckets of {name}")


class Live:
    """A pipeline that is told the time. Without delay and grace, unless the test speaks of them."""

    def __init__(
        self, *slo_files: str, profile_files: tuple[str, ...] = (EDGE, SERVER, BROKER), delay_ms: int = 0,
        grace_ms: int = 0, **settings: Any,
    ) -> None:  # fmt: skip
        declared, problems = slos(*slo_files)
        assert not problems, problems
        base = Settings()
        changed = replace(
            base,
            windows=replace(base.windows, delay_ns=delay_ms * 1_000_000),
            join=replace(base.join, grace_ns=grace_ms * 1_000_000),
        )
        self.pipeline = Pipeline(replace(changed, **settings), profiles(*profile_files), declared)

    def feed(self, *spans: Sent, at: float | None = None, encoding: Encoding = "protobuf") -> Receipt:
        """Receive spans in one call, when the last of them ends if nothing else is said."""
        now = max(sent.end_ms for sent in spans) if at is None else at
        content = body(*spans) if encoding == "protobuf" else json_body(*spans)
        return self.feed_body(content, at=now, encoding=encoding)

    def feed_body(self, content: bytes, *, at: float, encoding: Encoding = "protobuf") -> Receipt:
        """Receive one body."""
        return self.pipeline.feed(content, encoding=encoding, transport="http", now_ns=ns(at))

    def tick(self, at: float) -> None:
        """Let time go on."""
        self.pipeline.tick(ns(at))

    def report(self, at: float | None = None) -> dict[str, Any]:
        """The report, at a time."""
        if at is not None:
            self.tick(at)
        return self.pipeline.report()

    def boundary(self, name: str) -> dict[str, Any]:
        """All since the start at one boundary."""
        found: dict[str, Any] = self.report()["boundaries"][name]
        return found

    def scrape(self, at: float) -> Scrape:
        """What Prometheus reads at a time."""
        self.tick(at)
        return Scrape.of(Writer().text(collect(self.pipeline, ns(at))).decode())

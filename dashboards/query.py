"""PromQL over exported families. Every name and label is looked up, so that a rename is followed or refused.

A counter of several replicas is made a rate first, then summed, and only then is a ratio taken. A ratio is absent where
its whole is zero. A percentile is never averaged and never summed: of several series the worst one is shown.

Filters are variables of the dashboard; a family is filtered by a variable only if it has a label of that name, and the
caller says so, as a filter that silently fell away would show too much.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from slo_rules.families import FAMILY
from slo_rules.rules import recorded

REQUESTS: Final = ("boundary", "model", "class")
TRAFFIC: Final = ("boundary", "class")
SLO: Final = ("slo",)
INSTANCE: Final = ("instance",)
"""Filters, by what a family counts."""

WINDOW: Final = "$window"
RATE: Final = "$__rate_interval"

_SCRAPED: Final = frozenset({"instance", "job"})
"""Labels that Prometheus adds to what it scrapes."""


class UnknownLabel(ValueError):
    """A family has no such label."""


@dataclass(frozen=True, slots=True)
class Vector:
    """An expression, and the labels that its series have."""

    text: str
    labels: frozenset[str]

    def __str__(self) -> str:
        return self.text

    def per_second(self, over: str = RATE) -> "Vector":
        """The rate of a counter."""
        return Vector(f"rate({self.text}[{over}])", self.labels)

    def increase(self, over: str = WINDOW) -> "Vector":
        """By how much a counter grew."""
        return Vector(f"increase({self.text}[{over}])", self.labels)

    def sum(self, *by: str) -> "Vector":
        """Added up over all other labels."""
        return self._over("sum", by)

    def worst(self, *by: str) -> "Vector":
        """The highest over all other labels."""
        return self._over("max", by)

    def least(self, *by: str) -> "Vector":
        """The lowest over all other labels."""
        return self._over("min", by)

    def group(self, *by: str) -> "Vector":
        """1 for each combination of labels."""
        return self._over("group", by)

    def quantile(self, q: float, *by: str) -> "Vector":
        """Of the buckets of a histogram, added up over replicas first."""
        return Vector(f"histogram_quantile({q}, {self.sum('le', *by)})", frozenset(by))

    def is_(self, value: int) -> "Vector":
        """Only where it has this value."""
        return Vector(f"{self.text} == {value}", self.labels)

    def _over(self, operation: str, by: Sequence[str]) -> "Vector":
        if unknown := set(by) - self.labels:
            raise UnknownLabel(f"{self.text} has no label {', '.join(sorted(unknown))}")
        grouping = f" by ({', '.join(by)})" if by else ""
        return Vector(f"{operation}{grouping} ({self.text})", frozenset(by))


def family(
    name: str,
    *filters: str,
    suffix: str = "",
    only: Mapping[str, str | Sequence[str]] | None = None,
    but: Mapping[str, str] | None = None,
) -> Vector:
    """An exported family, filtered by variables of the dashboard and by fixed values. Raises KeyError, UnknownLabel."""
    labels = frozenset(FAMILY[name].labels) | _SCRAPED | (frozenset({"le"}) if suffix == "_bucket" else frozenset())
    matchers = [f'{label}="{WINDOW}"' if label == "window" else f'{label}=~"${label}"' for label in filters]
    for label, value in (only or {}).items():
        matchers.append(f'{label}="{value}"' if isinstance(value, str) else f'{label}=~"{"|".join(value)}"')
    matchers += [f'{label}!="{value}"' for label, value in (but or {}).items()]
    if unknown := {*filters, *(only or {}), *(but or {})} - labels:
        raise UnknownLabel(f"{name} has no label {', '.join(sorted(unknown))}")
    return Vector(f"{name}{suffix}{{{', '.join(matchers)}}}" if matchers else f"{name}{suffix}", labels)


def rule(name: str, operation: str, window: str) -> Vector:
    """A series of an SLO that the generated rules record over a window, or over any where a pattern is given."""
    record = recorded("slo", FAMILY[name].name, operation)
    return Vector(f'{{__name__=~"{record}{window}", slo=~"$slo"}}', frozenset({"slo", "__name__"}))


def share(part: Vector, whole: Vector) -> Vector:
    """A part by the whole that it belongs to, absent where the whole is zero."""
    match = "" if part.labels == whole.labels else f"on ({', '.join(sorted(whole.labels))}) group_left () "
    return Vector(f"{part}\n/ {match}({whole} > 0)", part.labels)

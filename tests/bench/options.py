"""What whoever runs the benchmarks chose."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """The same for all cases."""

    quick: bool = False
    """Less of everything: to see that it works, not how fast it is."""
    otelcol: str | None = None
    """Path of an OpenTelemetry Collector to compare with."""

    @property
    def rounds(self) -> int:
        """How often each figure is measured."""
        return 3 if self.quick else 5

"""The exporter with a clock that goes fast, so that its windows fill sooner, or as fast as spans come.

    python -m tests.bench.hurried SPEED EPOCH --config.file FILE [--slo.file FILE]

From EPOCH on, Unix time in nanoseconds, SPEED seconds go by in each. With a SPEED of 0 it is as late as the spans say,
so that as many requests are open however fast they are sent.
"""

import argparse
import asyncio
import os
import time
from typing import Final

from exporter.pipeline import Pipeline
from exporter.serve import Exporter, Files, read_files

LATE_NS: Final = 5_000_000
"""As in tests.bench.mix, which would bring NumPy, and so memory that is not the exporter's."""
LULL_NS: Final = 5_000_000_000


def clock(speed: float, epoch_ns: int) -> int:
    """What time it is."""
    now_ns = time.time_ns()
    return now_ns if now_ns < epoch_ns else epoch_ns + int((now_ns - epoch_ns) * speed)


class Led:
    """The time of the newest span. When none has come for a while, all has been sent, and time goes by as it does."""

    def __init__(self, epoch_ns: int) -> None:
        self.pipeline: Pipeline | None = None
        self._newest_ns = epoch_ns
        self._lull_ns: int | None = None
        """When, on the machine's clock, nothing will have come for a while."""

    def __call__(self) -> int:
        newest_ns = 0 if self.pipeline is None else self.pipeline.newest_ns
        if newest_ns > self._newest_ns:
            self._newest_ns, self._lull_ns = newest_ns, time.monotonic_ns() + LULL_NS
        gone_ns = 0 if self._lull_ns is None else max(0, time.monotonic_ns() - self._lull_ns)
        return self._newest_ns + LATE_NS + gone_ns


async def serve(speed: float, epoch_ns: int, files: Files) -> None:
    """Until killed."""
    led = Led(epoch_ns)
    now = (lambda: clock(speed, epoch_ns)) if speed else led
    async with Exporter(lambda: read_files(files, os.environ), clock=now, reports=False) as exporter:
        led.pipeline = exporter._pipeline
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("speed", type=float)
    parser.add_argument("epoch_ns", type=int)
    parser.add_argument("--config.file", dest="config")
    parser.add_argument("--slo.file", dest="slos", action="append", default=[])
    given = parser.parse_args()
    asyncio.run(serve(given.speed, given.epoch_ns, Files(config=given.config, slos=tuple(given.slos))))

"""The exporter with a clock that goes fast, so that its windows fill sooner.

    python -m tests.bench.hurried SPEED EPOCH --config.file FILE [--slo.file FILE]

From EPOCH on, Unix time in nanoseconds, SPEED seconds go by in each.
"""

import argparse
import asyncio
import os
import time

from exporter.serve import Exporter, Files, read_files


def clock(speed: float, epoch_ns: int) -> int:
    """What time it is."""
    now_ns = time.time_ns()
    return now_ns if now_ns < epoch_ns else epoch_ns + int((now_ns - epoch_ns) * speed)


async def serve(speed: float, epoch_ns: int, files: Files) -> None:
    """Until killed."""
    async with Exporter(lambda: read_files(files, os.environ), clock=lambda: clock(speed, epoch_ns), reports=False):
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("speed", type=float)
    parser.add_argument("epoch_ns", type=int)
    parser.add_argument("--config.file", dest="config")
    parser.add_argument("--slo.file", dest="slos", action="append", default=[])
    given = parser.parse_args()
    asyncio.run(serve(given.speed, given.epoch_ns, Files(config=given.config, slos=tuple(given.slos))))

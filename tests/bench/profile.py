"""Where the CPU time goes, by the parts of the exporter, as Linux's `perf` sees it.

It samples this process while bodies that were made before are fed, so it needs no change to what it looks at, and what
is compiled is seen like the rest. A part is told by the file that its machine code is in.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from exporter.config import Settings
from exporter.pipeline import Pipeline
from exporter.profile import built_in
from tests.bench import subject
from tests.bench.figures import Figure
from tests.bench.inside import SLOS, Fed, known_from, mix_of, models_of
from tests.bench.mix import UNDER_WAY, Body, Mix
from tests.bench.options import Options

PARTS: Final = {
    "reading": ("protobuf", "memo", "recognise"),
    "waiting and joining": ("express", "places", "marks", "join", "tree"),
    "measuring": ("script", "align", "measure"),
    "counting and judging": ("tally", "account", "histogram", "pattern", "series", "judge"),
    "windows": ("window", "grain", "totals"),
}
OTHERS: Final = "CPython, C library, kernel"
"""What is in none of them."""
_PART_OF: Final = {module: part for part, modules in PARTS.items() for module in modules}
_SAMPLES_PER_S: Final = 997
_TO_ATTACH_S: Final = 0.5
_MINUTE_NS: Final = 60_000_000_000


def profile(options: Options) -> Iterator[Figure]:
    """Shares of the pipeline's CPU; nothing where there is no `perf` that may look."""
    if shutil.which("perf") is None:
        print("profile: there is no perf (linux-perf, linux-tools) here", file=sys.stderr)
        return
    works = {"pipeline": _fed, "1,000 series": _many, "10,000 spans a second": _steady, "replay": _replayed}
    for name, ready in works.items():
        shares = shares_of(ready(options))
        for part in (*PARTS, OTHERS):
            yield Figure("profile", f"{name}: {part}", (shares.get(part, 0.0),), "%")


def shares_of(work: Callable[[], object]) -> dict[str, float]:
    """Percent of the samples that were taken of this process meanwhile, by part. Raises subject.NotDone for none."""
    with TemporaryDirectory() as folder:
        path = str(Path(folder, "perf.data"))
        record = ["perf", "record", "-e", "cpu-clock", "-F", str(_SAMPLES_PER_S), "-o", path, "-p", str(os.getpid())]
        with subprocess.Popen(record, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as perf:
            time.sleep(_TO_ATTACH_S)
            work()
            perf.send_signal(signal.SIGINT)
            said = perf.communicate()[1]
        report = ["perf", "report", "-i", path, "--no-children", "--stdio", "-F", "overhead,dso", "-t", "|"]
        found = subprocess.run(report, capture_output=True, text=True, check=False)
    shares = parts(found.stdout.splitlines())
    if not shares:
        raise subject.NotDone(f"perf saw nothing: {said} {found.stderr}")
    return shares


def parts(lines: Sequence[str]) -> dict[str, float]:
    """From lines like `12.3% |script.cpython-311-x86_64-linux-gnu.so`."""
    shares: dict[str, float] = defaultdict(float)
    for line in lines:
        share, _, file = line.partition("|")
        if share.strip().endswith("%"):
            shares[_PART_OF.get(file.strip().partition(".")[0], OTHERS)] += float(share.strip()[:-1])
    return shares


def _fed(options: Options, models: int = 4) -> Callable[[], None]:
    """As in `stages`: as fast as it goes."""
    bodies = 20 if options.quick else 600
    under_way = UNDER_WAY // 30 if options.quick else UNDER_WAY
    mix = mix_of(bodies, under_way=under_way, models=models, before=known_from(models))
    fed = Fed(subject.pipeline(mix, SLOS))
    stream = mix.bodies()
    fed.feed(islice(stream, mix.whole_from))
    some = list(islice(stream, bodies))
    return lambda: fed.feed(some)


def _many(options: Options) -> Callable[[], None]:
    """Likewise, with 1,000 series."""
    return _fed(options, models_of(1_000))


def _steady(options: Options) -> Callable[[], None]:
    """Slowly, with 1,000 series, once all windows are full; the longest is of eleven minutes, so that they soon are."""
    seconds, per_s = (30, 100) if options.quick else (690, 3_333)
    mix = Mix(
        per_s * (seconds + 40), models=models_of(1_000), requests_per_s=per_s, under_way=5 * per_s, grace_ms=10_000
    )
    pipeline = subject.pipeline(mix, SLOS)
    windows = replace(pipeline.settings.windows, durations_ns=tuple(_MINUTE_NS * each for each in (1, 5, 10, 11)))
    pipeline.reconfigure(replace(pipeline.settings, windows=windows), built_in(), subject.slos(SLOS, mix.models))
    fed, stream = Fed(pipeline), mix.bodies()
    full_ns = mix.epoch_ns + seconds * 10**9
    some: list[Body] = []
    for body in stream:
        if body.now_ns < full_ns:
            fed.feed([body])
        elif len(some) < per_s // 10:
            some.append(body)
    return lambda: fed.feed(some)


def _replayed(options: Options) -> Callable[[], None]:
    """As `goodput-exporter replay` does it: half an hour of 300 requests a second, the second half of it looked at."""
    requests = 5_000 if options.quick else 540_000
    mix = Mix(requests, requests_per_s=300, under_way=1_500)
    pipeline = Pipeline(Settings(), built_in(), [], replay=True)
    bodies = list(mix.bodies())

    def feed(some: Sequence[Body]) -> None:
        for content, _, now_ns in some:
            pipeline.feed(content, encoding="protobuf", transport="grpc", now_ns=now_ns)

    feed(bodies[: len(bodies) // 2])
    return lambda: feed(bodies[len(bodies) // 2 :])

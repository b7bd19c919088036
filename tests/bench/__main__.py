"""Measures speed and memory.

    python -m tests.bench [CASE ...] [--quick] [--otelcol PATH] [--json FILE]

Without a case all of them, which takes some minutes. What is measured is the installed package where there is one, else
the checkout; it is pinned to one core, and what sends to another. Every figure is the median of several runs.
"""

import argparse
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:] = [*(entry for entry in sys.path if Path(entry or ".").resolve() != ROOT), str(ROOT)]

from exporter import compiled  # noqa: E402  (after the path has been settled)
from tests.bench import inside, outside, profile, subject  # noqa: E402
from tests.bench.figures import Figure, table  # noqa: E402
from tests.bench.options import Options  # noqa: E402
from tests.bench.processes import SENDER_CORE, SUBJECT_CORE, pin  # noqa: E402

Case = Callable[[Options], Iterable[Figure]]

INSIDE: Final[dict[str, Case]] = {
    "stages": inside.stages,
    "open": inside.OPEN,
    "series": inside.SERIES,
    "tick": inside.tick,
    "captures": inside.captures,
    "profile": profile.profile,
}
OUTSIDE: Final[dict[str, Case]] = {
    "grpc": outside.over("grpc"),
    "http": outside.over("http"),
    "gzip": outside.over("gzip"),
    **{f"captures-{transport}": outside.Captured(transport) for transport in ("grpc", "http", "gzip")},
    "grpc-open": outside.Grown(inside.OPEN),
    "grpc-series": outside.Grown(inside.SERIES),
    "stall": outside.stall,
    "scrape": outside.scrape,
    "start": outside.start,
    "replay": outside.replay,
    "memory": outside.memory,
}
LONG: Final[dict[str, Case]] = {"flood": outside.flood}
"""Only where they are named: an hour, and 8 GB of memory."""
CASES: Final = INSIDE | OUTSIDE | LONG


def main(arguments: list[str]) -> int:
    """Run the cases; 1 if one did not do its work."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"any of {', '.join(CASES)}")
    parser.add_argument("--quick", action="store_true", help="less of everything, to see that it works")
    parser.add_argument("--otelcol", metavar="PATH", help="an OpenTelemetry Collector to compare with")
    parser.add_argument("--json", metavar="FILE", help="where to write the results")
    given = parser.parse_args(arguments)
    if unknown := set(given.cases) - CASES.keys():
        parser.error(f"no case {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    otelcol = given.otelcol and (shutil.which(given.otelcol) or shutil.which(str(Path(given.otelcol).resolve())))
    if given.otelcol and not otelcol:
        parser.error(f"--otelcol {given.otelcol}: no program of this name, here or on the PATH")
    found, failed = _run(given.cases or list(INSIDE | OUTSIDE), Options(given.quick, otelcol))
    print(*table(found), sep="\n")
    if given.json:
        results = {**_conditions(arguments), "figures": found}
        Path(given.json).write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return int(failed)


def _run(cases: Iterable[str], options: Options) -> tuple[list[dict[str, Any]], bool]:
    """The figures as data, and whether a case could not be measured."""
    found: list[dict[str, Any]] = []
    failed = False
    for case in cases:
        print(f"{case} ...", file=sys.stderr, flush=True)
        pin(SUBJECT_CORE if case in INSIDE else SENDER_CORE)
        try:
            for figure in CASES[case](options):
                found.append(figure.as_data())
        except KeyboardInterrupt:  # what has been measured is shown
            return found, True
        except (subject.NotDone, subprocess.CalledProcessError, TimeoutError) as error:
            print(f"{case}: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
            failed = True
    return found, failed


def _conditions(arguments: Iterable[str]) -> dict[str, Any]:
    """When, where and how it was measured."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()}",
        "python": platform.python_version(),
        "compiled": compiled(),
        "commit": commit.stdout.strip(),
        "command": " ".join(["python -m tests.bench", *arguments]),
    }


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

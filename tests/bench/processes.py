"""Programs that are measured from outside: what they cost, on a core of their own."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.request import urlopen

ROOT: Final = Path(__file__).resolve().parent.parent.parent
START_LIMIT_S: Final = 60.0

CORES: Final = tuple(sorted(os.sched_getaffinity(0)))
SUBJECT_CORE: Final = CORES[0]
SENDER_CORE: Final = CORES[-1]


def pin(core: int) -> None:
    """Keep this process to one core."""
    os.sched_setaffinity(0, {core})


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Keep what is started inside, and this process while it is, to one core."""
    before = os.sched_getaffinity(0)
    pin(core)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def cpu_s(process: int) -> float:
    """CPU seconds of a process, all its threads that still run, to the microsecond."""
    total = 0
    for thread in Path(f"/proc/{process}/task").iterdir():
        total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e9


def memory_mb(process: int, what: str = "VmRSS") -> float:
    """Resident memory now, or at its most (VmHWM), in MB."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) / 1000
    raise ValueError(what)


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment() -> dict[str, str]:
    """What is measured here is measured there, too."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": paths, "GOMAXPROCS": "1", "no_proxy": "127.0.0.1"}


@contextmanager
def running(command: list[str], ready: Callable[[], bool], log: Path) -> Iterator[int]:
    """A program on the subject's core, once it is ready: its process. Raises TimeoutError, with what it wrote."""
    with open(log, "wb") as out, pinned(SUBJECT_CORE):
        process = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=out, stderr=out)
    try:
        limit = time.monotonic() + START_LIMIT_S
        while not ready():
            if process.poll() is not None or time.monotonic() > limit:
                raise TimeoutError(f"{command} is not ready:\n{log.read_text(errors='replace')}")
            time.sleep(0.005)
        yield process.pid
    except Exception as error:
        error.add_note(log.read_text(errors="replace"))
        raise
    finally:
        process.kill()
        process.wait()


def listens(port: int) -> bool:
    """Whether somebody takes connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def fetch(url: str) -> str | None:
    """The text at an address; None unless it is there."""
    try:
        with urlopen(url, timeout=120) as answer:
            return str(answer.read().decode())
    except OSError:
        return None


def helper(module: str, *arguments: str) -> str:
    """What a module of this package prints, run on the sender's core. Raises CalledProcessError."""
    command = [sys.executable, "-m", f"tests.bench.{module}", *arguments]
    with pinned(SENDER_CORE):
        done = subprocess.run(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout

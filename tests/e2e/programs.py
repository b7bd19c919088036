"""Programs that a test of the whole chain starts, and waiting for what they do."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

import pytest

START_LIMIT_S = 90.0


def exporter_command() -> list[str]:
    """The package under test."""
    return [sys.executable, "-P", "-m", "exporter"]


def environment() -> dict[str, str]:
    """The package under test, whichever it is, and no proxy for loopback."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return {**os.environ, "PYTHONPATH": paths, "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}


def start(stack: ExitStack, folder: Path, *command: str) -> "subprocess.Popen[bytes]":
    """Start a program, to be stopped with the stack; it writes to log.txt."""
    with open(folder / "log.txt", "ab") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment(), stdout=log, stderr=log)
    stack.callback(stop, process)
    return process


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Ask, then insist."""
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(url: str) -> bool:
    """Whether it says 200."""
    try:
        with urlopen(url, timeout=1):
            return True
    except OSError:
        return False


def until(what: str, true: Callable[[], object], limit_s: float = START_LIMIT_S) -> None:
    """Look every 50 ms."""
    end = time.monotonic() + limit_s
    while not true():
        if time.monotonic() > end:
            pytest.fail(f"no sign of {what} after {limit_s:.0f} s")
        threading.Event().wait(0.05)

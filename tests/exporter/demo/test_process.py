"""exporter.demo.process: children that report, end when told, and are missed when they end by themselves."""

import os
import signal
import sys
from pathlib import Path

import pytest

from exporter.demo.process import ChildFailed, Setup, child

NOBODY = Setup(otlp="http://127.0.0.1:9", transport="http")


def no_children_left() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False


async def test_a_service_is_up_while_it_is_wanted_and_gone_after() -> None:
    async with child("model", NOBODY) as (port, watch):
        assert port > 0
        assert not watch.done()
    assert no_children_left()


async def test_a_service_that_cannot_start_is_named() -> None:
    with pytest.raises(ChildFailed, match="simulated nonsense ended with code 1 before it was ready"):
        async with child("nonsense", NOBODY):
            pass
    assert no_children_left()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the children of this process from /proc")
async def test_a_service_that_is_killed_is_missed() -> None:
    async with child("model", NOBODY) as (_, watch):
        (pid,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        os.kill(int(pid), signal.SIGKILL)
        with pytest.raises(ChildFailed, match="simulated model ended with code -9 during the run"):
            await watch
    assert no_children_left()


async def test_settings_of_the_users_own_sdk_do_not_reach_the_services(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "nonsense")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "not a number")
    async with child("model", NOBODY) as (port, _):
        assert port > 0

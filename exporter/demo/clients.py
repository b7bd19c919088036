"""The simulated people: each opens a connection to the gateway at its time, reads its answer, or gives up.

They keep their own count, so that the end of the demo can lay the exporter's beside it. Requests carry an id but no
trace context: the gateway begins the trace, as it does for browsers.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from exporter.demo.process import Message, call
from exporter.demo.trace import SECOND_NS, Arrival

WAIT_LIMIT_S: Final = 60.0


@dataclass(slots=True, kw_only=True)
class Tally:
    """What the clients saw."""

    sent: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    """By the exporter's word for the outcome."""


async def send(arrivals: Iterable[Arrival], port: int, tally: Tally) -> None:
    """Send all requests, each at its time from now on; returns when the last client is done."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with asyncio.TaskGroup() as clients:
        for arrival in arrivals:
            await asyncio.sleep(started + arrival.at_ns / SECOND_NS - loop.time())
            clients.create_task(_client(arrival, port, tally))


async def _client(arrival: Arrival, port: int, tally: Tally) -> None:
    tally.sent += 1
    request: Message = {
        "headers": {"x-request-id": str(uuid.uuid4())},
        "input_tokens": arrival.input_tokens,
        "output_tokens": arrival.output_tokens,
    }
    tally.endings[await _ending(request, port, arrival.patience_ns)] += 1


async def _ending(request: Message, port: int, patience_ns: int | None) -> str:
    last = None
    try:
        async with asyncio.timeout(WAIT_LIMIT_S if patience_ns is None else patience_ns / SECOND_NS) as patience:
            async with call(port, request) as events:
                async for event in events:
                    last = event["event"]
                    patience.reschedule(None)
    except TimeoutError:
        return "cancelled"
    except OSError:
        return "error"
    return "ok" if last == "done" else "shed" if last == "refused" else "error"

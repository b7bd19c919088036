"""How long the exporter lets others wait: an empty body every other millisecond, and when it is answered."""

import threading
import time
from types import TracebackType
from typing import Final, Self

from tests.bench.sender import poster

EVERY_S: Final = 0.002


class Prober:
    """Asks for as long as its context lasts."""

    def __init__(self, port: int) -> None:
        self.longest_ms = 0.0
        self._post = poster("http", port)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._ended.wait(EVERY_S):
            begun = time.perf_counter()
            self._post(b"")
            self.longest_ms = max(self.longest_ms, 1e3 * (time.perf_counter() - begun))

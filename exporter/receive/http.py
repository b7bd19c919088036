"""OTLP over HTTP: POST /v1/traces and /v1/logs, protobuf or JSON, plain or compressed.

The size limit holds while inflating: a compressed body is undone in steps that cannot yield more than is left of the
limit, so a small body that would become a huge one costs no more than the limit. aiohttp's own inflating has no such
bound and is switched off.

Answers follow the OTLP specification: a reply has the content type of its request, errors are google.rpc.Status, and
429 and 503 say when to come back. What a sender did wrong is never answered with a 5xx: some senders repeat those for
ever.
"""

import asyncio
import socket
import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from aiohttp import web

try:
    from isal import isal_zlib as quick
except ImportError:  # there is none for this machine
    quick = zlib  # type: ignore[misc]

from exporter.decode.columns import BadBody
from exporter.receive import STOPPING, STOPPING_RETRY_S, Clock, Encoding, Full, Room, Signal, Sink
from exporter.receive.answers import Code, refused, taken

ENCODINGS: Final[dict[str, Encoding]] = {"application/x-protobuf": "protobuf", "application/json": "json"}
NO_OTHERS: Final = "goodput-exporter takes traces and logs, by POST at /v1/traces and /v1/logs"
BODIES_AT_ONCE: Final = 8
"""Bodies of the largest size that may be on their way in at once; a sender beyond is told to come back."""
READ_TIMEOUT_S: Final = 30.0
"""For one body; as long as an OpenTelemetry SDK gives its whole export."""

_READ_BUFFER: Final = 2**18
"""Bytes of a connection after which it is read no further for now; as many as asyncio reads at a time."""

_CLOSE_TIMEOUT_S: Final = 0.1
"""For the last answers to leave; aiohttp waits this long twice."""

_ZLIB_FORMATS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""Content codings and the window bits that make zlib read them."""
_GZIP_HEADER: Final = 10
_GZIP_FLAGS: Final = 3
"""Bytes of a header without optional fields, and where it says that it has any (RFC 1952)."""


class HttpReceiver:
    """An HTTP application that feeds `sink`. Bodies may have `max_body` bytes, before and after inflating."""

    def __init__(self, sink: Sink, *, max_body: int, clock: Clock, read_timeout_s: float = READ_TIMEOUT_S) -> None:
        self._sink = sink
        self._clock = clock
        self._max_body = max_body
        self._room = Room(BODIES_AT_ONCE * max_body)
        self._read_timeout_s = read_timeout_s
        self._stopping = False
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()
        app = web.Application(middlewares=[self._count])
        app.add_routes(
            [
                web.post("/v1/traces", partial(self._export, "traces")),
                web.post("/v1/logs", partial(self._export, "logs")),
                web.post("/v1/metrics", self._other_signal),
            ]
        )
        self._runner = web.AppRunner(
            app, auto_decompress=False, access_log=None, shutdown_timeout=_CLOSE_TIMEOUT_S, read_bufsize=_READ_BUFFER
        )

    async def start(self, listener: socket.socket) -> None:
        """Serve what connects to `listener`, which is closed at the stop."""
        await self._runner.setup()
        await web.SockSite(self._runner, listener).start()

    def refuse(self) -> None:
        """Answer 503 to requests that come from now on; a body that is under way is still taken."""
        self._stopping = True

    async def stop(self, grace_s: float) -> None:
        """Refuse what comes, give bodies under way `grace_s` seconds to finish, then stop listening."""
        self.refuse()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self._idle.wait()
        await self._runner.cleanup()

    @web.middleware
    async def _count(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        self._under_way += 1
        self._idle.clear()
        try:
            answer = await handler(request)
        except web.HTTPException as error:
            self._sink.count_call("http", str(error.status))
            raise
        except ConnectionError:
            raise  # the sender is gone, nobody is answered
        except Exception:
            self._sink.count_call("http", "500")
            raise
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()
        self._sink.count_call("http", str(answer.status))
        return answer

    async def _export(self, signal: Signal, request: web.Request) -> web.Response:
        if request.content_type not in ENCODINGS:
            text = f"content type {request.content_type}: send one of {_listed(ENCODINGS)}"
            return web.Response(status=415, text=text)
        if self._stopping:
            answer = _refuse(request, 503, Code.UNAVAILABLE, STOPPING, STOPPING_RETRY_S)
            answer.force_close()
            return answer
        try:
            return self._feed(request, await self._body(request), signal)
        except _UnknownCoding as error:
            return _refuse(request, 415, Code.INVALID_ARGUMENT, str(error))
        except _TooLarge as error:
            return _refuse(request, 413, Code.RESOURCE_EXHAUSTED, str(error))
        except (_NotCompressed, BadBody, web.RequestPayloadError) as error:
            return _refuse(request, 400, Code.INVALID_ARGUMENT, str(error))
        except TimeoutError:
            return _refuse(
                request, 408, Code.DEADLINE_EXCEEDED, f"the body took longer than {self._read_timeout_s:g} s"
            )
        except Full as error:
            http, code = (503, Code.UNAVAILABLE) if self._stopping else (429, Code.RESOURCE_EXHAUSTED)
            return _refuse(request, http, code, str(error), error.retry_after_s)

    def _feed(self, request: web.Request, body: bytes, signal: Signal) -> web.Response:
        encoding = ENCODINGS[request.content_type]
        receipt = self._sink.feed(body, encoding=encoding, transport="http", now_ns=self._clock(), signal=signal)
        return _answer(request, 200, taken(receipt, signal, encoding))

    async def _body(self, request: web.Request) -> bytes:
        body = _Body(request.headers.get("Content-Encoding", "identity").strip().lower(), self._max_body)
        body.expect(request.content_length or 0)
        held = 0
        try:
            async with asyncio.timeout(self._read_timeout_s):
                async for chunk in request.content.iter_any():
                    grown = body.add(chunk)
                    self._room.take(grown)
                    held += grown
            return body.whole()
        finally:
            self._room.give(held)

    async def _other_signal(self, request: web.Request) -> web.Response:
        if request.content_type not in ENCODINGS:
            return web.Response(status=404, text=NO_OTHERS)
        return _refuse(request, 404, Code.UNIMPLEMENTED, NO_OTHERS)


class _UnknownCoding(Exception):
    """The Content-Encoding is none that is read here."""


class _TooLarge(Exception):
    """The body has more bytes than it may have."""


class _NotCompressed(Exception):
    """The body is not what its Content-Encoding says, or is cut off."""


class _Body:
    """Gathers and inflates a body, and never holds more than `limit` bytes of it."""

    def __init__(self, coding: str, limit: int) -> None:
        if coding not in ("identity", *_ZLIB_FORMATS):
            raise _UnknownCoding(f"content encoding {coding}: send one of {_listed(_ZLIB_FORMATS)}, or none")
        self._coding = coding
        self._format = _ZLIB_FORMATS.get(coding)
        self._limit = limit
        self._received = 0
        self._size = 0
        self._parts: list[bytes] = []
        self._inflater: Any = None

    def expect(self, size: int) -> None:
        """Refuse now what would be refused in the end."""
        if size > self._limit:
            raise _TooLarge(f"the body has {size} bytes, the limit is {self._limit}")

    def add(self, chunk: bytes) -> int:
        """Take a piece; by how many bytes the body grew."""
        self._received += len(chunk)
        self.expect(self._received)
        if self._format is None:
            self._parts.append(chunk)
            return len(chunk)
        before = self._size
        try:
            self._inflate(chunk)
        except (zlib.error, quick.error) as error:  # type: ignore[misc]
            raise _NotCompressed(f"the body is not {self._coding}: {error}") from error
        return self._size - before

    def _inflate(self, chunk: bytes) -> None:
        while chunk:
            if self._inflater is None or self._inflater.eof:  # gzip may be several members, one after the other
                self._inflater = _inflater(_ZLIB_FORMATS[self._coding], chunk)
            # One byte more than may come: if it comes, the body is too large, and nothing can be left over.
            part = self._inflater.decompress(chunk, self._limit - self._size + 1)
            self._size += len(part)
            if self._size > self._limit:
                raise _TooLarge(f"the body has more than {self._limit} bytes when inflated, which is the limit")
            self._parts.append(part)
            chunk = self._inflater.unused_data

    def whole(self) -> bytes:
        if self._format is not None and (self._inflater is None or not self._inflater.eof):
            raise _NotCompressed(f"the body is cut off: {self._coding} ends after {self._received} bytes")
        return b"".join(self._parts)


def _inflater(bits: int, begin: bytes) -> Any:
    """What inflates a stream that begins so: ISA-L, if its header is whole and plain. Others it may not get right."""
    plain = bits == _ZLIB_FORMATS["gzip"] and len(begin) >= _GZIP_HEADER and begin[_GZIP_FLAGS] == 0
    return (quick if plain else zlib).decompressobj(bits)


def _refuse(
    request: web.Request, status: int, code: Code, message: str, retry_after_s: int | None = None
) -> web.Response:
    answer = _answer(request, status, refused(code, message, retry_after_s, ENCODINGS[request.content_type]))
    if retry_after_s is not None:
        answer.headers["Retry-After"] = str(retry_after_s)
    if status == 415:
        answer.headers["Accept-Encoding"] = _listed(_ZLIB_FORMATS)
    return answer


def _answer(request: web.Request, status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, content_type=request.content_type)


def _listed(words: dict[str, Encoding] | dict[str, int]) -> str:
    return ", ".join(words)

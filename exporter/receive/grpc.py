"""OTLP over gRPC. Bodies go to the sink as the bytes they are: nothing is parsed here.

gRPC itself undoes gzip and deflate and holds the size limit while it inflates; what is too large it refuses with
RESOURCE_EXHAUSTED without RetryInfo, before anything here runs, so those calls are not in the count of answers.

The sink takes a body without waiting, so a call that has reached `_export` is finished before anything else runs; to
stop is to turn away what comes next, for as long as it takes the senders to notice.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

import grpc

from exporter.decode.columns import BadBody
from exporter.receive import STOPPING, STOPPING_RETRY_S, Clock, Full, Signal, Sink
from exporter.receive.answers import Code, refused, taken

EXPORT: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
EXPORT_LOGS: Final = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
SIGNALS: Final[dict[str, Signal]] = {EXPORT: "traces", EXPORT_LOGS: "logs"}
NO_OTHERS: Final = f"goodput-exporter takes traces and logs, at {' and '.join(path[1:] for path in SIGNALS)}"

CALLS_AT_ONCE: Final = 64
"""Calls whose bodies may be on their way in at once; gRPC turns the next away with RESOURCE_EXHAUSTED."""

_COLLECTOR_SERVICES: Final = "/opentelemetry.proto.collector."
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}

_Call = grpc.aio.ServicerContext[bytes, bytes]
_Handler = Callable[[bytes, _Call], Awaitable[bytes]]
if TYPE_CHECKING:
    _Method = grpc.RpcMethodHandler[bytes, bytes]


class GrpcReceiver:
    """A gRPC server that feeds `sink`. Bodies may have `max_body` bytes after inflating."""

    def __init__(self, sink: Sink, *, max_body: int, clock: Clock) -> None:
        self._sink = sink
        self._clock = clock
        self._max_body = max_body
        self._stopping = False
        self._server: grpc.aio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port (another one than asked for only if that was 0). Raises OSError if it is in use.

        An empty host means every interface.
        """
        options = [
            ("grpc.max_receive_message_length", self._max_body),
            # Otherwise a second exporter would get the same port without a word, and half the spans.
            ("grpc.so_reuseport", 0),
        ]
        exports = {path: partial(self._export, signal) for path, signal in SIGNALS.items()}
        handlers = [_Services(exports, self._unimplemented)]
        server = grpc.aio.server(handlers=handlers, options=options, maximum_concurrent_rpcs=CALLS_AT_ONCE)
        try:
            bound = server.add_insecure_port(_target(host, port))
        except RuntimeError as error:
            raise OSError(str(error)) from error
        await server.start()
        self._server = server
        return bound

    def refuse(self) -> None:
        """Answer UNAVAILABLE from now on."""
        self._stopping = True

    async def stop(self, grace_s: float) -> None:
        """Stop listening; calls under way have `grace_s` seconds to finish."""
        self.refuse()
        if self._server is not None:
            await self._server.stop(grace_s)

    async def _export(self, signal: Signal, body: bytes, call: _Call) -> bytes:
        if self._stopping:
            await self._refuse(call, Code.UNAVAILABLE, STOPPING, STOPPING_RETRY_S)
        try:
            receipt = self._sink.feed(body, encoding="protobuf", transport="grpc", now_ns=self._clock(), signal=signal)
        except BadBody as error:
            await self._refuse(call, Code.INVALID_ARGUMENT, str(error))
        except Full as error:
            await self._refuse(call, Code.RESOURCE_EXHAUSTED, str(error), error.retry_after_s)
        self._sink.count_call("grpc", "OK")
        return taken(receipt, signal, "protobuf")

    async def _unimplemented(self, _: bytes, call: _Call) -> bytes:
        await self._refuse(call, Code.UNIMPLEMENTED, NO_OTHERS)

    async def _refuse(self, call: _Call, code: Code, message: str, retry_after_s: int | None = None) -> NoReturn:
        self._sink.count_call("grpc", code.name)
        details = (("grpc-status-details-bin", refused(code, message, retry_after_s)),)
        await call.abort(_CODES[code], message, details)


def _target(host: str, port: int) -> str:
    """An address as gRPC spells it: `[::]` stands for all interfaces of both IP versions."""
    return f"{host}:{port}" if host and ":" not in host else f"[{host or '::'}]:{port}"


class _Services(grpc.GenericRpcHandler):
    """Routes raw bytes: without (de)serializers, gRPC hands over and takes what is on the wire."""

    def __init__(self, exports: Mapping[str, _Handler], unimplemented: _Handler) -> None:
        self._exports = exports
        self._unimplemented = unimplemented

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "_Method | None":
        export = self._exports.get(handler_call_details.method)
        if export is not None:
            return grpc.unary_unary_rpc_method_handler(export)
        if handler_call_details.method.startswith(_COLLECTOR_SERVICES):
            return grpc.unary_unary_rpc_method_handler(self._unimplemented)
        return None  # gRPC answers UNIMPLEMENTED

"""Servers that take what an OTLP receiver takes and drop it: the least that a transport costs.

python -m tests.bench.null grpc|http PORT
"""

import asyncio
import socket
import sys
import time

import grpc
from aiohttp import web

from exporter import allocator
from exporter.config import Receive
from exporter.receive import Encoding, Receipt, Signal, Transport
from exporter.receive.grpc import GrpcReceiver
from exporter.receive.http import HttpReceiver
from tests.bench.mix import BATCH


async def over_grpc(port: int) -> None:
    """Serve until killed, with the library of the exporter and no more than it must do."""

    class Handlers(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
            return handler

    async def drop(body: bytes, _: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
        return b""

    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(drop)
    server = grpc.aio.server(handlers=[Handlers()], options=[("grpc.max_receive_message_length", 2**26)])
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


async def over_http(port: int) -> None:
    """The same over HTTP. aiohttp inflates what is compressed."""

    async def drop(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(content_type="application/x-protobuf")

    application = web.Application(client_max_size=2**26)
    application.add_routes([web.post("/v1/traces", drop)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


class Drop:
    """A sink that looks at nothing."""

    def feed(
        self, body: bytes, *, encoding: Encoding, transport: Transport, now_ns: int, signal: Signal = "traces"
    ) -> Receipt:
        """Take a body."""
        return Receipt(BATCH, 0, "")

    def count_call(self, transport: Transport, code: str) -> None:
        """Count nothing."""


async def own_over_grpc(port: int) -> None:
    """The exporter's receiver."""
    receiver = GrpcReceiver(Drop(), max_body=Receive().max_body, clock=time.time_ns)
    await receiver.start("127.0.0.1", port)
    await asyncio.Event().wait()


async def own_over_http(port: int) -> None:
    """The exporter's receiver."""
    receiver = HttpReceiver(Drop(), max_body=Receive().max_body, clock=time.time_ns)
    await receiver.start(socket.create_server(("127.0.0.1", port)))
    await asyncio.Event().wait()


if __name__ == "__main__":
    if "own" in sys.argv:
        allocator.expect_bodies()
    servers = {"grpc": over_grpc, "http": over_http, "grpc own": own_over_grpc, "http own": own_over_http}
    asyncio.run(servers[" ".join([sys.argv[1], *sys.argv[3:]])](int(sys.argv[2])))

"""Servers that take what an OTLP receiver takes and drop it: the least that a transport costs.

python -m tests.bench.null grpc|http PORT
"""

import asyncio
import sys

import grpc
from aiohttp import web


async def over_grpc(port: int) -> None:
    """Serve until killed, with the library of the exporter and no more than it must do."""

    class Drop(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
            return handler

    async def drop(body: bytes, _: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
        return b""

    handler = grpc.unary_unary_rpc_method_handler(drop)
    server = grpc.aio.server(handlers=[Drop()], options=[("grpc.max_receive_message_length", 2**26)])
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


if __name__ == "__main__":
    asyncio.run({"grpc": over_grpc, "http": over_http}[sys.argv[1]](int(sys.argv[2])))

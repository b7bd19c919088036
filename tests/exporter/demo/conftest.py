"""A tracer whose spans can be read, and the smallest OTLP receiver, which stands in for the exporter in the demo."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

HOST = "127.0.0.1"
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@dataclass
class Sink:
    """Spans as (transport, scope name, span), in order of arrival."""

    spans: list[tuple[str, str, Span]] = field(default_factory=list)
    grpc_url: str = ""
    http_url: str = ""
    metrics_url: str = "http://metrics.test/metrics"

    def report(self, now_ns: int) -> dict[str, Any]:
        return {}

    def take(self, transport: str, body: bytes) -> bytes:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.spans += [(transport, scope.scope.name, span) for span in scope.spans]
        return ExportTraceServiceResponse().SerializeToString()

    def named(self, name: str) -> list[Span]:
        return [span for _, _, span in self.spans if span.name == name]


@asynccontextmanager
async def listening() -> AsyncIterator[Sink]:
    sink = Sink()

    async def over_grpc(body: bytes, _: object) -> bytes:
        return sink.take("grpc", body)

    async def over_http(request: web.Request) -> web.Response:
        return web.Response(body=sink.take("http", await request.read()), content_type="application/x-protobuf")

    service, method = EXPORT[1:].split("/")
    server = grpc.aio.server(
        handlers=[
            grpc.method_handlers_generic_handler(service, {method: grpc.unary_unary_rpc_method_handler(over_grpc)})
        ]
    )
    sink.grpc_url = f"http://{HOST}:{server.add_insecure_port(f'{HOST}:0')}"
    await server.start()
    app = web.Application()
    app.add_routes([web.post("/v1/traces", over_http)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, HOST, 0)
    await site.start()
    sink.http_url = f"http://{HOST}:{runner.addresses[0][1]}"
    try:
        yield sink
    finally:
        await runner.cleanup()
        await server.stop(None)


@pytest.fixture
async def sink() -> AsyncIterator[Sink]:
    async with listening() as sink:
        yield sink


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(spans: InMemorySpanExporter) -> TracerProvider:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return provider

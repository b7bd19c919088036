"""OTLP over gRPC on real sockets: what is taken, what is refused and how senders are told."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import pytest
from google.rpc.code_pb2 import INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

from exporter.decode.columns import BadBody
from exporter.receive import Full, Receipt
from exporter.receive.grpc import EXPORT, EXPORT_LOGS, GrpcReceiver

if TYPE_CHECKING:
    from tests.exporter.receive.conftest import Recorder

NOW_NS = 1_700_000_000_000_000_000
LIMIT = 1 << 20


def receiver_of(recorder: "Recorder") -> GrpcReceiver:
    return GrpcReceiver(recorder, max_body=LIMIT, clock=lambda: NOW_NS)


@asynccontextmanager
async def listening(receiver: GrpcReceiver) -> AsyncIterator[str]:
    port = await receiver.start("127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await receiver.stop(grace_s=1)


async def send(
    receiver: GrpcReceiver,
    body: bytes,
    method: str = EXPORT,
    compression: grpc.Compression = grpc.Compression.NoCompression,
) -> bytes:
    async with listening(receiver) as target, grpc.aio.insecure_channel(target, compression=compression) as channel:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        return await call(body)


async def refused(receiver: GrpcReceiver, body: bytes, method: str = EXPORT) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await send(receiver, body, method)
    return caught.value


def details(error: grpc.aio.AioRpcError) -> Status:
    trailers = dict(error.trailing_metadata())
    return Status.FromString(trailers["grpc-status-details-bin"])


def retry_after(error: grpc.aio.AioRpcError) -> int:
    (detail,) = details(error).details
    info = RetryInfo()
    assert detail.Unpack(info)
    return int(info.retry_delay.seconds)


@pytest.mark.parametrize("compression", list(grpc.Compression))
async def test_a_body_reaches_the_sink_as_the_bytes_it_was(recorder: "Recorder", compression: grpc.Compression) -> None:
    assert await send(receiver_of(recorder), b"some spans" * 100, compression=compression) == b""
    assert recorder.bodies == [b"some spans" * 100]
    assert recorder.fed == [("protobuf", "grpc", NOW_NS)]
    assert recorder.calls == [("grpc", "OK")]


@pytest.mark.parametrize("rejected", [1, 0], ids=["rejected", "warning"])
async def test_what_was_wrong_with_some_spans_is_told_as_partial_success(recorder: "Recorder", rejected: int) -> None:
    recorder.answer = Receipt(accepted=9, rejected=rejected, message="span 4: trace id of 15 bytes")
    answer = ExportTraceServiceResponse.FromString(await send(receiver_of(recorder), b"x"))
    assert answer.partial_success.rejected_spans == rejected
    assert answer.partial_success.error_message == "span 4: trace id of 15 bytes"


async def test_a_body_that_is_not_otlp_is_an_invalid_argument_that_names_the_place(recorder: "Recorder") -> None:
    recorder.answer = BadBody("byte 7: no such wire type")
    error = await refused(receiver_of(recorder), b"\x07")
    assert (error.code(), error.details()) == (grpc.StatusCode.INVALID_ARGUMENT, "byte 7: no such wire type")
    assert (details(error).code, list(details(error).details)) == (INVALID_ARGUMENT, [])
    assert recorder.calls == [("grpc", "INVALID_ARGUMENT")]


async def test_a_full_sink_is_resource_exhausted_that_says_when_to_come_back(recorder: "Recorder") -> None:
    recorder.answer = Full("no room", 7)
    error = await refused(receiver_of(recorder), b"x")
    assert (error.code(), error.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "no room")
    assert (details(error).code, retry_after(error)) == (RESOURCE_EXHAUSTED, 7)
    assert recorder.calls == [("grpc", "RESOURCE_EXHAUSTED")]


async def test_a_stopping_receiver_is_unavailable_and_says_when_to_come_back(recorder: "Recorder") -> None:
    receiver = receiver_of(recorder)
    receiver.refuse()
    error = await refused(receiver, b"x")
    assert error.code() == grpc.StatusCode.UNAVAILABLE
    assert (details(error).code, retry_after(error)) == (UNAVAILABLE, 5)
    assert (recorder.bodies, recorder.calls) == ([], [("grpc", "UNAVAILABLE")])


@pytest.mark.parametrize("compression", list(grpc.Compression))
async def test_a_body_at_the_limit_is_taken_and_one_byte_more_is_not_to_be_sent_again(
    recorder: "Recorder", compression: grpc.Compression
) -> None:
    await send(receiver_of(recorder), bytes(LIMIT), compression=compression)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await send(receiver_of(recorder), bytes(LIMIT + 1), compression=compression)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "grpc-status-details-bin" not in dict(caught.value.trailing_metadata())
    assert recorder.bodies == [bytes(LIMIT)]


async def test_log_records_are_taken_at_their_own_service(recorder: "Recorder") -> None:
    recorder.answer = Receipt(accepted=1, rejected=2, message="log record 0: no")
    answer = ExportLogsServiceResponse.FromString(await send(receiver_of(recorder), b"x", EXPORT_LOGS))
    assert (answer.partial_success.rejected_log_records, answer.partial_success.error_message) == (
        2,
        "log record 0: no",
    )
    assert (recorder.bodies, recorder.signals, recorder.calls) == ([b"x"], ["logs"], [("grpc", "OK")])


@pytest.mark.parametrize("signal", ["metrics.v1.Metrics", "profiles.v1development.Profiles"])
async def test_other_signals_are_unimplemented_and_the_answer_says_so(recorder: "Recorder", signal: str) -> None:
    method = f"/opentelemetry.proto.collector.{signal}Service/Export"
    error = await refused(receiver_of(recorder), b"x", method)
    assert error.code() == grpc.StatusCode.UNIMPLEMENTED
    assert "traces and logs" in (error.details() or "")
    assert (recorder.bodies, recorder.calls) == ([], [("grpc", "UNIMPLEMENTED")])


async def test_other_services_are_unimplemented(recorder: "Recorder") -> None:
    error = await refused(receiver_of(recorder), b"x", "/grpc.health.v1.Health/Check")
    assert error.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_a_port_in_use_is_an_error_and_not_shared(recorder: "Recorder") -> None:
    async with listening(receiver_of(recorder)) as target:
        with pytest.raises(OSError, match=target):
            await receiver_of(recorder).start("127.0.0.1", int(target.rpartition(":")[2]))


@pytest.mark.parametrize("host", ["", "0.0.0.0", "localhost"])
async def test_an_empty_host_and_names_are_listened_on(recorder: "Recorder", host: str) -> None:
    receiver = receiver_of(recorder)
    port = await receiver.start(host, 0)
    with socket.create_connection(("127.0.0.1", port)):
        pass
    await receiver.stop(grace_s=0)


@pytest.mark.parametrize("compression", list(grpc.Compression))
async def test_the_sdks_own_exporter_delivers(recorder: "Recorder", compression: grpc.Compression) -> None:
    async with listening(receiver_of(recorder)) as target:
        exporter = OTLPSpanExporter(target, insecure=True, compression=compression)
        assert await asyncio.to_thread(export_one, exporter) is SpanExportResult.SUCCESS
    (body,) = recorder.bodies
    (resource,) = ExportTraceServiceRequest.FromString(body).resource_spans
    assert [span.name for span in resource.scope_spans[0].spans] == ["llm_request"]


def export_one(exporter: OTLPSpanExporter) -> SpanExportResult:
    span = TracerProvider().get_tracer("vllm.tracing.otel").start_span("llm_request")
    span.end()
    try:
        return exporter.export([span])  # type: ignore[list-item]
    finally:
        exporter.shutdown()

"""OTLP over HTTP on real sockets: what is taken, what is refused and how senders are told."""

import asyncio
import gzip
import json
import socket
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

import pytest
from aiohttp import ClientSession
from google.protobuf.json_format import Parse
from google.rpc.code_pb2 import (
    DEADLINE_EXCEEDED,
    INVALID_ARGUMENT,
    RESOURCE_EXHAUSTED,
    UNAVAILABLE,
    UNIMPLEMENTED,
)
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

from exporter.decode.columns import BadBody
from exporter.receive import Full, Receipt
from exporter.receive.http import BODIES_AT_ONCE, HttpReceiver, _Body

if TYPE_CHECKING:
    from tests.exporter.receive.conftest import Recorder

NOW_NS = 1_700_000_000_000_000_000
LIMIT = 1 << 20
PROTOBUF = "application/x-protobuf"
JSON = "application/json"


def receiver_of(recorder: "Recorder", **settings: float) -> HttpReceiver:
    return HttpReceiver(recorder, max_body=LIMIT, clock=lambda: NOW_NS, **settings)


@asynccontextmanager
async def listening(receiver: HttpReceiver) -> AsyncIterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    await receiver.start(listener)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        await receiver.stop(grace_s=1)


class Reply(NamedTuple):
    code: int
    content_type: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def status(self) -> Status:
        return Parse(self.body, Status()) if self.content_type == JSON else Status.FromString(self.body)

    @property
    def partial_success(self) -> ExportTracePartialSuccess:
        if self.content_type == JSON:
            return Parse(self.body, ExportTraceServiceResponse()).partial_success
        return ExportTraceServiceResponse.FromString(self.body).partial_success


Body = bytes | AsyncIterator[bytes]


async def send(
    receiver: HttpReceiver,
    body: Body,
    content_type: str = PROTOBUF,
    coding: str = "identity",
    *,
    path: str = "/v1/traces",
    method: str = "POST",
    expect100: bool = False,
) -> Reply:
    headers = {"Content-Type": content_type, "Content-Encoding": coding}
    data = BytesIO(body) if isinstance(body, bytes) else body
    async with (
        listening(receiver) as url,
        ClientSession(url) as session,
        session.request(method, path, data=data, headers=headers, expect100=expect100) as answer,
    ):
        return Reply(answer.status, answer.content_type, answer.headers, await answer.read())


in_both_encodings = pytest.mark.parametrize("content_type", [PROTOBUF, JSON])


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [
        ("application/x-protobuf", "protobuf"),
        ("application/json", "json"),
        ("application/json; charset=utf-8", "json"),
        ("Application/JSON;charset=UTF-8", "json"),
    ],
)
@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("identity", bytes),
        ("gzip", gzip.compress),
        ("GZIP", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("gzip", lambda body: gzip.compress(body[:3]) + gzip.compress(body[3:])),
    ],
    ids=["plain", "gzip", "upper_case", "x-gzip", "deflate", "two_gzip_members"],
)
async def test_a_body_reaches_the_sink_as_it_was_before_packing(
    recorder: "Recorder", content_type: str, encoding: str, coding: str, pack: Callable[[bytes], bytes]
) -> None:
    reply = await send(receiver_of(recorder), pack(b"some spans"), content_type, coding)
    assert (reply.code, reply.content_type) == (200, content_type.partition(";")[0].lower())
    assert recorder.bodies == [b"some spans"]
    assert recorder.fed == [(encoding, "http", NOW_NS)]
    assert recorder.calls == [("http", "200")]


@pytest.mark.parametrize("flags", range(0, 32, 2))
def test_a_gzip_header_may_hold_more_and_come_in_pieces(flags: int) -> None:
    header = bytes((0x1F, 0x8B, 8, flags, 0, 0, 0, 0, 0, 3)) + b"\x03\0abc" * (flags >> 2 & 1)
    header += b"name\0" * (flags >> 3 & 1) + b"comment\0" * (flags >> 4 & 1)
    if flags & 2:
        header += (zlib.crc32(header) & 0xFFFF).to_bytes(2, "little")
    packed = header + gzip.compress(b"some spans")[10:]
    for cut in range(len(packed) + 1):
        body = _Body("gzip", 100)
        assert body.add(packed[:cut]) + body.add(packed[cut:]) == 10
        assert body.whole() == b"some spans"


@pytest.mark.parametrize(("content_type", "body"), [(PROTOBUF, b""), (JSON, b"{}")])
async def test_full_success_leaves_partial_success_unset(recorder: "Recorder", content_type: str, body: bytes) -> None:
    reply = await send(receiver_of(recorder), b"", content_type)
    assert (reply.code, reply.body) == (200, body)


@in_both_encodings
@pytest.mark.parametrize("rejected", [1, 0], ids=["rejected", "warning"])
async def test_what_was_wrong_with_some_spans_is_told_as_partial_success(
    recorder: "Recorder", content_type: str, rejected: int
) -> None:
    recorder.answer = Receipt(accepted=9, rejected=rejected, message="span 4: trace id of 15 bytes")
    reply = await send(receiver_of(recorder), b"x", content_type)
    assert reply.code == 200
    assert reply.partial_success.rejected_spans == rejected
    assert reply.partial_success.error_message == "span 4: trace id of 15 bytes"


async def test_partial_success_in_json_is_spelt_as_otlp_spells_it(recorder: "Recorder") -> None:
    recorder.answer = Receipt(accepted=9, rejected=1, message="why")
    reply = await send(receiver_of(recorder), b"x", JSON)
    assert json.loads(reply.body) == {"partialSuccess": {"rejectedSpans": "1", "errorMessage": "why"}}


@in_both_encodings
async def test_a_body_that_is_not_otlp_is_a_400_that_names_the_place(recorder: "Recorder", content_type: str) -> None:
    recorder.answer = BadBody("byte 7: no such wire type")
    reply = await send(receiver_of(recorder), b"\x07", content_type)
    assert (reply.code, reply.content_type) == (400, content_type)
    assert (reply.status.code, reply.status.message) == (INVALID_ARGUMENT, "byte 7: no such wire type")
    assert recorder.calls == [("http", "400")]


@in_both_encodings
@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", gzip.compress(b"some spans")[:-9]),
        ("gzip", gzip.compress(b"some spans")[:-1]),
        ("gzip", gzip.compress(b"some spans") + b"rest"),
        ("gzip", gzip.compress(b"some spans")[:-8] + bytes(8)),
        ("gzip", b"some spans"),
        ("gzip", b""),
        ("deflate", zlib.compress(b"some spans")[:-1]),
        ("deflate", gzip.compress(b"some spans")),
    ],
    ids=["cut", "cut_in_checksum", "more_behind", "wrong_checksum", "plain", "empty", "deflate_cut", "not_deflate"],
)
async def test_a_body_that_cannot_be_inflated_is_a_400(
    recorder: "Recorder", content_type: str, coding: str, body: bytes
) -> None:
    reply = await send(receiver_of(recorder), body, content_type, coding)
    assert (reply.code, reply.content_type) == (400, content_type)
    assert reply.status.code == INVALID_ARGUMENT
    assert recorder.bodies == []


@pytest.mark.parametrize("content_type", ["text/plain", "application/octet-stream", "application/x-protobuf2", "json"])
async def test_another_content_type_is_a_415_that_names_the_right_ones(recorder: "Recorder", content_type: str) -> None:
    reply = await send(receiver_of(recorder), b"x", content_type)
    assert (reply.code, reply.content_type) == (415, "text/plain")
    assert b"application/x-protobuf, application/json" in reply.body
    assert (recorder.bodies, recorder.calls) == ([], [("http", "415")])


@in_both_encodings
@pytest.mark.parametrize("coding", ["zstd", "br", "gzip, gzip", "snappy"])
async def test_another_content_encoding_is_a_415_that_names_the_right_ones(
    recorder: "Recorder", content_type: str, coding: str
) -> None:
    reply = await send(receiver_of(recorder), b"x", content_type, coding)
    assert (reply.code, reply.content_type) == (415, content_type)
    assert "gzip" in reply.headers["Accept-Encoding"]
    assert coding in reply.status.message
    assert recorder.bodies == []


async def in_chunks(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), 65_536):
        yield body[at : at + 65_536]


@in_both_encodings
@pytest.mark.parametrize(("coding", "pack"), [("identity", bytes), ("gzip", gzip.compress), ("deflate", zlib.compress)])
@pytest.mark.parametrize("sent", [bytes, in_chunks], ids=["with_length", "chunked"])
async def test_a_body_at_the_limit_is_taken_and_one_byte_more_is_a_413(
    recorder: "Recorder",
    content_type: str,
    coding: str,
    pack: Callable[[bytes], bytes],
    sent: Callable[[bytes], Body],
) -> None:
    reply = await send(receiver_of(recorder), sent(pack(bytes(LIMIT))), content_type, coding)
    assert reply.code == 200
    reply = await send(receiver_of(recorder), sent(pack(bytes(LIMIT + 1))), content_type, coding)
    assert (reply.code, reply.content_type) == (413, content_type)
    assert (reply.status.code, list(reply.status.details)) == (RESOURCE_EXHAUSTED, [])
    assert str(LIMIT) in reply.status.message
    assert recorder.bodies == [bytes(LIMIT)]


async def test_inflating_stops_at_the_limit_so_a_bomb_costs_no_memory(recorder: "Recorder") -> None:
    bomb = gzip.compress(bytes(256 * LIMIT), 6)
    assert len(bomb) < LIMIT
    tracemalloc.start()
    try:
        reply = await send(receiver_of(recorder), bomb, coding="gzip")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reply.code == 413
    assert peak < 8 * LIMIT
    assert recorder.bodies == []


def retry_after(status: Status) -> int:
    (detail,) = status.details
    info = RetryInfo()
    assert detail.Unpack(info)
    return int(info.retry_delay.seconds)


@in_both_encodings
async def test_a_full_sink_is_a_429_that_says_when_to_come_back(recorder: "Recorder", content_type: str) -> None:
    recorder.answer = Full("no room", 7)
    reply = await send(receiver_of(recorder), b"x", content_type)
    assert (reply.code, reply.headers["Retry-After"], reply.content_type) == (429, "7", content_type)
    assert (reply.status.code, retry_after(reply.status)) == (RESOURCE_EXHAUSTED, 7)
    assert recorder.calls == [("http", "429")]


@in_both_encodings
async def test_a_stopping_receiver_answers_503_that_says_when_to_come_back(
    recorder: "Recorder", content_type: str
) -> None:
    receiver = receiver_of(recorder)
    receiver.refuse()
    reply = await send(receiver, b"x", content_type)
    assert (reply.code, reply.headers["Retry-After"], reply.content_type) == (503, "5", content_type)
    assert (reply.status.code, retry_after(reply.status)) == (UNAVAILABLE, 5)
    assert recorder.bodies == []


async def stopped_half_way(receiver: HttpReceiver) -> AsyncIterator[bytes]:
    # The first byte leaves after "100 Continue", so the receiver has let the request in.
    yield b"some "
    receiver.refuse()
    yield b"spans"


async def test_a_body_under_way_when_the_receiver_stops_is_taken(recorder: "Recorder") -> None:
    receiver = receiver_of(recorder)
    reply = await send(receiver, stopped_half_way(receiver), expect100=True)
    assert reply.code == 200
    assert recorder.bodies == [b"some spans"]


async def test_a_full_sink_of_a_stopping_receiver_is_a_503(recorder: "Recorder") -> None:
    receiver = receiver_of(recorder)
    recorder.answer = Full("no room", 7)
    reply = await send(receiver, stopped_half_way(receiver), expect100=True)
    assert (reply.code, reply.headers["Retry-After"], reply.status.code) == (503, "7", UNAVAILABLE)


async def test_a_body_that_never_ends_is_a_408(recorder: "Recorder") -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b"some"
        await asyncio.Event().wait()

    reply = await send(receiver_of(recorder, read_timeout_s=0.01), endless())
    assert (reply.code, reply.status.code) == (408, DEADLINE_EXCEEDED)
    assert recorder.calls == [("http", "408")]


async def test_a_sender_that_hangs_up_is_neither_fed_nor_counted(recorder: "Recorder") -> None:
    async with listening(receiver_of(recorder)) as url:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        head = "POST /v1/traces HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
        writer.write(f"{head}Content-Type: {PROTOBUF}\r\nContent-Length: 100\r\n\r\n".encode())
        assert await reader.readline() == b"HTTP/1.1 100 Continue\r\n"
        writer.write(b"half")
        writer.close()
        await writer.wait_closed()
    assert (recorder.bodies, recorder.calls) == ([], [])


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
async def test_other_methods_are_a_405_that_names_post(recorder: "Recorder", method: str) -> None:
    reply = await send(receiver_of(recorder), b"", method=method)
    assert (reply.code, reply.headers["Allow"]) == (405, "POST")
    assert recorder.calls == [("http", "405")]


@in_both_encodings
async def test_log_records_are_taken_at_their_own_path(recorder: "Recorder", content_type: str) -> None:
    recorder.answer = Receipt(accepted=1, rejected=2, message="log record 0: no")
    reply = await send(receiver_of(recorder), b"x", content_type, path="/v1/logs")
    assert (reply.code, reply.content_type, recorder.signals) == (200, content_type, ["logs"])
    assert b"log record 0: no" in reply.body


@in_both_encodings
@pytest.mark.parametrize("path", ["/v1/metrics"])
async def test_other_signals_are_a_404_that_says_so(recorder: "Recorder", content_type: str, path: str) -> None:
    reply = await send(receiver_of(recorder), b"x", content_type, path=path)
    assert (reply.code, reply.content_type) == (404, content_type)
    assert reply.status.code == UNIMPLEMENTED
    assert "traces and logs" in reply.status.message


async def test_other_paths_are_a_404(recorder: "Recorder") -> None:
    assert (await send(receiver_of(recorder), b"x", path="/")).code == 404


async def test_a_fault_of_this_program_is_a_500_and_counted(
    recorder: "Recorder", caplog: pytest.LogCaptureFixture
) -> None:
    recorder.answer = ZeroDivisionError("a fault")
    assert (await send(receiver_of(recorder), b"x")).code == 500
    assert recorder.calls == [("http", "500")]
    assert "a fault" in caplog.text


@pytest.mark.parametrize("compression", list(Compression))
async def test_the_sdks_own_exporter_delivers(recorder: "Recorder", compression: Compression) -> None:
    async with listening(receiver_of(recorder)) as url:
        exporter = OTLPSpanExporter(f"{url}/v1/traces", compression=compression)
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
        exporter.shutdown()  # type: ignore[no-untyped-call]


async def test_bodies_that_would_take_too_much_room_at_once_are_told_to_come_back(recorder: "Recorder") -> None:
    gate = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield bytes(LIMIT - 1)
        await gate.wait()

    headers = {"Content-Type": PROTOBUF}
    async with listening(receiver_of(recorder)) as url, ClientSession() as session:
        path = f"{url}/v1/traces"
        waiting = [asyncio.create_task(session.post(path, data=slow(), headers=headers)) for _ in range(10)]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        refused = next(iter(done)).result()
        assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        gate.set()
        statuses = [(await task).status for task in waiting]
        assert statuses.count(200) == BODIES_AT_ONCE
        async with session.post(path, data=bytes(LIMIT), headers=headers) as answer:
            assert answer.status == 200

"""What senders are told is what protobuf's own classes would have written."""

from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from google.rpc import code_pb2
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from exporter.receive import Encoding, Receipt, Signal
from exporter.receive.answers import Code, refused, taken

ENCODINGS = st.sampled_from(["protobuf", "json"])
MESSAGES = st.text(max_size=300)


def written(message: Message, encoding: Encoding) -> bytes:
    return MessageToJson(message, indent=None).encode() if encoding == "json" else message.SerializeToString()


@given(st.integers(0, 2**40), MESSAGES, st.sampled_from(["traces", "logs"]), ENCODINGS)
def test_the_answer_to_what_was_taken(rejected: int, message: str, signal: Signal, encoding: Encoding) -> None:
    answer: ExportLogsServiceResponse | ExportTraceServiceResponse
    if signal == "logs":
        answer = ExportLogsServiceResponse()
        answer.partial_success.rejected_log_records = rejected
    else:
        answer = ExportTraceServiceResponse()
        answer.partial_success.rejected_spans = rejected
    answer.partial_success.error_message = message
    if not rejected and not message:
        answer.ClearField("partial_success")
    assert taken(Receipt(1, rejected, message), signal, encoding) == written(answer, encoding)


@given(
    st.sampled_from([code for code in Code if code]),
    MESSAGES.filter(bool),
    st.none() | st.integers(1, 10_000),
    ENCODINGS,
)
def test_the_answer_to_what_was_refused(
    code: Code, message: str, retry_after_s: int | None, encoding: Encoding
) -> None:
    status = Status(code=code, message=message)
    if retry_after_s is not None:
        status.details.add().Pack(RetryInfo(retry_delay=Duration(seconds=retry_after_s)))
    assert refused(code, message, retry_after_s, encoding) == written(status, encoding)


def test_codes_are_those_of_google_rpc() -> None:
    assert {code.name: int(code) for code in Code}.items() <= dict(code_pb2.Code.items()).items()

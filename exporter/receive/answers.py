"""What senders are told, as the few small messages of OTLP and google.rpc that it takes, in protobuf and in JSON.

They are spelt here, since message classes take a tenth of the start and of the memory, and a body that is refused
should not wait for them to be imported.
"""

import json
from enum import IntEnum
from typing import Any, Final

from exporter.decode.jsonbody import varint
from exporter.receive import Encoding, Receipt, Signal

_REJECTED: Final[dict[Signal, str]] = {"traces": "rejectedSpans", "logs": "rejectedLogRecords"}
_RETRY_INFO: Final = "type.googleapis.com/google.rpc.RetryInfo"


class Code(IntEnum):
    """Those of google.rpc.Code that are told."""

    OK = 0
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    UNAVAILABLE = 14


def taken(receipt: Receipt, signal: Signal, encoding: Encoding) -> bytes:
    """The answer to a body that was taken; `partial_success` is set only where there is something to say."""
    if not receipt.rejected and not receipt.message:
        return b"{}" if encoding == "json" else b""
    if encoding == "json":
        # As protobuf writes JSON: 64-bit numbers are texts, and what has its default is left out.
        fields = {_REJECTED[signal]: str(receipt.rejected or ""), "errorMessage": receipt.message}
        return _json({"partialSuccess": {key: text for key, text in fields.items() if text}})
    return _block(1, _number(1, receipt.rejected) + _text(2, receipt.message))


def refused(code: Code, message: str, retry_after_s: int | None, encoding: Encoding = "protobuf") -> bytes:
    """The answer to a body that was not taken: a google.rpc.Status, with RetryInfo where it is worth sending again."""
    if encoding == "json":
        document: dict[str, Any] = {"code": int(code), "message": message}
        if retry_after_s is not None:
            document["details"] = [{"@type": _RETRY_INFO, "retryDelay": f"{retry_after_s}s"}]
        return _json(document)
    status = _number(1, code) + _text(2, message)
    if retry_after_s is not None:
        retry_info = _block(1, _number(1, retry_after_s))
        status += _block(3, _text(1, _RETRY_INFO) + _block(2, retry_info))
    return status


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


def _number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value) if value else b""


def _text(field: int, text: str) -> bytes:
    return _block(field, text.encode()) if text else b""


def _block(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content

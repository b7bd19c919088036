"""Synthetic OTLP bodies: three spans of each request, in the order in which they would come.

A job enters a Celery queue, and its span comes at once; a worker takes it through Envoy to vLLM, whose spans come when
the answer has ended, somewhat out of step. Ids, times, token counts, models and statuses differ from
request to request and are the same in every run with the same seed, but for the epoch.

Bodies are made by copying one template per kind of span as often as needed and writing columns into the copies: all
values of a kind have one length. That takes about a microsecond a span, a thirtieth of what message classes need.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush
from typing import ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tests.exporter.wire import attribute, block, double, fixed32, fixed64, number, varint

SPANS: Final = 3
"""Of one request."""
BATCH: Final = 512
"""Spans of one body."""
REQUESTS_PER_S: Final = 100_000
"""In the stream's own time."""
UNDER_WAY: Final = 10_000
"""Requests; others wait for the join's grace to be over, so that 30,000 are open."""
WAITING: Final = 2
"""And so many times as many wait."""
MEAN_LIFE_S: Final = 5.0
LONGEST: Final = 3
"""Times as long as that the longest requests last."""

_QUEUE, _GATEWAY, _ENGINE = range(3)
_JITTER_S: Final = 0.003
"""How late a span of an ended request may come."""
LATE_NS: Final = 5_000_000
"""How much later than its last span a body comes."""
_INSTANCES: Final = np.array([2, 2, 4])
_FIRST_SENDER: Final = np.array([0, 2, 4])
_HOSTS: Final = ("gateway", "gateway", "gpu")
"""How many processes send spans of each kind, the first of them among all, and what their hosts are called."""
_AT_ONCE: Final = 16
"""Bodies that are made in one go."""
_MS: Final = 1_000_000

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Mix:
    """A stream of whole requests."""

    requests: int
    models: int = 4
    requests_per_s: float = REQUESTS_PER_S
    """In the stream's own time. If more than are under way in MEAN_LIFE_S, they come faster than they last."""
    under_way: int = UNDER_WAY
    """Requests whose first span has come and whose last has not, in the middle of the stream."""
    grace_ms: int = 200
    """Of the join that takes it: as long as it takes for twice as many requests to come as are under way."""
    epoch_ns: int = 1_700_000_000_000_000_000
    seed: int = 1
    before: int = 0
    """Bodies that come before what is measured, at least."""
    measured: int = 0
    """Bodies that are measured; 0 for all that come then."""

    @property
    def spans(self) -> int:
        """Of the whole stream."""
        return SPANS * self.requests

    @property
    def whole_from(self) -> int:
        """The first body that is measured: as many are open as ever, since those that last longest have gone, too."""
        return max(self.before, (3 * (LONGEST + WAITING) - 2) * self.under_way // BATCH)

    @cached_property
    def _drawn(self) -> "_Drawn":
        return _Drawn.of(self)

    def bodies(self) -> Iterator["Body"]:
        """The bodies of the stream, made some dozen at a time."""
        order, places = self._order()
        for start in range(0, len(order), _AT_ONCE * BATCH):
            some = order[start : start + _AT_ONCE * BATCH]
            for first, content in zip(range(start, len(order), BATCH), self._contents(some), strict=False):
                stop = min(first + BATCH, len(order))
                now_ns = self.epoch_ns + int(places[stop - 1] * self._step_ns) + LATE_NS
                yield Body(content, stop - first, now_ns)

    @property
    def _step_ns(self) -> float:
        return 1e9 / self.requests_per_s

    def _order(self) -> tuple[Integers, Floats]:
        """The spans in the order in which they come, as request times 3 plus kind, and the place of each in time."""
        arrived = np.arange(self.requests, dtype=np.float64)
        ended = arrived + self._drawn.places
        rng = np.random.default_rng(self.seed + 1)
        late = rng.uniform(0, _JITTER_S * self.requests_per_s, (2, self.requests))
        places = np.stack([arrived, ended + late[0], ended + late[1]], axis=1).ravel()
        order = np.argsort(places, kind="stable")
        return order, places[order]

    def _contents(self, order: Integers) -> Iterator[bytes]:
        """The bodies of some spans: each holds, one after the other, what every process had to send."""
        kinds, requests = order % SPANS, order // SPANS
        senders = _FIRST_SENDER[kinds] + requests % _INSTANCES[kinds]
        bodies = np.arange(len(order)) // BATCH
        count = int(bodies[-1]) + 1
        sizes = np.bincount(bodies * len(_HEADS) + senders, minlength=count * len(_HEADS)).reshape(count, -1)
        by_sender = np.argsort(bodies * len(_HEADS) + senders, kind="stable")
        spans = [self._spans(kind, requests[by_sender][kinds[by_sender] == kind]) for kind in range(SPANS)]
        taken = [0] * SPANS
        for body in sizes.tolist():
            groups = []
            for (kind, head, scope), size in zip(_HEADS, body, strict=True):
                stop = taken[kind] + size * len(TEMPLATES[kind].content)
                groups.append(_group(head, scope, spans[kind][taken[kind] : stop]))
                taken[kind] = stop
            yield b"".join(groups)

    def _spans(self, kind: int, which: Integers) -> bytes:
        template = TEMPLATES[kind]
        copies = np.tile(template.content, (len(which), 1))
        for name, column in self._drawn.columns(kind, which, self).items():
            for at in template.places[name]:
                copies[:, at : at + column.shape[1]] = column
        return copies.tobytes()


@dataclass(frozen=True)
class Chain:
    """Mixes that follow one another, other requests each, made as they are asked for."""

    mix: Mix
    """The first, with an epoch of its own."""
    count: int
    whole_from: ClassVar[int] = 0
    measured: ClassVar[int] = 0

    @property
    def epoch_ns(self) -> int:
        """When the first request of all arrives."""
        return self.mix.epoch_ns

    @property
    def grace_ms(self) -> int:
        """Of the join that takes it."""
        return self.mix.grace_ms

    @property
    def requests(self) -> int:
        """Of all of them."""
        return self.count * self.mix.requests

    @property
    def spans(self) -> int:
        """Of the whole stream."""
        return self.count * self.mix.spans

    def bodies(self) -> Iterator["Body"]:
        """As they come: the last requests of a mix go on while the next ones arrive."""
        begun = 0
        going: list[tuple[int, int, Body, Iterator[Body]]] = []
        while going or begun < self.count:
            at_ns = self.epoch_ns + begun * round(self.mix.requests * self.mix._step_ns)
            if begun < self.count and (not going or at_ns <= going[0][0]):
                _push(going, begun, replace(self.mix, epoch_ns=at_ns, seed=self.mix.seed + 2 * begun).bodies())
                begun += 1
            else:
                _, number, body, more = heappop(going)
                yield body
                _push(going, number, more)


class Body(NamedTuple):
    """One export call."""

    content: bytes
    spans: int
    now_ns: int
    """When it comes, in the stream's own time."""


def _push(going: "list[tuple[int, int, Body, Iterator[Body]]]", number: int, bodies: "Iterator[Body]") -> None:
    body = next(bodies, None)
    if body is not None:
        heappush(going, (body.now_ns, number, body, bodies))


# What is drawn for each request.


@dataclass(frozen=True)
class _Drawn:
    """What distinguishes the requests of a mix, a column per fact."""

    ids: Bytes
    """16 bytes of the trace, three times 8 of spans."""
    request: Bytes
    """Its id as text."""
    places: Floats
    """For how many further arrivals each is under way."""
    life_ns: Floats
    waits: Floats
    prefill: Floats
    model: Integers
    input: Integers
    output: Integers
    status: Integers

    @classmethod
    def of(cls, mix: Mix) -> "_Drawn":
        rng, count = np.random.default_rng(mix.seed), mix.requests
        life_s = np.clip(rng.lognormal(np.log(MEAN_LIFE_S) - 0.125, 0.5, count), 0.5, LONGEST * MEAN_LIFE_S)
        return cls(
            ids=rng.integers(1, 256, (count, 40), dtype=np.uint8),
            request=_uuid(rng.integers(0, 256, (count, 16), dtype=np.uint8)),
            places=life_s * mix.under_way / MEAN_LIFE_S,
            life_ns=life_s * 1e9,
            waits=rng.uniform(0.02, 0.2, count),
            prefill=rng.beta(2, 10, count),
            model=rng.integers(0, mix.models, count),
            input=np.clip(rng.lognormal(6, 1, count), 128, 16_383).astype(np.int64),
            output=np.clip(rng.lognormal(5.5, 0.7, count), 128, 16_383).astype(np.int64),
            status=rng.choice([200, 499, 500], count, p=[0.98, 0.01, 0.01]),
        )

    def columns(self, kind: int, which: Integers, mix: Mix) -> dict[str, Bytes]:
        """The values of some requests for the spans of one kind."""
        ids, life = self.ids[which], self.life_ns[which]
        ended = mix.epoch_ns + ((which + self.places[which]) * mix._step_ns).astype(np.int64)
        arrived = ended - life.astype(np.int64)
        taken = arrived + (life * self.waits[which]).astype(np.int64)
        columns = {"trace": ids[:, :16], "queue": ids[:, 16:24], "request": self.request[which]}
        if kind == _QUEUE:
            return columns | {"start": _words(arrived), "end": _words(arrived + 2 * _MS)}
        columns |= {"gateway": ids[:, 24:32]}
        if kind == _GATEWAY:
            status, size = _digits(self.status[which], 3), _digits(self.output[which] * 150 % 900_000 + 100_000, 6)
            return columns | {"start": _words(taken), "end": _words(ended), "status": status, "size": size}
        return columns | self._of_engine(which, taken + 2 * _MS, ended - _MS)

    def _of_engine(self, which: Integers, start: Integers, end: Integers) -> dict[str, Bytes]:
        whole = (end - start) / 1e9
        in_queue, prefill = whole * 0.05 * self.prefill[which], whole * self.prefill[which]
        first = in_queue + prefill + 0.001
        return {
            "engine": self.ids[which, 32:40],
            "start": _words(start),
            "end": _words(end),
            "ttft": _words(first),
            "e2e": _words(whole - 0.0005),
            "in_queue": _words(in_queue),
            "prefill": _words(prefill),
            "decode": _words(whole - 0.0005 - first),
            "inference": _words(whole - 0.0005 - in_queue),
            "input": _varints(self.input[which]),
            "output": _varints(self.output[which]),
            "model": _digits(self.model[which], 5),
        }


_HEX: Final = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)


def _uuid(ids: Bytes) -> Bytes:
    digits = _HEX[ids].view(np.uint8)
    text = np.full((len(ids), 36), ord("-"), np.uint8)
    for start, stop, dashes in ((0, 8, 0), (8, 12, 1), (12, 16, 2), (16, 20, 3), (20, 32, 4)):
        text[:, start + dashes : stop + dashes] = digits[:, start:stop]
    return text


def _words(values: Integers | Floats) -> Bytes:
    """Eight bytes each, little endian."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1, 8)


def _digits(values: Integers, width: int) -> Bytes:
    powers = 10 ** np.arange(width - 1, -1, -1)
    return (values[:, None] // powers % 10 + ord("0")).astype(np.uint8)


def _varints(values: Integers) -> Bytes:
    """Numbers from 128 to 16383, which take two bytes."""
    return np.stack([values & 127 | 128, values >> 7], axis=1).astype(np.uint8)


# What does not change from request to request.


class _Template(NamedTuple):
    """A span of a kind as it stands in a body, and where the values begin that change."""

    content: Bytes
    places: Mapping[str, Sequence[int]]


_TRACE, _REQUEST = b"<trace-16-bytes>", b"<request-id-that-takes-36-characters>"[:36]
_IDS: Final = {"queue": b"<queue->", "gateway": b"<gate-->", "engine": b"<engine>"}
_START, _END = 0x5441_5453_5441_5453, 0x444E_4544_4E45_444E
_SECONDS: Final = {
    name: number / 7 for number, name in enumerate(("ttft", "e2e", "in_queue", "prefill", "decode", "inference"), 1)
}
_COUNTS: Final = {"input": 11_111, "output": 12_222}
_SENTINELS: Final = {
    "trace": _TRACE, "request": _REQUEST, "status": b"<s>", "size": b"<size>", "model": b"<mod>", **_IDS,
    "start": _START.to_bytes(8, "little"), "end": _END.to_bytes(8, "little"),
    **{name: struct.pack("<d", value) for name, value in _SECONDS.items()},
    **{name: varint(value) for name, value in _COUNTS.items()},
}  # fmt: skip
"""What stands in a template for each value that changes."""


def _template(span: bytes) -> _Template:
    content = block(2, span)
    return _Template(np.frombuffer(content, np.uint8), {name: _all(content, mark) for name, mark in _SENTINELS.items()})


def _all(content: bytes, mark: bytes) -> list[int]:
    places, at = [], content.find(mark)
    while at >= 0:
        places.append(at)
        at = content.find(mark, at + 1)
    return places


def _span(
    own: bytes, parent: bytes, name: str, kind: int, attributes: Mapping[str, str | bytes | int | float]
) -> bytes:
    above = [block(4, parent)] if parent else []
    return b"".join(
        [block(1, _TRACE), block(2, own), *above, block(5, name), number(6, kind), fixed64(7, _START), fixed64(8, _END)]
        + [attribute(key, _value(value)) for key, value in attributes.items()]
        + [block(15), fixed32(16, 0x100)]
    )


def _value(value: str | bytes | int | float) -> bytes:
    if isinstance(value, float):
        return double(4, value)
    return number(3, value) if isinstance(value, int) else block(1, value)


_QUEUED: Final = _span(
    _IDS["queue"], b"", "apply_async/llm.generate", 4,
    {
        "celery.action": "apply_async", "messaging.message.id": _REQUEST, "celery.task_name": "llm.generate",
        "messaging.destination_kind": "queue", "messaging.destination": "celery", "messaging.system": "redis",
        "celery.reply_to": "50540447-4f44-3850-96cc-5211b5b2e29c", "celery.hostname": "gen4997@producer-7d9f",
        "net.peer.name": "redis-master.queue.svc.cluster.local", "net.peer.port": 6379,
    },
)  # fmt: skip
_INGRESS: Final = _span(
    _IDS["gateway"], _IDS["queue"], "ingress", 2,
    {
        "node_id": "gw-1", "zone": "", "guid:x-request-id": _REQUEST, "http.method": "POST",
        "http.url": "http://gateway.inference.svc:10001/v1/chat/completions", "user_agent": "python-httpx/0.28.1",
        "http.protocol": "HTTP/1.1", "peer.address": "10.244.1.17", "request_size": "2891", "response_size": b"<size>",
        "component": "proxy", "upstream_cluster": "vllm", "upstream_cluster.name": "vllm", "http.status_code": b"<s>",
        "response_flags": "-",
    },
)  # fmt: skip
_GENERATED: Final = _span(
    _IDS["engine"], _IDS["gateway"], "llm_request", 2,
    {
        "gen_ai.latency.time_to_first_token": _SECONDS["ttft"], "gen_ai.latency.e2e": _SECONDS["e2e"],
        "gen_ai.latency.time_in_queue": _SECONDS["in_queue"], "gen_ai.usage.prompt_tokens": _COUNTS["input"],
        "gen_ai.usage.completion_tokens": _COUNTS["output"],
        "gen_ai.latency.time_in_model_prefill": _SECONDS["prefill"],
        "gen_ai.latency.time_in_model_decode": _SECONDS["decode"],
        "gen_ai.latency.time_in_model_inference": _SECONDS["inference"], "gen_ai.request.id": b"chatcmpl-" + _REQUEST,
        "gen_ai.request.max_tokens": 2048, "gen_ai.request.temperature": 1.0, "gen_ai.response.model": b"llama-<mod>",
    },
)  # fmt: skip
TEMPLATES: Final = tuple(map(_template, (_QUEUED, _INGRESS, _GENERATED)))


def _group(resource: bytes, scope: bytes, spans: bytes) -> bytes:
    """The spans of one process."""
    return block(1, resource, block(2, scope, spans)) if spans else b""


def _resource(**texts: str) -> bytes:
    return block(1, *(attribute(key.replace("_", "."), block(1, text), field=1) for key, text in texts.items()))


def _heads() -> Iterator[tuple[int, bytes, bytes]]:
    for kind, (service, language, sdk, *scope) in enumerate(_PROCESSES):
        for instance in range(_INSTANCES[kind]):
            resource = _resource(
                service_name=service, telemetry_sdk_language=language, telemetry_sdk_name=sdk,
                service_instance_id=f"{service}-{instance}", host_name=f"{_HOSTS[kind]}-{instance}",
            )  # fmt: skip
            yield kind, resource, block(1, *(block(field, text) for field, text in enumerate(scope, 1)))


_PROCESSES: Final = (
    ("llm-producer", "python", "opentelemetry", "opentelemetry.instrumentation.celery", "0.66b2"),
    ("envoy-gateway", "cpp", "envoy", "envoy", "1.40.0/Clean/RELEASE/BoringSSL"),
    ("vllm", "python", "opentelemetry", "vllm.tracing.otel"),
)
"""Service, language and SDK, then name and version of the scope, of each kind."""
_HEADS: Final = tuple(_heads())
"""Kind, resource and scope of every process."""

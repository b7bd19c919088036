"""The closed sets of words that everything else speaks: what may appear in files, labels and reports."""

from typing import Final

METRICS: Final = ("ttft", "tpot", "completion")
BOUNDARIES: Final = ("client", "end_to_end", "service", "model")
"""Built-in boundaries, outermost first; users declare more by stamps."""

OUTCOMES: Final = ("ok", "error", "timeout", "shed", "cancelled", "client_error", "unknown")
"""How a request ended at one boundary, exactly one of them."""

ROLES: Final = ("client", "gateway", "queue", "engine", "hop", "part")
"""What a source profile says its span is. A `hop` is the calling side of a gateway, a `part` tells of its parent."""

STAMPS: Final = ("arrived", "enqueued", "dequeued", "dispatched", "scheduled", "first_token", "last_token", "ended")
"""Named instants in the life of a request, in the order in which they happen."""

PHASES: Final = (
    "gateway", "network", "queue", "engine_queue", "prefill", "decode", "postprocess", "engine",
    "unexplained", "over_explained",
)  # fmt: skip
"""What lies between two stamps. `engine` is an engine's time where it says nothing of its parts; the phases less
`over_explained` sum to the completion latency."""

FATES: Final = (
    "used", "late", "too_late", "future", "duplicate", "unrecognised", "not_request", "malformed", "evicted",
)  # fmt: skip
"""What became of a span."""

FATES_OF_RECORDS: Final = ("used", "future", "duplicate", "unrecognised", "not_request", "malformed")
"""What became of a log record."""

FIRST_TOKEN_SOURCES: Final = ("token", "chunk", "byte", "model")
TPOT_FORMULAS: Final = ("tokens_minus_one", "tokens", "completion_over_tokens")
VERDICTS: Final = ("met", "violated", "no_data")
EVIDENCES: Final = ("log", "span", "gauge", "ended")
"""What an arrival is known from: a log when it came, a span when it entered a queue, a gauge, or only its end."""

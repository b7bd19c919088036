"""The row that carries one span from `recognise` to `measure`: flat signed 64-bit integers, one cell per fact.

A batch and the join table are flat arrays of such rows, so a row is copied, not built; outside the join a row is a
plain ``list[int]``. A fact that is not known is `MISSING`, never 0. Times are Unix nanoseconds on the sender's clock.
"""

from typing import Final

MISSING: Final = -(2**63)

TRACE_HI: Final = 0
TRACE_LO: Final = 1
SPAN: Final = 2
PARENT: Final = 3
START: Final = 4
END: Final = 5
SEEN: Final = 6
"""When it came (live), or its end (replay): what sealing goes by."""
PROFILE: Final = 7
"""Index of the profile that matched; UNRECOGNISED or IGNORED otherwise."""
ROLE: Final = 8
"""Index into vocabulary.ROLES, or MISSING."""
CLOCK: Final = 9
RESOURCE: Final = 10
LINK: Final = 11
"""Span id of the first link, taken for a parent where there is none."""
FAILED: Final = 12
"""1 where the span's own status is ERROR."""
ARRIVED: Final = 13
ENQUEUED: Final = 14
DEQUEUED: Final = 15
DISPATCHED: Final = 16
SCHEDULED: Final = 17
FIRST_TOKEN: Final = 18
LAST_TOKEN: Final = 19
ENDED: Final = 20
INPUT: Final = 21
OUTPUT: Final = 22
CACHED: Final = 23
ITEMS: Final = 24
STREAM: Final = 25
"""1 a stream, 0 known not to be one, MISSING otherwise."""
STATUS: Final = 26
"""HTTP status code."""
EVIDENCE: Final = 27
"""Index into vocabulary.OUTCOMES that the profile's own rules found."""
SOURCE: Final = 28
"""Index into vocabulary.FIRST_TOKEN_SOURCES."""
REQUEST_ID: Final = 29
"""64-bit hash of the request's id, the same for all sequences of one request."""
SEQUENCE_ID: Final = 30
MODEL: Final = 31
"""Number of a text (`recognise.Strings`), as are class and the declared labels."""
CLASS: Final = 32
ROUTE: Final = 33
CALL: Final = 34
"""1 a call of the inference API by method and path, 0 certainly not, MISSING where the span does not say."""
WEIGHT: Final = 35
"""Requests that this span stands for, in units of 1/WEIGHT_ONE; MISSING where it does not say."""
WITHIN: Final = 36
"""Hash of the scope whose span of the same process and parent encloses this one, or MISSING."""
SCOPE: Final = 37
FATE: Final = 38
"""Index into vocabulary.FATES where it was found when the span came; COUNTED where it was counted then, too."""
RECORD: Final = 39
"""Of a log record, its index in profile.RECORDS; TOLD_TWICE for a span that a log record tells of, too."""
EMITTED: Final = 40
"""When a log record was made."""
FLIGHT: Final = 41
"""Key of the request among those that logs tell of (`exporter.flight`)."""
SILENT: Final = 42
"""1 where the log record of the end of a stream tells that no first token had come."""
LABELS: Final = 43
"""First of the declared labels; a row is LABELS + number of declared labels cells wide."""

STARTED, GOING, ENDING, TOLD_TWICE = range(4)
COUNTED: Final = -1
UNRECOGNISED: Final = -1
IGNORED: Final = -2

WEIGHT_ONE: Final = 2**20
"""Weights are added as integers, so that sums do not depend on the order."""
MOST_WEIGHT: Final = 2**31
"""Up to it a weight times a number of tokens, or of requests that are counted together, fits into 64 bits."""

STAMP_CELLS: Final = {
    "arrived": ARRIVED,
    "enqueued": ENQUEUED,
    "dequeued": DEQUEUED,
    "dispatched": DISPATCHED,
    "scheduled": SCHEDULED,
    "first_token": FIRST_TOKEN,
    "last_token": LAST_TOKEN,
    "ended": ENDED,
}

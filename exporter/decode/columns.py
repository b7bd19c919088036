"""What decoding leaves behind: flat arrays of 64-bit integers, a row per span, and the body with the strings.

Only attributes and events that some profile or label asks for are kept. Strings are not copied: a row holds their
place in the body. A `Batch` is scratch space of its decoder and is valid until the next body.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple


class BadBody(ValueError):
    """The body is not OTLP; the message names the place. The only error that decoding raises."""


# A span: cells of one row in Batch.heads.
TRACE_HI: Final = 0
TRACE_LO: Final = 1
SPAN: Final = 2
PARENT: Final = 3
START: Final = 4
END: Final = 5
KIND: Final = 6
STATUS: Final = 7
GROUP: Final = 8
ATTRIBUTES_FROM: Final = 9
ATTRIBUTES_TO: Final = 10
EVENTS_FROM: Final = 11
EVENTS_TO: Final = 12
LINKS_FROM: Final = 13
LINKS_TO: Final = 14
STATE_AT: Final = 15
STATE_LENGTH: Final = 16
DROPPED_EVENTS: Final = 17
HEAD: Final = 18

BODY: Final = "log.body"
"""The key under which the body of a log record stands among its attributes."""

# An attribute: slot, type, value (integer, bits of a double, or place of a string), length of the string.
ATTRIBUTE: Final = 4
STRING: Final = 1
BOOLEAN: Final = 2
INTEGER: Final = 3
DOUBLE: Final = 4
OTHER: Final = 5
"""A map or bytes: present, but without a value that can be used. A list stands for its first element."""

# An event: slot of its name, time, first and past-the-last attribute.
EVENT: Final = 4
# A link: trace id (two cells), span id.
LINK: Final = 3


class Group(NamedTuple):
    """The spans of one resource and scope that share a name: what profiles are matched on, once."""

    resource: int
    scope: str
    name: str


class Resource(NamedTuple):
    """Attributes of one resource, as text."""

    attributes: dict[str, str]


class Wanted:
    """The attribute keys and event names that are read, each with its slot.

    Keys of events are numbered with those of spans, so a slot means one key everywhere.
    """

    def __init__(self, keys: Iterable[str], events: Iterable[str]) -> None:
        self.keys: dict[bytes, int] = {key.encode(): slot for slot, key in enumerate(sorted(set(keys)))}
        self.events: dict[bytes, int] = {name.encode(): slot for slot, name in enumerate(sorted(set(events)))}

    def key(self, name: str) -> int:
        """Slot of an attribute key."""
        return self.keys[name.encode()]

    def event(self, name: str) -> int:
        """Slot of an event name."""
        return self.events[name.encode()]


class Refused(NamedTuple):
    """One span or log record of an otherwise good body that is not usable."""

    place: int
    """Its number among the spans of the body."""
    reason: str


class Batch(NamedTuple):
    """One decoded body."""

    body: bytes
    spans: int
    heads: memoryview
    attributes: memoryview
    events: memoryview
    links: memoryview
    groups: list[Group]
    resources: list[Resource]
    refused: list[Refused]
    """Spans that were left out, in the order of the body."""

"""YAML files as nodes that know their place, so that a message can name file, line, column and path.

PyYAML composes the text; nothing is constructed, so each reader decides what a scalar means (`22:00`, `no` and `1e3`
keep the text they were written with). A reader walks the nodes by typed getters. A getter that finds something else
records a Problem in the shared list, answers None (or nothing to walk) and lets the reader go on: one run reports
every mistake. A caller checks the list once, at the end, and uses nothing of a file that has problems.

What must stay true: whatever the text, only Problems come out of it. Depth, size and expansion are therefore bounded.

What is allowed but surely not meant is a warning: the same kind of message, in a list of its own, and no reason to
refuse a file.
"""

import difflib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import Final, TypeVar

import yaml
from yaml.composer import ComposerError
from yaml.reader import ReaderError

from slo_rules.units import (
    format_decimal,
    format_duration,
    format_size,
    parse_duration,
    parse_percentile,
    parse_ratio,
    parse_size,
)

C = TypeVar("C", bound=str)
N = TypeVar("N", int, Fraction)
T = TypeVar("T")

MAX_CHARACTERS: Final = 2**20
"""Of one file. The largest hand-written configurations known are a tenth of it."""

MAX_DEPTH: Final = 50
MAX_NODES: Final = 20_000
"""Of one file, and of one document with its aliases written out: ten lines may not stand for billions of values."""

_TAG: Final = "tag:yaml.org,2002:"
_KINDS: Final = ("str", "int", "float", "bool", "null", "timestamp", "value", "merge", "map", "seq")
_TAGS: Final = frozenset(_TAG + kind for kind in _KINDS)
_INTEGER: Final = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?")
_VARIABLE: Final = re.compile(r"\$?\$\{([^}]*)\}")
_ARGUMENT: Final = re.compile(r"\$?\$\(([^()]*)\)")
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_BOOLEANS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """One broken rule and where; line and column count from 1. `path` and `found` may be empty."""

    file: str
    line: int
    column: int
    path: str
    rule: str
    found: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column} {self.path}".rstrip()
        return f"{place}: {self.rule}, found {self.found}" if self.found else f"{place}: {self.rule}"


class Problems(Exception):
    """All that is wrong with the files of one run: each problem once, in the order of the files."""

    def __init__(self, items: Iterable[Problem]) -> None:
        self.items = tuple(sorted(set(items)))
        super().__init__("\n".join(map(str, self.items)))


def read(
    text: str,
    file: str,
    problems: list[Problem],
    environment: Mapping[str, str] | None,
    warnings: list[Problem] | None = None,
    *,
    ours: bool = False,
) -> "list[Node]":
    """The documents of a file, empty ones left out. Warnings go to a list of their own, or nowhere without one.

    With an environment, `${NAME}` in a value or a key stands for its variable, and `$${NAME}` is the plain text
    `${NAME}`; without one, text stays as it is.
    A syntax error is a problem too, and ends the reading: the documents before it are still returned.
    A file of `ours` is well-formed, and read by libyaml where it is there, ten times as fast.
    """
    source = _Source(file, problems, environment, [] if warnings is None else warnings)
    nodes: list[Node] = []
    fast = ours and yaml.__with_libyaml__
    for root in yaml.compose_all(text, yaml.CSafeLoader) if fast else _compose(text, source):
        if not (isinstance(root, yaml.ScalarNode) and root.tag == _TAG + "null"):
            nodes.append(Node(root, source, ""))
    return nodes


def optional(fields: "Mapping[str, Node]", key: str, get: "Callable[[Node], T | None]", default: T) -> T:
    """What `get` makes of a field; `default` where the field is missing or, as then recorded, wrong."""
    value = get(fields[key]) if key in fields else None
    return default if value is None else value


Plain = Mapping[str, "Plain"] | Sequence["Plain"] | str | None
"""A value without its place. A text is also a sequence, so ask for it first."""


def escape(text: str) -> str:
    """A text as it is written in a file, so that no `${NAME}` in it is taken for a variable."""
    return _VARIABLE.sub(lambda match: "$" + match[0], text)


class Node:
    """A value of a YAML file with its place.

    The getters record a problem and answer None (or nothing to walk) where the value does not fit.
    """

    __slots__ = ("_source", "_tag", "_undefined", "_yaml", "path", "scalar")

    def __init__(self, node: yaml.Node, source: "_Source", path: str) -> None:
        self._yaml, self._source = node, source
        self.path = path
        """From the root of the document: `spec.objectives[1].threshold`."""
        self.scalar: str | None = node.value if isinstance(node, yaml.ScalarNode) else None
        """The text of a single value as written, variables replaced; None for a mapping or a list."""
        self._tag = node.tag
        self._undefined = False
        if isinstance(node, yaml.ScalarNode) and "${" in node.value and source.environment is not None:
            self._substitute(_VARIABLE, self._variable)
        if isinstance(node, yaml.ScalarNode) and "$(" in node.value and source.arguments is not None:
            self._substitute(_ARGUMENT, self._argument)

    @property
    def is_mapping(self) -> bool:
        return isinstance(self._yaml, yaml.MappingNode)

    @property
    def is_sequence(self) -> bool:
        return isinstance(self._yaml, yaml.SequenceNode)

    @property
    def is_scalar(self) -> bool:
        return self.scalar is not None

    @property
    def is_null(self) -> bool:
        return self._tag == _TAG + "null"

    @property
    def place(self) -> str:
        """FILE:LINE:COLUMN."""
        mark = self._yaml.start_mark
        return f"{self._source.file}:{mark.line + 1}:{mark.column + 1}"

    @property
    def found(self) -> str:
        """The value as a message shows it: quoted if it is text, cut if it is long."""
        if self.scalar is None:
            return "a mapping" if self.is_mapping else "a list"
        if self.is_null:
            return "nothing"
        return _quote(self.scalar) if self._tag == _TAG + "str" else _shorten(self.scalar)

    def problem(self, rule: str, found: str | None = None) -> None:
        """Record that this value breaks `rule`, which reads like "must be above 0"."""
        if not self._undefined:  # what an unset variable would have broken is not known
            self._source.report(self._yaml.start_mark, self.path, rule, self.found if found is None else found)

    def warn(self, advice: str) -> None:
        """Record that this value, which is allowed, can hardly be meant."""
        self._source.report(self._yaml.start_mark, self.path, advice, "", self._source.warnings)

    def bind(self, arguments: "Mapping[str, Node]") -> "Node":
        """The same value, `$(NAME)` in it standing for an argument; `$$(NAME)` is the plain text `$(NAME)`.

        An argument keeps its own place, so that a message about it points to where it was given.
        """
        return Node(self._yaml, replace(self._source, arguments=arguments), self.path)

    def undefined(self) -> "Node":
        """A stand-in for a value that is not known, here in its place: nothing it breaks is a problem."""
        node = self.standing("")
        node._undefined = True
        return node

    def mentions(self) -> set[str]:
        """The names of the arguments that stand anywhere in this value."""
        if self.is_scalar:
            return {m[1] for m in _ARGUMENT.finditer(self.scalar or "") if not m[0].startswith("$$")}
        parts = [node for _, key, value in self.entries() for node in (key, value)] if self.is_mapping else self.items()
        return {name for part in parts for name in part.mentions()}

    def plain(self) -> "Plain":
        """The value as mappings, lists and texts; whether a text means a number is for others to say."""
        if self.is_mapping:
            return {name: value.plain() for name, _, value in self.entries()}
        if self.is_sequence:
            return [item.plain() for item in self.items()]
        return None if self.is_null else self.scalar

    def embedded(self) -> "Node | None":
        """The value that this text is the YAML or JSON of; all of it has the place of the text."""
        problems: list[Problem] = []
        nodes = read(self.scalar or "", self._source.file, problems, None)
        if problems or len(nodes) != 1:
            self.problem("must hold one document of YAML or JSON")
            return None
        return self.standing(nodes[0].plain())

    def standing(self, value: "Plain") -> "Node":
        """A value of our own making in the place of this one, which a message about it points to."""
        return Node(_compose_plain(value, self._yaml), self._source, self.path)

    # Walking

    def fields(self, *known: str, required: Sequence[str] = ()) -> "dict[str, Node]":
        """The values of a mapping with a fixed set of keys, `known` and `required` together.

        A key without a value counts as not given.
        """
        keys = (*known, *(key for key in required if key not in known))
        given: dict[str, Node] = {}
        for name, key, value in self.entries():
            if name not in keys:
                key.problem(_one_of("a known key", name, keys), _quote(name))
            elif not value.is_null:
                given[name] = value
        for name in required:
            if name not in given and self.is_mapping:
                self.missing(name)
        return given

    def missing(self, name: str) -> None:
        """Record that this mapping lacks a key."""
        self._source.report(self._yaml.start_mark, _join(self.path, name), "must be given", "nothing")

    def value_of(self, name: str) -> "Node | None":
        """The value of a key, None where this is no mapping or lacks the key: for a look before the reading."""
        if not isinstance(self._yaml, yaml.MappingNode):
            return None
        found = (v for k, v in self._yaml.value if isinstance(k, yaml.ScalarNode) and k.value == name)
        value = next(found, None)
        return None if value is None else self._child(value, _join(self.path, name))

    def entries(self) -> "list[tuple[str, Node, Node]]":
        """The key, the key's node and the value's node of each entry of a mapping with keys of the user's own."""
        if not isinstance(self._yaml, yaml.MappingNode):
            self.problem("must be a mapping, written as key: value")
            return []
        entries: dict[str, tuple[str, Node, Node]] = {}
        for yaml_key, yaml_value in self._yaml.value:
            key = Node(yaml_key, self._source, self.path)
            name = self._name(key)
            if name in entries:
                key.problem("must be given once", "it again")
            elif name:
                entries[name] = (name, key, self._child(yaml_value, key.path))
        return list(entries.values())

    def items(self) -> "list[Node]":
        """The elements of a list."""
        if not isinstance(self._yaml, yaml.SequenceNode):
            self.problem("must be a list, written as [a, b]")
            return []
        return [self._child(node, f"{self.path}[{i}]") for i, node in enumerate(self._yaml.value)]

    def items_or_one(self) -> "list[Node]":
        """The elements of a list; a single value counts as a list of one."""
        return [self] if self.is_scalar else self.items()

    # Values

    def choice(self, *choices: C) -> C | None:
        """One of the words; a word that YAML takes for something else counts too, such as `no`."""
        for choice in choices:
            if self.scalar == choice:
                return choice
        self.problem(_one_of("one of", self.scalar or "", choices))
        return None

    def text(self, *, pattern: str | None = None, rule: str | None = None, loose: bool = False) -> str | None:
        """Text that is not empty and matches the whole of `pattern`, which `rule` says in words.

        A number or `true` passes for text only if it is `loose`.
        """
        text = self.scalar
        if text is None or self.is_null:
            self.problem("must be text")
        elif not loose and self._tag != _TAG + "str":
            self.problem(f"must be text: write {_quote(text)}")
        elif pattern is not None and not re.fullmatch(pattern, text):
            self.problem(rule or f"must match {pattern}")
        elif not text:
            self.problem("must not be empty")
        else:
            return text
        return None

    def boolean(self) -> bool | None:
        """`true` or `false`, and the other spellings of YAML: yes, no, on, off."""
        value = _BOOLEANS.get((self.scalar or "").lower())
        if value is None:
            self.problem("must be true or false")
        return value

    def integer(
        self, low: int | None = None, high: int | None = None, *, rule: str = "must be a whole number"
    ) -> int | None:
        """A whole number, `low` to `high`, both included."""
        return self._parsed(lambda text: _parse_integer(text, rule), str, low, high)

    def number(self, low: Fraction | int | None = None, high: Fraction | int | None = None) -> Fraction | None:
        """A decimal number, exactly, `low` to `high`, both included."""
        bounds = (None if bound is None else Fraction(bound) for bound in (low, high))
        return self._parsed(_parse_number, format_decimal, *bounds)

    def duration(self, low_ns: int | None = None, high_ns: int | None = None) -> int | None:
        """Nanoseconds, `low_ns` to `high_ns`, both included."""
        return self._parsed(parse_duration, format_duration, low_ns, high_ns)

    def size(self, low: int | None = None, high: int | None = None) -> int | None:
        """Bytes, `low` to `high`, both included."""
        return self._parsed(parse_size, format_size, low, high)

    def percentile(self) -> Fraction | None:
        """Percent, from 1 to 100."""
        return self._parsed(parse_percentile, format_decimal)

    def ratio(self) -> Fraction | None:
        """A share above 0 and up to 1."""
        return self._parsed(parse_ratio, format_decimal)

    def _parsed(
        self, parse: Callable[[str], N], show: Callable[[N], str], low: N | None = None, high: N | None = None
    ) -> N | None:
        try:
            value = parse(self.scalar or "")
        except ValueError as error:
            self.problem(str(error))
            return None
        if (low is None or low <= value) and (high is None or value <= high):
            return value
        bounds = [f"at least {show(low)}"] if low is not None else []
        bounds += [f"at most {show(high)}"] if high is not None else []
        self.problem("must be " + " and ".join(bounds))
        return None

    def _name(self, key: "Node") -> str | None:
        if key._tag == _TAG + "merge":
            key.problem("must have its keys written out, without <<")
        elif not key.scalar:
            key.problem("must have keys of text")
        else:
            key.path = _join(self.path, key.scalar)
            return key.scalar
        return None

    def _child(self, node: yaml.Node, path: str) -> "Node":
        """A value inside this one; one that is nothing but an argument is that argument, with its own place."""
        arguments = self._source.arguments
        if arguments and isinstance(node, yaml.ScalarNode) and node.value.startswith("$("):
            match = _ARGUMENT.fullmatch(node.value)
            if match and match[1] in arguments:
                return arguments[match[1]]
        return Node(node, self._source, path)

    def _substitute(self, pattern: "re.Pattern[str]", change: "Callable[[re.Match[str]], str]") -> None:
        self.scalar = pattern.sub(change, self.scalar or "")
        self._tag = _TAG + "str"  # a variable passes for text as well as for the number in it

    def _argument(self, match: re.Match[str]) -> str:
        if match[0].startswith("$$"):
            return match[0][1:]
        argument = (self._source.arguments or {}).get(match[1])
        if argument is not None and argument.scalar is not None:
            self._undefined = self._undefined or argument._undefined
            return argument.scalar
        rule = "must name a parameter" if argument is None else "must be a single value to stand inside a text"
        self._source.report(self._yaml.start_mark, self.path, rule, match[0])
        self._undefined = True
        return ""

    def _variable(self, match: re.Match[str]) -> str:
        if match[0].startswith("$$"):
            return match[0][1:]
        value = (self._source.environment or {}).get(match[1])
        if value is None or not _is_text(value):
            rule = f"must name a variable of the environment, or be written $${{{match[1]}}}"
            self._source.report(self._yaml.start_mark, self.path, rule, match[0])
            self._undefined = True
        return value or ""


@dataclass(frozen=True, slots=True)
class _Source:
    file: str
    problems: list[Problem]
    environment: Mapping[str, str] | None
    warnings: list[Problem]
    arguments: "Mapping[str, Node] | None" = None

    def report(
        self, mark: "yaml.Mark | None", path: str, rule: str, found: str, into: "list[Problem] | None" = None
    ) -> None:
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = Problem(file=self.file, line=line, column=column, path=path, rule=rule, found=found)
        (self.problems if into is None else into).append(problem)


def _compose_plain(value: Plain, place: yaml.Node) -> yaml.Node:
    start, end = place.start_mark, place.end_mark
    if value is None or isinstance(value, str):
        tag = _TAG + ("null" if value is None else "str")
        return yaml.ScalarNode(tag, value or "", start, end)
    if isinstance(value, Mapping):
        pairs = [(_compose_plain(name, place), _compose_plain(inner, place)) for name, inner in value.items()]
        return yaml.MappingNode(_TAG + "map", pairs, start, end)
    return yaml.SequenceNode(_TAG + "seq", [_compose_plain(inner, place) for inner in value], start, end)


def _compose(text: str, source: _Source) -> Iterator[yaml.Node]:
    if len(text) > MAX_CHARACTERS:
        source.report(None, "", f"must have at most {MAX_CHARACTERS} characters", str(len(text)))
        return
    try:
        loader = _Loader(text)
    except ReaderError as error:
        found = json.dumps(text[error.position])
        source.report(_mark(text, error.position), "", "must be text without control characters", found)
        return
    try:
        while loader.check_node():
            root = loader.get_node()
            if root is not None:
                yield root
    except yaml.MarkedYAMLError as error:
        _report_syntax(error, text, source)
    except (ValueError, OverflowError):
        # PyYAML lets chr() and int() speak for "\UFFFFFFFF" and "%YAML 1111...".
        source.report(loader.get_mark(), "", "must be YAML", "an escape or a number out of range")


class _Loader(yaml.SafeLoader):
    """PyYAML's composer with bounds. The one in C recurses without a limit, so this is the one in Python."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._sizes: dict[yaml.Node, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        mark: yaml.Mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ComposerError(None, None, f"more than {MAX_DEPTH} levels", mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is not None:
            self._check(node, mark)
        return node

    def _check(self, node: yaml.Node, mark: yaml.Mark) -> None:
        if node in self._sizes:
            return
        if isinstance(node, yaml.CollectionNode) and node.end_mark is None:
            raise ComposerError(None, None, "an alias that holds itself", mark)
        if node.tag not in _TAGS:
            raise ComposerError(None, None, "tags have no meaning here", mark)
        if isinstance(node, yaml.ScalarNode) and not _is_text(node.value):
            raise ComposerError(None, None, "NUL and halves of surrogate pairs are no characters", mark)
        self._sizes[node] = 1 + sum(self._sizes[child] for child in _children(node))
        # The first bound holds before a long list ends, the second after one that repeats an alias.
        if max(len(self._sizes), self._sizes[node]) > MAX_NODES:
            raise ComposerError(None, None, f"more than {MAX_NODES} values, aliases written out", mark)


def _children(node: yaml.Node) -> Iterable[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return chain.from_iterable(node.value)
    return node.value if isinstance(node, yaml.SequenceNode) else ()


def _report_syntax(error: yaml.MarkedYAMLError, text: str, source: _Source) -> None:
    mark = error.problem_mark or error.context_mark
    said = ", ".join(part for part in (error.context, error.problem) if part)
    lines = text.splitlines()
    line = lines[mark.line].strip() if mark and mark.line < len(lines) else ""
    if "${" in line:
        said += ': inside { } and [ ] write "${NAME}" in quotes'
    source.report(mark, "", f"must be YAML ({said})", _quote(line) if line else "the end of the file")


def _mark(text: str, index: int) -> yaml.Mark:
    line = text.count("\n", 0, index)
    return yaml.Mark("", index, line, index - text.rfind("\n", 0, index) - 1, None, 0)


def _parse_integer(text: str, rule: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(rule)
    return int(text)


def _parse_number(text: str) -> Fraction:
    if not _NUMBER.fullmatch(text):
        raise ValueError("must be a number, written without an exponent")
    return Fraction(text)


def _one_of(what: str, given: str, choices: Collection[str]) -> str:
    close = difflib.get_close_matches(given[:100], choices, n=1)
    return f"must be {what}: {', '.join(choices)}" + (f" (did you mean {close[0]}?)" if close else "")


def _join(path: str, key: str) -> str:
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{_quote(key)}]"
    return f"{path}.{key}" if path else key


def _is_text(text: str) -> bool:
    return not any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text)


def _quote(text: str) -> str:
    return json.dumps(_shorten(text), ensure_ascii=False)


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."

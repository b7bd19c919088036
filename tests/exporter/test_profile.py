import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from exporter.profile import (
    BUILT_IN,
    Condition,
    Evidence,
    Ignore,
    Match,
    RequestId,
    Source,
    SourceProfile,
    Stamp,
    Stream,
    built_in,
    check_names,
    read_profiles,
)
from slo_rules.document import Node, Problem, Problems, read
from slo_rules.vocabulary import ROLES, STAMPS
from tests.exporter.live import Live
from tests.exporter.spans import Value, event, span

WHOLE = """\
apiVersion: goodput/v1
kind: SourceProfile
metadata: {name: own, labels: {team: x}}
spec:
  role: engine
  match:
    - {scope: [lib, ""], name: "req*", kind: server, attributes: {a: present, b: absent, c: "x|y", d: 5}}
    - {resource: {telemetry.sdk.name: own}}
  ignore:
    - {name: start, kind: [internal, client], reason: start_up}
  stamps:
    arrived: start
    first_token: [{event: token, skip: 1, where: {n: "[1-9]"}}, {from: arrived, plus: ttft, unit: ms}]
    last_token: {event: token, pick: last}
    scheduled: {from: first_token, minus: prefill, unit: us}
    dispatched: {attribute: sent_at, unit: ns}
    ended: end
  first_token_from: chunk
  tokens: {input: [in.new, in.old], output: out, cached_input: cached}
  items: images
  labels: {model: m, class: [k]}
  request_id: {attribute: [id, request], strip: [chatcmpl-], sequence: "(.*)-[0-9]+", choice: "[0-9]+_(.*)"}
  stream: [streaming, {event: asked, attribute: type, matches: stream, absent: false}]
  status: [code, {event: answered, attribute: status}]
  method: method
  path: [path, url]
  route: task
  outcome:
    - {attribute: code, matches: "5..", is: error}
    - {event: exception, attribute: type, matches: ".+", is: cancelled}
  within: web
  several: {first_token: min, ended: max, output: sum}
"""


def load(text: str) -> tuple[list[SourceProfile], list[Problem]]:
    problems: list[Problem] = []
    return read_profiles(read(text, "own.yaml", problems, {})), problems


def test_a_profile_means_what_it_says() -> None:
    (found,), problems = load(WHOLE)
    assert problems == []
    conditions = (
        Condition(attribute="a"), Condition(attribute="b", present=False),
        Condition(attribute="c", pattern=re.compile("x|y")), Condition(attribute="d", pattern=re.compile("5")),
    )  # fmt: skip
    ttft = Stamp(base="arrived", attribute="ttft", unit_ns=1_000_000)
    assert found == SourceProfile(
        name="own", role="engine",
        matches=(
            Match(scopes=("lib", ""), names=("req*",), kinds=(2,), attributes=conditions),
            Match(resource=(Condition(attribute="telemetry.sdk.name", pattern=re.compile("own")),)),
        ),
        ignores=(Ignore(match=Match(names=("start",), kinds=(1, 3)), reason="start_up"),),
        stamps={
            "arrived": (Stamp(),),
            "first_token": (
                Stamp(event="token", skip=1, where=(Condition(attribute="n", pattern=re.compile("[1-9]")),)), ttft,
            ),
            "last_token": (Stamp(event="token", last=True),),
            "scheduled": (Stamp(base="first_token", attribute="prefill", sign=-1, unit_ns=1_000),),
            "dispatched": (Stamp(attribute="sent_at", absolute=True),),
            "ended": (Stamp(base="end"),),
        },
        first_token_from="chunk",
        tokens={"input": ("in.new", "in.old"), "output": ("out",), "cached_input": ("cached",)},
        items=("images",),
        labels={"model": ("m",), "class": ("k",)},
        request_id=RequestId(
            attributes=("id", "request"), strip=("chatcmpl-",), sequence=re.compile("(.*)-[0-9]+"),
            choice=re.compile("[0-9]+_(.*)"),
        ),
        stream=(
            Stream(source=Source(attribute="streaming"), pattern=re.compile("true|True|1")),
            Stream(source=Source(attribute="type", event="asked"), pattern=re.compile("stream"), absent=0),
        ),
        status=(Source(attribute="code"), Source(attribute="status", event="answered")),
        method=("method",), path=("path", "url"), route=("task",),
        outcome=(
            Evidence(source=Source(attribute="code"), pattern=re.compile("5.."), outcome="error"),
            Evidence(source=Source(attribute="type", event="exception"), pattern=re.compile(".+"), outcome="cancelled"),
        ),
        within="web",
        several={"first_token": "min", "ended": "max", "output": "sum"},
    )  # fmt: skip


def test_every_key_and_event_that_a_profile_names_is_asked_for() -> None:
    (found,), _ = load(WHOLE)
    assert set(found.attributes()) == {
        "a", "b", "c", "d", "n", "ttft", "prefill", "sent_at", "in.new", "in.old", "out", "cached", "images", "m", "k",
        "id", "request", "streaming", "type", "code", "status", "method", "path", "url", "task",
    }  # fmt: skip
    assert set(found.events()) == {"token", "asked", "answered", "exception"}


def test_several_profiles_may_stand_in_one_file() -> None:
    found, problems = load(f"{WHOLE}---\n{WHOLE.replace('name: own', 'name: second')}")
    assert [each.name for each in found] == ["own", "second"]
    assert problems == []


# What is refused

DURATION = "must be start, end, or a mapping with one of event, attribute, from"
MISTAKES: dict[str, tuple[str, str, str]] = {
    "another version": ("goodput/v1", "goodput/v2", "1:13 apiVersion: must be one of: goodput/v1"),
    "another kind": ("kind: SourceProfile", "kind: SLO", "2:7 kind: must be one of: SourceProfile"),
    "an unknown key": ("  within: web", "  whitin: web", "31:3 spec.whitin: must be a known key"),
    "no name": ("{name: own, labels", "{labels", "3:11 metadata.name: must be given, found nothing"),
    "a name for people": ("name: own,", "name: My Server,", "3:18 metadata.name: must match"),
    "no role": ("  role: engine\n", "", "5:3 spec.role: must be given, found nothing"),
    "an unknown role": ("role: engine", "role: modell", "5:9 spec.role: must be one of: client, gateway"),
    "a match that is no list": (
        '    - {scope: [lib, ""], name: "req*", kind: server, attributes: {a: present, b: absent, c: "x|y", d: 5}}\n'
        "    - {resource: {telemetry.sdk.name: own}}\n",
        "    name: x\n",
        "7:5 spec.match: must be a list",
    ),
    "a match of nothing": ("- {resource: {telemetry.sdk.name: own}}", "- {}", "8:7 spec.match[1]: must say how to"),
    "a match of no attribute": (
        "- {resource: {telemetry.sdk.name: own}}",
        "- {attributes: {}}",
        "8:7 spec.match[1]: must say how",
    ),
    "a match by a chosen name": (
        "telemetry.sdk.name: own",
        "service.name: own",
        "must not go by a name that users choose",
    ),
    "a match by a chosen instance": (
        "telemetry.sdk.name: own",
        "service.instance.id: present",
        'must not go by a name that users choose, found "present"',
    ),
    "an unknown kind of span": ("kind: server", "kind: sever", "must be one of: unspecified, internal, server"),
    "a pattern that is none": (
        'c: "x|y"',
        'c: "x("',
        "must be a regular expression (missing ), unterminated subpattern",
    ),
    "an ignore without a reason": (", reason: start_up}", "}", "10:7 spec.ignore[0].reason: must be given"),
    "an ignore with a reason for people": ("reason: start_up", "reason: Start up", "spec.ignore[0].reason: must match"),
    "an ignore of everything": (
        "{name: start, kind: [internal, client], reason",
        "{reason",
        "must say how to recognise",
    ),
    "an ignore by a chosen name": (
        "{name: start, kind: [internal, client]",
        "{resource: {service.name: x}",
        "must not go by a name that users choose",
    ),
    "an unknown stamp": ("    arrived: start", "    arived: start", "12:5 spec.stamps.arived: must be a known key"),
    "a stamp that is a word": (
        "arrived: start",
        "arrived: begin",
        "12:14 spec.stamps.arrived: must be one of: start, end",
    ),
    "a stamp in two ways at once": ("{event: token, pick: last}", "{event: token, from: start}", DURATION),
    "a stamp in no way": ("{event: token, pick: last}", "{pick: last}", DURATION),
    "a stamp without its unit": ("plus: ttft, unit: ms", "plus: ttft", "must give the unit, one of s, ms, us, ns"),
    "an instant without its unit": (
        "{attribute: sent_at, unit: ns}",
        "{attribute: sent_at}",
        "must give the unit, one of",
    ),
    "an unknown unit": ("unit: ms", "unit: sec", "must be one of: s, ms, us, ns"),
    "no interval": ("plus: ttft, ", "", "must give plus or minus, the attribute that holds the interval"),
    "two intervals": ("plus: ttft,", "plus: ttft, minus: x,", "must give plus or minus, the attribute"),
    "a stamp from itself": (
        "{from: first_token, minus",
        "{from: scheduled, minus",
        "must be one of: start, end, arrived",
    ),
    "a stamp from one that is not given": (
        "    arrived: start\n",
        "",
        "must give the stamp arrived, which first_token is counted from",
    ),
    "stamps in a circle": ("{from: arrived, plus", "{from: scheduled, plus", "must not count first_token from itself"),
    "which of the events": ("pick: last", "pick: middle", "must be one of: first, last"),
    "too many events over": ("skip: 1", "skip: 17", "must be at least 0 and at most 16, found 17"),
    "a unit where there is none": ("pick: last", "unit: ms", "must not stand beside event"),
    "a pick where there is no event": ("plus: ttft,", "plus: ttft, pick: last,", "must not stand beside from"),
    "a source of first tokens": (
        "first_token_from: chunk",
        "first_token_from: word",
        "must be one of: token, chunk, byte, model",
    ),
    "an unknown count": ("cached_input: cached", "cached: cached", "spec.tokens.cached: must be a known key"),
    "a key that is no text": ("output: out", "output: 5", 'spec.tokens.output: must be text: write "5"'),
    "a label that is no such": ("class: [k]", "tenant: [k]", "spec.labels.tenant: must be a known key: model, class"),
    "an id without an attribute": ("{attribute: [id, request], ", "{", "spec.request_id.attribute: must be given"),
    "an id pattern without a group": (
        '"(.*)-[0-9]+"',
        '".*-[0-9]+"',
        "must have one group, which holds the id without",
    ),
    "an id pattern with two groups": (
        '"(.*)-[0-9]+"',
        '"(.*)-([0-9]+)"',
        "must have one group, which holds the id without",
    ),
    "a stream without an attribute": (
        "{event: asked, attribute: type,",
        "{event: asked,",
        "spec.stream[1].attribute: must be given",
    ),
    "what absence says": ("absent: false", "absent: maybe", "must be true or false"),
    "evidence of nothing": (', matches: "5..", is: error', ', matches: "5.."', "spec.outcome[0].is: must be given"),
    "evidence of an unknown outcome": ("is: error", "is: fail", "must be one of: ok, error, timeout"),
    "evidence without a pattern": (
        'attribute: code, matches: "5.."',
        "attribute: code",
        "spec.outcome[0].matches: must be given",
    ),
    "another way to add up": ("output: sum", "output: max", "spec.several.output: must be one of: sum"),
}


@pytest.mark.parametrize(("right", "wrong", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named_with_its_place(right: str, wrong: str, message: str) -> None:
    assert WHOLE.count(right) >= 1
    _, problems = load(WHOLE.replace(right, wrong, 1))
    assert any(message in str(problem) for problem in problems), Problems(problems)


@pytest.mark.parametrize(("right", "wrong"), [(right, wrong) for right, wrong, _ in MISTAKES.values()], ids=MISTAKES)
def test_one_mistake_is_told_about_once(right: str, wrong: str) -> None:
    _, problems = load(WHOLE.replace(right, wrong, 1))
    assert len({(problem.line, problem.column) for problem in problems}) == 1, Problems(problems)


def test_every_mistake_of_a_file_is_told_in_one_run() -> None:
    text = WHOLE
    for right, wrong in (
        ("role: engine", "role: x"),
        ("unit: ms", "unit: x"),
        ("is: error", "is: x"),
        ("skip: 1", "skip: x"),
    ):
        text = text.replace(right, wrong, 1)
    _, problems = load(text)
    assert [problem.line for problem in sorted(problems)] == [5, 13, 13, 29]


@pytest.mark.parametrize("role", [role for role in ROLES if role != "part"])
def test_without_stamps_there_is_nothing_to_time_a_request_by(role: str) -> None:
    head, _, _ = WHOLE.partition("  ignore:")
    _, problems = load(head.replace("engine", role))
    assert [each.rule for each in problems] == ["must give stamps, which are what a request is timed by"]
    assert load(head.replace("engine", "part"))[1] == []


def test_a_match_of_no_kind_of_span_is_refused() -> None:
    _, problems = load(re.sub(r"  match:\n.*\n.*\n", "  match: []\n", WHOLE))
    assert [str(each) for each in problems] == [
        "own.yaml:6:10 spec.match: must hold at least one way to recognise the span, found a list"
    ]


@pytest.mark.parametrize("text", ["[]", "x", "5", "{}", "apiVersion: goodput/v1", "metadata: []\nspec: []"])
def test_what_is_no_profile_is_refused(text: str) -> None:
    found, problems = load(text)
    assert found == []
    assert problems


def named(*names: str) -> tuple[list[tuple[SourceProfile, Node]], list[Problem]]:
    problems: list[Problem] = []
    pairs = []
    for name in names:
        (node,) = read(WHOLE.replace("name: own", f"name: {name}"), "own.yaml", problems, {})
        (found,) = read_profiles([node])
        pairs.append((found, node))
    return pairs, problems


@pytest.mark.parametrize(
    ("names", "taken"), [(("a", "b"), []), (("a", "b", "a"), ["a"]), (("a", "a", "a"), ["a", "a"])]
)
def test_profiles_of_the_users_own_have_different_names(names: Sequence[str], taken: list[str]) -> None:
    pairs, problems = named(*names)
    check_names(pairs)
    assert [each.rule for each in problems] == [f"must have a name of its own, {name} is taken" for name in taken]


# Those that come with the program


def test_the_built_in_profiles_have_no_mistake_and_names_of_their_own() -> None:
    names = [each.name for each in built_in()]
    assert len(names) == len(set(names))
    assert set(BUILT_IN) <= set(names)


def test_every_profile_in_the_folder_is_built_in(checkout: Path) -> None:
    assert {file.stem for file in (checkout / "exporter" / "profiles").glob("*.yaml")} == set(BUILT_IN)


@pytest.mark.parametrize("found", built_in(), ids=lambda each: each.name)
def test_a_built_in_profile_tells_when_its_span_opens(found: SourceProfile) -> None:
    opening = {"client": "arrived", "gateway": "arrived", "engine": "arrived", "hop": "dispatched"}
    assert found.role in ROLES
    assert set(found.stamps) <= set(STAMPS)
    if found.role in opening:
        assert opening[found.role] in found.stamps
    if found.role == "queue":
        assert found.stamps.keys() & {"enqueued", "dequeued"}


# As a user would


MINE = """\
apiVersion: goodput/v1
kind: SourceProfile
metadata: {name: my-server}
spec:
  role: engine
  match:
    - {name: generate, attributes: {my.request.id: present}}
  stamps:
    arrived: start
    first_token: {event: first_token}
    ended: end
  tokens: {input: [my.prompt], output: [my.answer]}
  labels: {model: [my.model]}
  outcome: [{attribute: my.result, matches: aborted, is: cancelled}]
"""


def test_an_emitter_that_nobody_heard_of_takes_fifteen_lines() -> None:
    assert len(MINE.splitlines()) <= 15
    live = Live(profile_files=(MINE,))
    for number, result in enumerate(("done", "done", "aborted")):
        start = 1_000 * number
        attributes: dict[str, Value] = {
            "my.request.id": f"r{number}",
            "my.prompt": 100,
            "my.answer": 11,
            "my.model": "m",
            "my.result": result,
        }
        live.feed(
            span(
                "generate",
                start=start,
                end=start + 600,
                attributes=attributes,
                events=[event("first_token", start + 100)],
            )
        )
    boundary = live.boundary("model")
    assert {outcome: count for outcome, count in boundary["outcomes"].items() if count} == {"ok": 2, "cancelled": 1}
    assert boundary["metrics"]["ttft"]["mean"] == pytest.approx(0.1)
    assert boundary["metrics"]["tpot"]["mean"] == pytest.approx(0.05)
    assert boundary["tokens"] == {"input": 300, "output": 33, "cached_input": None, "items": None}
    samples = live.scrape(5_000).where("inference_output_tokens_total", boundary="model")
    assert {(each.labels["model"], each.value) for each in samples} == {("m", 33)}

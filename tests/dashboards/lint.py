"""Our own lint of dashboard JSON: what Grafana would take without a word, and on-call would stumble over."""

import enum
import json
import re
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

COLUMNS: Final = 24
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
BUILT_IN: Final = {"__rate_interval", "datasource"}
RANGES: Final = {"$__rate_interval", "$window", "1h", "2m"}


def faults(board: Mapping[str, Any]) -> list[str]:
    """All that is wrong with a dashboard."""
    found = [*_whole(board), *_variables(board), *_overlaps(board), *_unknown(board)]
    for panel in board["panels"]:
        if panel["type"] not in ("row", "text"):
            found += [f"{panel.get('title')}: {fault}" for fault in _panel(panel)]
    return found


def _whole(board: Mapping[str, Any]) -> Iterator[str]:
    if board.get("id") is not None:
        yield "has an id, which belongs to one Grafana"
    if not re.fullmatch(r"goodput-[a-z-]{3,32}", board.get("uid", "")):
        yield "has no uid of ours"
    if "__inputs" in board or "__requires" in board:
        yield "must be edited at import"
    ids = [panel.get("id") for panel in board["panels"]]
    if len(set(ids)) != len(ids) or None in ids:
        yield "has panels without an id of their own"
    titles = [panel["title"] for panel in board["panels"]]
    yield from (f"has two panels called {title}" for title in set(titles) if titles.count(title) > 1)
    for place in _datasources(board):
        if place != DATASOURCE:
            yield f"has a fixed data source {place}"


def _datasources(part: Any) -> Iterator[Any]:
    if isinstance(part, Mapping):
        if "datasource" in part:
            yield part["datasource"]
        for child in part.values():
            yield from _datasources(child)
    elif isinstance(part, list):
        for child in part:
            yield from _datasources(child)


def _variables(board: Mapping[str, Any]) -> Iterator[str]:
    declared = {each["name"] for each in board["templating"]["list"]}
    text = json.dumps([board["panels"], board["annotations"]])
    used = set(re.findall(r"\$\{?([A-Za-z_]\w*)", text)) | {panel.get("repeat", "") for panel in board["panels"]} - {""}
    yield from (f"uses ${name}, which is not declared" for name in used - declared - BUILT_IN)
    yield from (f"declares ${name}, which is not used" for name in declared - used)
    for each in board["templating"]["list"]:
        if each["name"] == "datasource" and each["type"] != "datasource":
            yield "$datasource is no data source"
        if each.get("includeAll") and each.get("allValue") != ".+":
            yield f"${each['name']} takes series of others for All"


def _overlaps(board: Mapping[str, Any]) -> Iterator[str]:
    taken: dict[tuple[int, int], str] = {}
    for panel in board["panels"]:
        place = panel["gridPos"]
        if place["x"] < 0 or place["x"] + place["w"] > COLUMNS or place["h"] < 1:
            yield f"{panel['title']}: is beyond the grid"
        for cell in (
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ):
            if cell in taken:
                yield f"{panel['title']}: lies on {taken[cell]}"
                break
            taken[cell] = panel["title"]


def _panel(panel: Mapping[str, Any]) -> Iterator[str]:
    defaults = panel["fieldConfig"]["defaults"]
    if not defaults.get("unit"):
        yield "has no unit"
    if defaults.get("noValue") != "no data":
        yield "does not say when there is no data"
    about = panel.get("description", "")
    if len(about) < 40 or not about.endswith("."):
        yield "has no description that says what it is and what to do"
    if not panel["targets"]:
        yield "asks nothing"
    if panel["type"] in ("timeseries", "state-timeline", "xychart") and not panel["options"]["legend"]["showLegend"]:
        yield "has no legend"
    refs = [target["refId"] for target in panel["targets"]]
    if len(set(refs)) != len(refs):
        yield "has two queries of one name"
    for target in panel["targets"]:
        yield from _query(panel, target)


def _query(panel: Mapping[str, Any], target: Mapping[str, Any]) -> Iterator[str]:
    expr, at_once = target["expr"], panel["type"] in ("stat", "table", "bargauge")
    if panel["type"] != "table" and not target["legendFormat"]:
        yield "has a query without a legend"
    if target["instant"] != at_once or target["range"] == at_once:
        yield "shows a past value as the present one, or one point as a line"
    if re.search(r"\bavg\b|avg_over_time", expr):
        yield "averages"
    if re.search(r"vector\(|\babsent|or\s+0\b", expr):
        yield "makes a number of no data"
    if re.search(r"\ble\s*=", expr):
        yield "selects on le"
    if re.search(r"sum(?: by \([^)]*\))? \(inference_window_(ttft|tpot|completion|phase)_seconds", expr):
        yield "adds up percentiles"
    yield from (f"has a range of {each}" for each in re.findall(r"\[([^\]]*)\]", expr) if each not in RANGES)
    for part in re.findall(r"\n/ (?:on \([^)]*\) (?:group_left \(\) )?)?(.)", expr):
        if part not in "(msg":
            yield "divides by what may be zero"


# Keys and types, by the classes of the SDK.


def _unknown(board: Mapping[str, Any]) -> Iterator[str]:
    """What the SDK's classes do not have: a round trip loses it, or it has another type."""
    register_default_plugins()
    try:
        made = Dashboard.from_json(json.loads(json.dumps(board)))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        yield f"the SDK cannot read it: {error}"
        return
    back = json.loads(json.dumps(made, cls=JSONEncoder))
    yield from _differences(board, back, "")
    yield from _mistyped(made, type(made), "")


def _differences(left: Any, right: Any, path: str) -> Iterator[str]:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        for key in sorted({*left, *right}):
            if key not in right:
                yield f"{path}.{key} is no key of it"
            elif key in left:  # what it adds is its default
                yield from _differences(left[key], right[key], f"{path}.{key}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for place, (a, b) in enumerate(zip(left, right, strict=True)):
            yield from _differences(a, b, f"{path}[{place}]")
    elif left != right:
        yield f"{path} comes back as {right!r}"


def _mistyped(value: Any, hint: Any, path: str) -> Iterator[str]:
    """Where a value is not what its class says."""
    origin, inside = get_origin(hint), get_args(hint)
    if hint in (Any, object):
        if hasattr(value, "to_json"):
            yield from _mistyped(value, type(value), path)
    elif origin in (Union, UnionType):
        kinds = [each for each in inside if (each is type(None)) == (value is None)]
        yield from min(
            (list(_mistyped(value, each, path)) for each in kinds), key=len, default=[f"{path} is {value!r}"]
        )
    elif origin is Literal:
        if value not in inside:
            yield f"{path} is {value!r}, not one of {inside}"
    elif origin is list:
        if isinstance(value, list):
            for place, each in enumerate(value):
                yield from _mistyped(each, inside[0], f"{path}[{place}]")
        else:
            yield f"{path} is no list"
    elif origin is dict:
        for key, each in value.items() if isinstance(value, dict) else [("", value)]:
            yield from _mistyped(each, inside[1], f"{path}.{key}")
    elif hint is float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            yield f"{path} is {value!r}, no number"
    elif issubclass(hint, enum.Enum):
        if value not in [each.value for each in hint]:
            yield f"{path} is {value!r}, not one of {[each.value for each in hint]}"
    elif hint in (str, int, bool, type(None)):
        if not isinstance(value, hint) or (isinstance(value, bool) and hint is int):
            yield f"{path} is {value!r}, not {hint}"
    elif isinstance(value, dict) and hasattr(hint, "from_json"):  # the SDK leaves some parts as they are
        yield from _mistyped(hint.from_json(value), hint, path)
    elif not isinstance(value, hint):
        yield f"{path} is {type(value)}, not {hint}"
    elif hasattr(value, "to_json"):
        for name, each in get_type_hints(type(value)).items():
            if hasattr(value, name):
                yield from _mistyped(getattr(value, name), each, f"{path}.{name}")

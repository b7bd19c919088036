"""What on-call would see, without Grafana: dashboards with real query results, as HTML and through Chromium as PNG.

    python -m dashboards.render FOLDER --prometheus http://127.0.0.1:9090 --range 15m --set slo=chat --out pictures

FOLDER holds dashboards as JSON. Each panel stands where the grid puts it, once for each value where it repeats, with a
simple plot of its results; all queries of a panel are asked as Grafana asks them, with variables filled in. It is for
looking at, not for measuring: no zoom, few ticks.
"""

import argparse
import html
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode
from urllib.request import urlopen

from slo_rules.units import parse_duration

WIDTH: Final = 1600
ROW: Final = 38
GAP: Final = 8
COLUMNS: Final = 24
POINTS: Final = 240
COLORS: Final = {
    "green": "#73bf69", "orange": "#ff9830", "red": "#f2495c", "blue": "#5794f2", "purple": "#b877d9",
    "yellow": "#fade2a", "light-blue": "#8ab8ff", "dark-orange": "#fa6400", "dark-red": "#c4162a",
    "dark-blue": "#3274d9", "light-green": "#96d98d", "text": "#ccccdc", "transparent": "#181b1f",
}  # fmt: skip
PALETTE: Final = ("green", "yellow", "light-blue", "orange", "red", "blue", "purple", "dark-orange", "light-green")
PAGE: Final = """<!DOCTYPE html><html><head><meta charset="utf-8"><title>{title}</title><style>
body {{ background: #111217; color: #ccccdc; font: 12px DejaVu Sans, sans-serif; margin: 0; width: {width}px; }}
h1 {{ font-size: 18px; margin: 10px 8px 2px; }} p {{ margin: 0 8px 8px; color: #8e8e9a; }}
.grid {{ position: relative; height: {height}px; }}
.panel {{ position: absolute; background: #181b1f; border: 1px solid #2a2c33; box-sizing: border-box; }}
.panel {{ overflow: hidden; }}
.panel h2 {{ font-size: 12px; margin: 5px 8px; height: 15px; white-space: nowrap; overflow: hidden; }}
.row {{ position: absolute; font-size: 15px; padding: 8px; }}
.tiles {{ display: flex; gap: 2px; }} .tile {{ flex: 1; text-align: center; padding: 6px 2px; overflow: hidden; }}
.tile b {{ display: block; font-size: 22px; }} .none {{ color: #8e8e9a; text-align: center; padding-top: 20px; }}
.legend {{ padding: 0 8px; font-size: 10.5px; line-height: 14px; height: 28px; overflow: hidden; }}
table {{ border-collapse: collapse; width: 100%; font-size: 11px; }} td, th {{ padding: 2px 8px; text-align: left; }}
</style></head><body><h1>{title}</h1><p>{about}</p><div class="grid">{body}</div></body></html>
"""
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*))")


class Line(NamedTuple):
    """A series: its name, labels, and points of time and value."""

    name: str
    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Prometheus, and the time that is looked at."""

    url: str
    end_s: float
    range_s: float

    @property
    def step_s(self) -> float:
        """Between two points."""
        return max(1.0, self.range_s / POINTS)

    def over_time(self, expr: str) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
        """A range query. Raises OSError with Prometheus' own words."""
        asked = {"start": self.end_s - self.range_s, "end": self.end_s, "step": self.step_s}
        return [(each["metric"], _points(each["values"])) for each in self._ask("query_range", expr, asked)]

    def now(self, expr: str) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
        """An instant query."""
        return [(each["metric"], _points([each["value"]])) for each in self._ask("query", expr, {"time": self.end_s})]

    def _ask(self, kind: str, expr: str, asked: Mapping[str, float]) -> list[dict[str, Any]]:
        with urlopen(f"{self.url}/api/v1/{kind}?{urlencode({'query': expr, **asked})}", timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found


def _points(values: Sequence[Sequence[Any]]) -> list[tuple[float, float]]:
    return [(float(at), float(value)) for at, value in values if isfinite(float(value))]


def fill(text: str, values: Mapping[str, str]) -> str:
    """A text with its variables filled in; what is no variable of the dashboard stays, as in Grafana."""
    return _VARIABLE.sub(lambda found: values.get(found[1] or found[2], found[0]), text)


def variables(board: Mapping[str, Any], source: Source, chosen: Mapping[str, str]) -> dict[str, str]:
    """What Grafana fills in at first: all values where that can be had, else the current one, else the first."""
    values = {"__rate_interval": "1m"}
    for each in board["templating"]["list"]:
        name, asked = each["name"], re.fullmatch(r"label_values\((\w+), (\w+)\)", each.get("query", ""))
        found = sorted({labels.get(name, "") for labels, _ in source.now(asked[1])}) if asked else []
        current = each.get("current", {}).get("value")
        values[name] = each["allValue"] if each.get("includeAll") else current or next(iter(found), "")
    return values | dict(chosen)


def copies(panel: Mapping[str, Any], values: Mapping[str, str], repeats: Mapping[str, Sequence[str]]) -> Iterator[
    tuple[dict[str, Any], dict[str, str]]
]:  # fmt: skip
    """A panel as often as it stands on the grid, each with its place and its variables."""
    place, variable = panel["gridPos"], panel.get("repeat")
    names = repeats.get(variable, []) if variable else []
    if not names:
        yield place, dict(values)
        return
    width = COLUMNS // min(len(names), int(panel.get("maxPerRow", 4)))
    for number, name in enumerate(names):
        yield {**place, "x": number * width, "w": width}, {**values, str(variable): name}


def page(
    board: Mapping[str, Any], source: Source, values: Mapping[str, str], repeats: Mapping[str, Sequence[str]]
) -> str:
    """One dashboard as HTML."""
    marks = [
        (note["iconColor"], at)
        for note in board["annotations"]["list"]
        for _, points in source.over_time(note["expr"])
        for at, _ in points
    ]
    cells = []
    for panel in board["panels"]:
        for place, filled in copies(panel, values, repeats):
            cells.append(_cell(panel, place, source, filled, marks))
    about = html.escape(f"{board['description']} {_chosen(values)}")
    return PAGE.format(title=html.escape(board["title"]), about=about, body="".join(cells), width=WIDTH,
                       height=_height(board))  # fmt: skip


def _chosen(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if value and not name.startswith("__"))


def _cell(panel: Mapping[str, Any], place: Mapping[str, int], source: Source, values: Mapping[str, str],
          marks: Sequence[tuple[str, float]]) -> str:  # fmt: skip
    unit = WIDTH / COLUMNS
    left, top = place["x"] * unit + GAP / 2, place["y"] * ROW
    width, height = place["w"] * unit - GAP, place["h"] * ROW - GAP
    style = f'style="left:{left:.0f}px;top:{top}px;width:{width:.0f}px;height:{height}px"'
    title = html.escape(fill(panel.get("title", ""), values))
    if panel["type"] == "row":
        return f'<div class="row" {style}>{title}</div>'
    if panel["type"] == "text":
        body = f"<pre>{html.escape(panel['options']['content'])}</pre>"
    elif panel["type"] == "timeseries":
        body = _graph(panel, _lines(panel, source, values), width, height - 72, source, marks)
    else:
        body = DRAW[panel["type"]](panel, _lines(panel, source, values), width, height - 72, source)
    return f'<div class="panel" {style}><h2>{title}</h2>{body or _nothing(panel)}</div>'


def _nothing(panel: Mapping[str, Any]) -> str:
    return f'<div class="none">{html.escape(panel["fieldConfig"]["defaults"]["noValue"])}</div>'


def _lines(panel: Mapping[str, Any], source: Source, values: Mapping[str, str]) -> list[Line]:
    found = []
    for target in panel["targets"]:
        ask = source.now if target.get("instant") else source.over_time
        for labels, points in ask(fill(target["expr"], values)):
            name = re.sub(r"{{(\w+)}}", lambda match: labels.get(match[1], ""), target["legendFormat"])  # noqa: B023
            found.append(Line(name or f"Value #{target['refId']}", labels, points))
    return [line for line in found if line.points]


# Values.


def _shown(value: float, unit: str) -> str:
    if unit == "percentunit":
        return f"{100 * value:.4g} %"
    if unit == "s":
        return f"{value:.3g} s" if abs(value) >= 1 or not value else f"{1000 * value:.3g} ms"
    if unit == "dtdurations":
        return f"{value / 3600:.4g} h"
    if unit == "bytes":
        return f"{value / 2**20:.4g} MiB"
    words = {"reqps": " req/s", "cps": "/s", "none": "", "short": ""}
    return f"{value:.4g}{words.get(unit, unit.removeprefix('suffix:'))}"


def _color(name: str) -> str:
    return COLORS.get(name, name)


def _stepped(value: float, steps: Sequence[Mapping[str, Any]]) -> str:
    reached = [step["color"] for step in steps if step.get("value") is None or value >= step["value"]]
    return _color(reached[-1]) if reached else COLORS["text"]


def _mapped(mappings: Sequence[Mapping[str, Any]], value: float) -> tuple[str, str] | None:
    for mapping in mappings:
        found = mapping["options"].get(f"{value:g}")
        if found:
            return found["text"], _color(found["color"])
    return None


def _overrides(panel: Mapping[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for override in panel["fieldConfig"]["overrides"]:
        matcher = override["matcher"]
        by_name = matcher["id"] == "byName" and matcher["options"] == name
        if by_name or (matcher["id"] == "byRegexp" and re.search(matcher["options"], name)):
            found |= {each["id"]: each["value"] for each in override["properties"]}
    return found


# Panels.


def _tiles(panel: Mapping[str, Any], lines: Sequence[Line], *_: object) -> str:
    defaults, tiles = panel["fieldConfig"]["defaults"], []
    for line in lines:
        value = line.points[-1][1]
        text, color = _mapped(defaults.get("mappings", []), value) or (
            _shown(value, defaults["unit"]), _stepped(value, defaults["thresholds"]["steps"])
        )  # fmt: skip
        filled = panel["options"]["colorMode"] == "background"
        paint = f"background:{color};color:#111" if filled else f"color:{color}"
        tiles.append(f'<div class="tile" style="{paint}"><b>{html.escape(text)}</b></div>')
    return f'<div class="tiles">{"".join(tiles)}</div>' if tiles else ""


def _table(panel: Mapping[str, Any], lines: Sequence[Line], *_: object) -> str:
    options, refs = panel["transformations"][-1]["options"], [f"Value #{each['refId']}" for each in panel["targets"]]
    how = {ref: _overrides(panel, ref if len(refs) > 1 else "Value") for ref in refs}
    titles = {**options["renameByName"], **{ref: how[ref]["displayName"] for ref in refs}}
    columns = sorted(titles, key=lambda name: options["indexByName"].get(name, options["indexByName"].get("Value", 0)))
    shared = [set(line.labels) for line in lines]
    keys = sorted(set.intersection(*shared)) if shared else []
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for line in lines:
        row = rows.setdefault(tuple(line.labels[key] for key in keys), {})
        row |= {**line.labels, line.name: line.points[-1][1]}
    head, body = "".join(f"<th>{html.escape(titles[name])}</th>" for name in columns), ""
    for row in rows.values():
        body += f"<tr>{''.join(_table_cell(row.get(name), how.get(name)) for name in columns)}</tr>"
    return f"<table><tr>{head}</tr>{body}</table>" if rows else ""


def _table_cell(value: Any, how: Mapping[str, Any] | None) -> str:
    if value is None or how is None:
        return f"<td>{html.escape(value or '')}</td>"
    found = _mapped(how.get("mappings", []), value)
    if found:
        return f'<td style="background:{found[1]};color:#111"><b>{found[0]}</b></td>'
    color = _stepped(value, how["thresholds"]["steps"]) if "thresholds" in how else COLORS["text"]
    return f'<td style="color:{color}">{_shown(value, how["unit"])}</td>'


def _bars(panel: Mapping[str, Any], lines: Sequence[Line], width: float, *_: object) -> str:
    most = max((line.points[-1][1] for line in lines), default=0) or 1
    unit = panel["fieldConfig"]["defaults"]["unit"]
    return "".join(
        f'<div style="padding:4px 8px">{html.escape(line.name)}<div style="background:{COLORS["blue"]};color:#111;'
        f'padding:3px;width:{max(2, line.points[-1][1] / most * (width - 40)):.0f}px">'
        f"{_shown(line.points[-1][1], unit)}</div></div>"
        for line in lines
    )


def _states(panel: Mapping[str, Any], lines: Sequence[Line], width: float, height: float, source: Source) -> str:
    high, parts = height / max(len(lines), 1), []
    for number, line in enumerate(lines):
        for at, value in line.points:
            x = (at - source.end_s + source.range_s) / source.range_s * (width - 220)
            _, color = _mapped(panel["fieldConfig"]["defaults"]["mappings"], value) or ("", COLORS["text"])
            wide = source.step_s / source.range_s * (width - 220) + 0.6
            parts.append(f'<rect x="{210 + x:.1f}" y="{number * high + 2:.1f}" width="{wide:.1f}" '
                         f'height="{high - 4:.1f}" fill="{color}"/>')  # fmt: skip
        parts.append(f'<text x="4" y="{number * high + high / 2 + 4:.1f}" fill="#ccccdc" font-size="10">'
                     f"{html.escape(line.name)}</text>")  # fmt: skip
    parts += _times(source, width, height, 210)
    words = [(word, _color(color)) for word, color in _states_of(panel)]
    return _svg(width, height + 14, parts) + _legend(words) if lines else ""


def _states_of(panel: Mapping[str, Any]) -> list[tuple[str, str]]:
    mappings = panel["fieldConfig"]["defaults"]["mappings"]
    return [(each["text"], each["color"]) for mapping in mappings for each in mapping["options"].values()]


def _dots(panel: Mapping[str, Any], lines: Sequence[Line], width: float, height: float, *_: object) -> str:
    loads = {at: value for line in lines if line.name == "load" for at, value in line.points}
    pairs = [
        (line.name, loads[at], value)
        for line in lines
        if line.name != "load"
        for at, value in line.points
        if at in loads
    ]
    if not pairs:
        return ""
    most, names = max(x for _, x, _ in pairs) or 1, sorted({name for name, _, _ in pairs})
    parts = [
        f'<circle cx="{50 + x / most * (width - 80):.1f}" cy="{height - 20 - y * (height - 30):.1f}" r="2.5" '
        f'fill="{_color(PALETTE[names.index(name)])}"/>'
        for name, x, y in pairs
    ]
    parts += [
        _label(4, 14, "100 %"),
        _label(4, height - 18, "0 %"),
        _label(width - 90, height - 4, f"{most:.3g} req/s"),
    ]
    return _svg(width, height, parts) + _legend([(n, _color(PALETTE[i])) for i, n in enumerate(names)])


def _graph(panel: Mapping[str, Any], lines: Sequence[Line], width: float, height: float, source: Source,
           marks: Sequence[tuple[str, float]]) -> str:  # fmt: skip
    if not lines:
        return ""
    defaults = panel["fieldConfig"]["defaults"]
    custom, stacked, sums = defaults["custom"], [], dict[float, float]()
    for number, line in enumerate(lines):
        how = _overrides(panel, line.name)
        points: Sequence[tuple[float, float]] = line.points
        mode = how.get("custom.stacking", custom.get("stacking") or {"mode": "none"})["mode"]
        if mode == "normal":
            points = [(at, sums.get(at, 0) + value) for at, value in line.points]
            sums |= dict(points)
        color = _color(how.get("color", {}).get("fixedColor", PALETTE[number % len(PALETTE)]))
        stacked.append((line.name, points, color, "custom.lineStyle" in how, mode == "normal"))
    values = [value for _, points, _, _, _ in stacked for _, value in points]
    low = min([*values, custom.get("axisSoftMin", min(values))])
    high = max([*values, custom.get("axisSoftMax", low)])
    high += (high - low) * 0.05 or 1
    parts = [_mark(color, at, source, width, height) for color, at in marks]
    for tick in (low, (low + high) / 2, high):
        y = _y(tick, low, high, height)
        parts.append(f'<line x1="56" x2="{width - 6:.0f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#2a2c33"/>')
        parts.append(_label(2, min(max(y + 4, 10), height - 2), _shown(tick, defaults["unit"])))
    lowest_last = [line for line in reversed(stacked) if line[4]]
    for _, points, color, dashed, filled in [*lowest_last, *(line for line in stacked if not line[4])]:
        parts += _path(points, color, dashed, filled, source, (low, high), width, height)
    parts += _times(source, width, height)
    return _svg(width, height + 14, parts) + _legend([(name, color) for name, _, color, _, _ in stacked])


def _path(points: Sequence[tuple[float, float]], color: str, dashed: bool, filled: bool, source: Source,
          scale: tuple[float, float], width: float, height: float) -> Iterator[str]:  # fmt: skip
    runs: list[list[tuple[float, float]]] = []
    for at, value in points:
        if not runs or at - runs[-1][-1][0] > source.step_s * 1.5:
            runs.append([])
        runs[-1].append((at, value))
    for run in runs:
        spots = [(_x(at, source, width), _y(value, *scale, height)) for at, value in run]
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        dash = 'stroke-dasharray="7 5"' if dashed else ""
        if filled:
            base = _y(max(scale[0], 0), *scale, height)
            ends = f"{spots[0][0]:.1f},{base:.1f} {text} {spots[-1][0]:.1f},{base:.1f}"
            yield f'<polygon points="{ends}" fill="{color}"/>'
        yield f'<polyline points="{text}" fill="none" stroke="{color}" stroke-width="1.8" {dash}/>'


def _x(at: float, source: Source, width: float) -> float:
    return 58 + (at - source.end_s + source.range_s) / source.range_s * (width - 66)


def _y(value: float, low: float, high: float, height: float) -> float:
    return height - 4 - (value - low) / ((high - low) or 1) * (height - 10)


def _mark(color: str, at: float, source: Source, width: float, height: float) -> str:
    """What an annotation leaves: a dash at the foot of the plot."""
    x, wide = _x(at, source, width), source.step_s / source.range_s * (width - 66)
    return f'<rect x="{x:.1f}" y="{height - 4}" width="{wide + 0.5:.1f}" height="4" fill="{_color(color)}"/>'


def _times(source: Source, width: float, height: float, left: float = 58) -> Iterator[str]:
    for part in (0, 0.25, 0.5, 0.75, 1):
        at = time.localtime(source.end_s - source.range_s * (1 - part))
        yield _label(left + part * (width - left - 60), height + 12, time.strftime("%H:%M:%S", at))


def _label(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="#8e8e9a" font-size="10">{html.escape(text)}</text>'


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    return f'<svg width="{width:.0f}" height="{height:.0f}">{"".join(parts)}</svg>'


def _legend(names: Sequence[tuple[str, str]]) -> str:
    cells = [f'<span style="color:{color}">&#9644;</span> {html.escape(name)} &nbsp; ' for name, color in names]
    return f'<div class="legend">{"".join(cells)}</div>'


DRAW: Final[Mapping[str, Callable[[Mapping[str, Any], Sequence[Line], float, float, Source], str]]] = {
    "stat": _tiles, "table": _table, "state-timeline": _states, "bargauge": _bars, "xychart": _dots,
}  # fmt: skip


def picture(text: str, path: Path, height: int) -> bool:
    """A page as PNG; False where there is no Chromium."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "page.html")
        place.write_text(text, encoding="utf-8")
        command = [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--screenshot={path}",
            f"--window-size={WIDTH},{height}", f"--user-data-dir={folder}/profile", place.as_uri(),
        ]  # fmt: skip
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=120)
        except FileNotFoundError:
            return False
    return True


def render(files: Sequence[Path], source: Source, chosen: Mapping[str, str], out: Path) -> list[Path]:
    """Every dashboard as HTML, and as PNG where there is Chromium; what was written."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    boundaries = {labels["boundary"] for labels, _ in source.now("inference_completions_total")}
    for file in files:
        board = json.loads(file.read_text(encoding="utf-8"))
        text = page(board, source, variables(board, source, chosen), {"boundary": sorted(boundaries)})
        written.append(out / f"{file.stem}.html")
        written[-1].write_text(text, encoding="utf-8")
        if picture(text, out / f"{file.stem}.png", _height(board) + 70):
            written.append(out / f"{file.stem}.png")
    return written


def _height(board: Mapping[str, Any]) -> int:
    return ROW * max(int(panel["gridPos"]["y"] + panel["gridPos"]["h"]) for panel in board["panels"])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m dashboards.render", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prometheus", default="http://127.0.0.1:9090")
    parser.add_argument("--range", default="15m")
    parser.add_argument("--set", action="append", default=[], metavar="VARIABLE=VALUE")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    values = dict(pair.split("=", 1) for pair in asked.set)
    source = Source(url=asked.prometheus, end_s=time.time(), range_s=parse_duration(asked.range) / 1e9)
    for path in render(sorted(asked.folder.glob("*.json")), source, values, asked.out):
        print(path)


if __name__ == "__main__":
    main()

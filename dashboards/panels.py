"""What all panels share, whichever dashboard they are on.

Every panel has a unit and a description that says what the number is and what to do about it; the data source is a
variable; what is not known is a gap or the words "no data". A single number is asked for now, not for the last time
that there was one, so that it goes when its source goes.
"""

from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Final, NamedTuple, TypeVar

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    prometheus,
    stat,
    statetimeline,
    table,
    text,
    timeseries,
    xychart,
)
from grafana_foundation_sdk.models import common as kinds
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.query import Vector

DATASOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
NO_DATA: Final = "no data"

SECONDS: Final = "s"
SHARE: Final = "percentunit"
REQUESTS_PER_SECOND: Final = "reqps"
PER_SECOND: Final = "cps"
TOKENS_PER_SECOND: Final = "suffix: tokens/s"
COUNT: Final = "short"
BYTES: Final = "bytes"
PLAIN: Final = "none"

GREEN: Final = "green"
ORANGE: Final = "orange"
RED: Final = "red"
GREY: Final = "#808080"

BOUND: Final = "^(limit|target|asked|in all)( .*|$)"
"""Names of lines that others are held against."""

Panel = timeseries.Panel | stat.Panel | statetimeline.Panel | table.Panel | xychart.Panel | bargauge.Panel | text.Panel
P = TypeVar("P", timeseries.Panel, stat.Panel, statetimeline.Panel, table.Panel, xychart.Panel, bargauge.Panel)


class Query(NamedTuple):
    """An expression and what a line of its result is called."""

    expr: Vector
    legend: str
    exemplars: bool = False


class Column(NamedTuple):
    """A column of a table: title and unit, the steps of its colour if it has any, and words that stand for values."""

    expr: Vector
    title: str
    unit: str
    steps: Sequence[tuple[float | None, str]] = ()
    words: Mapping[str, tuple[str, str]] | None = None


def graph(
    title: str,
    about: str,
    unit: str,
    *queries: Query,
    size: tuple[int, int],
    stacked: bool = False,
    floor: float | None = 0,
    ceiling: float | None = None,
    line: float | None = None,
    colors: Mapping[str, str] | None = None,
) -> timeseries.Panel:
    """Lines over time. What is called limit, target, asked or in all is dashed; `line` is a fixed one, in orange.

    `colors` are by a pattern for the names of lines.
    """
    panel = _base(timeseries.Panel(), title, about, unit, size).line_width(2 if not stacked else 1)
    for place, query in enumerate(queries):
        target = _target(place, query.expr).range().legend_format(query.legend)
        panel.with_target(target.exemplar(True) if query.exemplars else target)
    panel.legend(_legend()).tooltip(_tooltip()).show_points(kinds.VisibilityMode.AUTO)
    panel.fill_opacity(35 if stacked else 0).span_nulls(False)
    if floor is not None:
        panel.axis_soft_min(floor)
    if ceiling is not None:
        panel.axis_soft_max(ceiling)
    if stacked:
        panel.stacking(common.StackingConfig().mode(kinds.StackingMode.NORMAL).group("A"))
    if line is not None:
        panel.thresholds(_steps([(None, "transparent"), (line, ORANGE)]))
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(kinds.GraphThresholdsStyleMode.DASHED))
    for pattern, color in (colors or {}).items():
        panel.override_by_regexp(pattern, [_fixed(color)])
    return panel.override_by_regexp(BOUND, _dashed(RED))


def _dashed(color: str) -> list[DynamicConfigValue]:
    return [
        DynamicConfigValue(id_val="custom.lineStyle", value={"fill": "dash", "dash": [8, 6]}),
        DynamicConfigValue(id_val="custom.fillOpacity", value=0),
        DynamicConfigValue(id_val="custom.stacking", value={"mode": "none", "group": "A"}),
        _fixed(color),
    ]


def _fixed(color: str) -> DynamicConfigValue:
    return DynamicConfigValue(id_val="color", value={"mode": "fixed", "fixedColor": color})


def number(
    title: str,
    about: str,
    unit: str,
    query: Query,
    *,
    size: tuple[int, int],
    steps: Sequence[tuple[float | None, str]] = (),
    words: Mapping[str, tuple[str, str]] | None = None,
) -> stat.Panel:
    """One number for each series, as of now. `words` stand for values, each with its colour."""
    panel = _base(stat.Panel(), title, about, unit, size)
    panel.with_target(_target(0, query.expr).instant().legend_format(query.legend))
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    panel.graph_mode(kinds.BigValueGraphMode.NONE)
    panel.text_mode(kinds.BigValueTextMode.VALUE)
    panel.color_mode(kinds.BigValueColorMode.BACKGROUND if steps or words else kinds.BigValueColorMode.VALUE)
    panel.thresholds(_steps(steps or [(None, "text")]))
    if words:
        panel.mappings([_mapping(words)])
    return panel


def states(
    title: str, about: str, query: Query, *, size: tuple[int, int], words: Mapping[str, tuple[str, str]]
) -> statetimeline.Panel:
    """Which state held when."""
    panel = _base(statetimeline.Panel(), title, about, PLAIN, size)
    panel.with_target(_target(0, query.expr).range().legend_format(query.legend))
    panel.mappings([_mapping(words)]).show_value(kinds.VisibilityMode.AUTO).merge_values(True)
    panel.legend(_legend()).tooltip(_tooltip())
    return panel.thresholds(_steps([(None, GREY)])).row_height(0.8).fill_opacity(80).line_width(0)


def grid(
    title: str,
    about: str,
    *columns: Column,
    size: tuple[int, int],
    names: Mapping[str, str],
    late: Mapping[str, str] | None = None,
) -> table.Panel:
    """A row for each combination of labels, as of now.

    `names` are the labels in order, and what their columns say; `late` are those that stand before the last column.
    """
    panel = _base(table.Panel(), title, about, PLAIN, size)
    values = [f"Value #{ref}" if len(columns) > 1 else "Value" for ref in ascii_uppercase[: len(columns)]]
    for place, (column, value) in enumerate(zip(columns, values, strict=True)):
        panel.with_target(_target(place, column.expr).instant().format(PromQueryFormat.TABLE).legend_format(""))
        panel.override_by_name(value, _of_column(column))
    if len(columns) > 1:
        panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    last = late or {}
    order = {name: place for place, name in enumerate((*names, *values[:-1], *last, values[-1]))}
    options = {"excludeByName": {"Time": True}, "indexByName": order, "renameByName": {**names, **last}}
    return panel.with_transformation(DataTransformerConfig(id_val="organize", options=options))


def _of_column(column: Column) -> list[DynamicConfigValue]:
    found: dict[str, object] = {"displayName": column.title, "unit": column.unit}
    if column.steps:
        found["thresholds"] = _steps(column.steps).build().to_json()
        found["custom.cellOptions"] = {"type": "color-text"}
    if column.words:
        found["mappings"] = [_mapping(column.words).to_json()]
        found["custom.cellOptions"] = {"type": "color-background", "mode": "basic"}
    return [DynamicConfigValue(id_val=name, value=value) for name, value in found.items()]


def scatter(title: str, about: str, x: Query, y: Query, *, size: tuple[int, int]) -> xychart.Panel:
    """A point for each instant: what `x` was, and what `y` was."""
    panel = _base(xychart.Panel(), title, about, SHARE, size)
    for place, query in enumerate((x, y)):
        panel.with_target(_target(place, query.expr).range().legend_format(query.legend))
    panel.with_transformation(DataTransformerConfig(id_val="joinByField", options={"byField": "Time", "mode": "inner"}))
    panel.with_transformation(DataTransformerConfig(id_val="organize", options={"excludeByName": {"Time": True}}))
    panel.override_by_name(x.legend, [DynamicConfigValue(id_val="unit", value=REQUESTS_PER_SECOND)])
    return panel.legend(_legend()).tooltip(_tooltip(single=True))


def bars(title: str, about: str, unit: str, query: Query, *, size: tuple[int, int]) -> bargauge.Panel:
    """A bar for each series, as of now."""
    panel = _base(bargauge.Panel(), title, about, unit, size)
    panel.with_target(_target(0, query.expr).instant().legend_format(query.legend))
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(False)).min(0)
    panel.orientation(kinds.VizOrientation.HORIZONTAL).display_mode(kinds.BarGaugeDisplayMode.BASIC)
    return panel.thresholds(_steps([(None, "blue")]))


def words(title: str, about: str, content: str, *, size: tuple[int, int]) -> text.Panel:
    """Text in Markdown."""
    panel = text.Panel().title(title).description(about).content(content)
    return panel.span(size[0]).height(size[1])


def of_each(panel: P, variable: str, most: int) -> P:
    """The panel once for each value of a variable, side by side."""
    return panel.repeat(variable).repeat_direction("h").max_per_row(most)


def linked(panel: P, title: str, url: str) -> P:
    """The panel, whose lines lead elsewhere."""
    link = dashboard.DashboardLink(title).type(DashboardLinkType.LINK).url(url).target_blank(True)
    return panel.data_links([link])


def _base(panel: P, title: str, about: str, unit: str, size: tuple[int, int]) -> P:
    panel.title(title).description(about).datasource(DATASOURCE).span(size[0]).height(size[1])
    panel.color_scheme(dashboard.FieldColor().mode(_palette(panel)))
    return panel.unit(unit).no_value(NO_DATA)


def _palette(panel: object) -> FieldColorModeId:
    many = isinstance(panel, timeseries.Panel | xychart.Panel)
    return FieldColorModeId.PALETTE_CLASSIC if many else FieldColorModeId.THRESHOLDS


def _target(place: int, expr: Vector) -> prometheus.Dataquery:
    return prometheus.Dataquery().datasource(DATASOURCE).ref_id(ascii_uppercase[place]).expr(expr.text)


def _steps(steps: Sequence[tuple[float | None, str]]) -> dashboard.ThresholdsConfig:
    found = [Threshold(value=value, color=color) for value, color in steps]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(found)


def _mapping(words: Mapping[str, tuple[str, str]]) -> ValueMap:
    found = {
        value: ValueMappingResult(text=word, color=color, index=place)
        for place, (value, (word, color)) in enumerate(words.items())
    }
    return ValueMap(options=found)


def _legend() -> common.VizLegendOptions:
    legend = common.VizLegendOptions().display_mode(kinds.LegendDisplayMode.LIST)
    return legend.placement(kinds.LegendPlacement.BOTTOM).show_legend(True).calcs([])


def _tooltip(*, single: bool = False) -> common.VizTooltipOptions:
    mode = kinds.TooltipDisplayMode.SINGLE if single else kinds.TooltipDisplayMode.MULTI
    return common.VizTooltipOptions().mode(mode).sort(kinds.SortOrder.DESCENDING)

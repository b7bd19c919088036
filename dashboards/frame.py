"""What all dashboards share: variables, annotations, links between them, and how panels are laid on the grid."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.dashboard import (
    Dashboard,
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    GridPos,
    RowPanel,
    VariableModel,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.dashboard import Panel as BuiltPanel

from dashboards.panels import DATASOURCE, ORANGE, RED, Panel
from dashboards.query import family
from slo_rules import rules
from slo_rules.families import FAMILY
from slo_rules.slo import SLO
from slo_rules.units import format_duration

TAG: Final = "goodput-exporter"
COLUMNS: Final = 24
DEFAULT_WINDOW: Final = "5m"
DEFAULT_TRACING: Final = "http://localhost:16686"
ALERTS: Final = "|".join(
    (
        f"{rules.BURN_ALERT}.+", rules.BELOW_TARGET, rules.NO_DATA, rules.CANNOT_JUDGE, rules.BACKLOG,
        rules.EXPORTER_DOWN, rules.EXPORTER_ABSENT, rules.EXPORTER_RELOAD,
    )
)  # fmt: skip
"""A pattern for the names of all alerts that the rules have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What dashboards depend on beside the names of series."""

    slos: Sequence[SLO] = ()
    """Named in `$slo` and written out; without them `$slo` is filled from what is there."""
    tracing_url: str = DEFAULT_TRACING
    prometheus_url: str = "http://prometheus:9090"

    @property
    def window(self) -> str:
        """The window that is shown at first: the shortest that an objective has."""
        windows = [objective.window_ns for slo in self.slos for objective in slo.objectives]
        return format_duration(min(windows)) if windows else DEFAULT_WINDOW


class Row(NamedTuple):
    """Panels under a heading, from left to right, then below."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A dashboard before it is built. `top` stands above all rows, without a heading."""

    uid: str
    title: str
    description: str
    variables: Sequence[Callable[[Settings], Builder[VariableModel]]]
    top: Sequence[Panel]
    rows: Sequence[Row]
    since: str = "now-1h"

    def build(self, settings: Settings) -> Dashboard:
        """With variables, annotations and links, and every panel at its place."""
        made = dashboard.Dashboard(self.title).uid(self.uid).description(self.description).tags([TAG])
        made.time(self.since, "now").refresh("30s").timezone("browser").tooltip(DashboardCursorSync.CROSSHAIR)
        made.editable().variables([variable(settings) for variable in (_datasource, *self.variables)])
        made.annotations([_alerts(), _reloads(), _refused_reloads()])
        made.link(dashboard.DashboardLink("goodput-exporter").type(DashboardLinkType.DASHBOARDS).tags([TAG])
                  .include_vars(True).keep_time(True).as_dropdown(False))  # fmt: skip
        found = made.build()
        found.panels = list(_placed(self.top, self.rows))
        return found


def _placed(top: Sequence[Panel], rows: Sequence[Row]) -> Iterable[BuiltPanel | RowPanel]:
    """Left to right, a new line where the width is used up; lines are as high as their highest panel."""
    number = y = 0
    for row in (Row("", top), *rows):
        if row.title:
            number += 1
            heading = dashboard.Row(row.title).id(number).grid_pos(GridPos(x=0, y=y, w=COLUMNS, h=1)).build()
            yield heading
            y += 1
        x = height = 0
        for builder in row.panels:
            number += 1
            panel = builder.id(number).build()
            assert panel.grid_pos is not None
            if x + panel.grid_pos.w > COLUMNS:
                x, y, height = 0, y + height, 0
            panel.grid_pos.x, panel.grid_pos.y = x, y
            x, height = x + panel.grid_pos.w, max(height, panel.grid_pos.h)
            yield panel
        y += height


# Variables.


def model(_: Settings) -> dashboard.QueryVariable:
    """Models, any number of them."""
    return _values("model", "Model", "inference_completions_total").multi(True)


def one_model(_: Settings) -> dashboard.QueryVariable:
    """One model, where phases are laid on each other: engines differ in their phases."""
    return _query("model", "Model", "inference_completions_total")


def klass(_: Settings) -> dashboard.QueryVariable:
    """Workload classes, any number of them."""
    return _values("class", "Class", "inference_completions_total").multi(True)


def boundaries(_: Settings) -> dashboard.QueryVariable:
    """Boundaries, any number of them: a column for each."""
    return _values("boundary", "Boundary", "inference_completions_total").multi(True)


def boundary(_: Settings) -> dashboard.QueryVariable:
    """One boundary, as the same request is counted at each."""
    found = _query("boundary", "Boundary", "inference_completions_total")
    return found.current(VariableOption(selected=True, text="end_to_end", value="end_to_end"))


def instance(_: Settings) -> dashboard.QueryVariable:
    """Exporters, any number of them."""
    return _values("instance", "Exporter", "goodput_exporter_build_info", scraped=True).multi(True)


def window(settings: Settings) -> dashboard.QueryVariable:
    """The window that gauges look back on, and over which shares are taken."""
    # Of SLOs too, which stay while there is no traffic: with no window at all, no query could be asked.
    names = "|".join(FAMILY[name].name for name in ("inference_window_samples", "inference_slo_threshold_seconds"))
    found = _query("window", "Window", "inference_window_samples")
    found = found.query(f'label_values({{__name__=~"{names}"}}, window)').sort(VariableSort.NATURAL_ASC)
    return found.current(VariableOption(selected=True, text=settings.window, value=settings.window))


def slo(settings: Settings) -> dashboard.QueryVariable | dashboard.CustomVariable:
    """SLOs, any number of them: those of the files, or all that there are."""
    if not settings.slos:
        return _values("slo", "SLO", "inference_slo_eligible_requests_total").multi(True)
    names = [each.name for each in settings.slos]
    found = dashboard.CustomVariable("slo").label("SLO").values(",".join(names)).multi(True).include_all(True)
    options = [VariableOption(selected=False, text=name, value=name) for name in names]
    return found.all_value(".+").options([_ALL, *options]).current(_ALL)


def tracing(settings: Settings) -> dashboard.TextBoxVariable:
    """Where traces are looked at."""
    found = dashboard.TextBoxVariable("tracing").label("Tracing URL").default_value(settings.tracing_url)
    return found.current(VariableOption(selected=True, text=settings.tracing_url, value=settings.tracing_url))


_ALL: Final = VariableOption(selected=True, text="All", value="$__all")


def _datasource(_: Settings) -> dashboard.DatasourceVariable:
    return dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")


def _values(name: str, label: str, source: str, *, scraped: bool = False) -> dashboard.QueryVariable:
    """Any of the values; "All" is no filter, but leaves out series of other programs that have no such label."""
    return _query(name, label, source, scraped=scraped).include_all(True).all_value(".+").current(_ALL)


def _query(name: str, label: str, source: str, *, scraped: bool = False) -> dashboard.QueryVariable:
    if not scraped and name not in FAMILY[source].labels:
        raise ValueError(f"{source} has no label {name}")
    found = dashboard.QueryVariable(name).label(label).datasource(DATASOURCE).query(f"label_values({source}, {name})")
    return found.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)


# Annotations.


def _alerts() -> dashboard.AnnotationQuery:
    return _annotation("Alerts", RED, f'ALERTS{{alertstate="firing", alertname=~"{ALERTS}"}}')


def _reloads() -> dashboard.AnnotationQuery:
    at = family("goodput_exporter_config_last_reload_success_timestamp_seconds")
    return _annotation("Reloads", "blue", f"changes({at}[2m]) > 0")


def _refused_reloads() -> dashboard.AnnotationQuery:
    return _annotation("Refused reloads", ORANGE, family("goodput_exporter_config_last_reload_successful").is_(0).text)


def _annotation(name: str, color: str, expr: str) -> dashboard.AnnotationQuery:
    found = dashboard.AnnotationQuery().name(name).enable(True).icon_color(color).expr(expr)
    return found.datasource(DataSourceRef(type_val="prometheus", uid="${datasource}"))

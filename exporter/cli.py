"""The command line. Each command imports what it needs when it runs, so that `--help` and `serve` start fast."""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

if TYPE_CHECKING:
    from exporter.config import Settings
    from exporter.pipeline import Sealed
    from exporter.rulefiles import Made
    from slo_rules.document import Problem

WRONG_USE: Final = 2
LEVELS: Final = ("debug", "info", "warn", "error")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="goodput-exporter")
def main() -> None:
    """Latency, goodput and SLO verdicts of LLM services, from their OpenTelemetry spans."""


def files(command: Callable[..., None]) -> Callable[..., None]:
    """The options that name the user's files."""
    slo = click.option("--slo.file", "slo_files", multiple=True, metavar="FILE", help="SLO file; may be repeated.")
    config = click.option("--config.file", "config_file", metavar="FILE", help="Configuration file.")
    return config(slo(command))


@main.command(epilog="Example: goodput-exporter serve --slo.file slo.yaml")
@files
@click.option("--web.listen-address", "listen", metavar="[HOST]:PORT", help="Where metrics are read; default :9464.")
@click.option("--web.enable-lifecycle", "lifecycle", is_flag=True, help="Allow POST /-/reload.")
@click.option("--log.level", "level", type=click.Choice(LEVELS), default="info", show_default=True)
@click.option("--log.format", "log_format", type=click.Choice(["logfmt", "json"]), default="logfmt", show_default=True)
def serve(
    config_file: str | None,
    slo_files: tuple[str, ...],
    listen: str | None,
    lifecycle: bool,
    level: str,
    log_format: str,
) -> None:
    """Receive spans and publish metrics until SIGTERM or Ctrl-C; SIGHUP reads the files anew."""
    from exporter.serve import Files, run

    _log(level, log_format)
    sys.exit(run(Files(config=config_file, slos=slo_files), _overrides(listen, lifecycle)))


def _overrides(listen: str | None, lifecycle: bool) -> "Callable[[Settings], Settings]":
    """What the command line says wins over the file."""
    from exporter.config import Address

    address = None
    if listen is not None:
        host, colon, port = listen.rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65535:
            raise click.BadParameter(f"must be [HOST]:PORT, found {listen}", param_hint="--web.listen-address")
        address = Address(host.strip("[]"), int(port))

    def adjust(settings: "Settings") -> "Settings":
        web = settings.web
        if address is not None:
            web = replace(web, listen=address)
        return replace(settings, web=replace(web, enable_lifecycle=web.enable_lifecycle or lifecycle))

    return adjust


def _log(level: str, log_format: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines(log_format))
    logging.basicConfig(level={"warn": "WARNING"}.get(level, level.upper()), handlers=[handler])


class _Lines(logging.Formatter):
    """One line a record, whatever the message holds."""

    def __init__(self, log_format: str) -> None:
        super().__init__()
        self._json = log_format == "json"

    def format(self, record: logging.LogRecord) -> str:
        time = self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z")
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + self.formatException(record.exc_info)
        if self._json:
            return json.dumps({"time": time, "level": record.levelname.lower(), "msg": message})
        return f"time={time} level={record.levelname.lower()} msg={json.dumps(message, ensure_ascii=False)}"


@main.command(epilog="Example: goodput-exporter replay --slo.file slo.yaml recorded/ --requests requests.jsonl")
@click.argument("paths", nargs=-1, required=True, metavar="FILE_OR_FOLDER...")
@files
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--requests", "requests_file", metavar="OUT.jsonl", help="Write a row per request and boundary.")
@click.option("--lateness", default="10m", show_default=True, help="How far spans may be out of order.")
def replay(
    paths: tuple[str, ...], config_file: str | None, slo_files: tuple[str, ...], as_json: bool,
    requests_file: str | None, lateness: str,
) -> None:  # fmt: skip
    """Run recorded OTLP through the pipeline, in event time, and report."""
    from exporter.pipeline import Pipeline
    from exporter.replay import Unreadable, rows_of
    from exporter.serve import Files, read_files
    from slo_rules.document import Problems
    from slo_rules.units import parse_duration

    try:
        lateness_ns = parse_duration(lateness)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--lateness") from error
    with ExitStack() as stack:
        try:
            declared = read_files(Files(config=config_file, slos=slo_files), os.environ)
            sealed: Sealed | None = None
            if requests_file is not None:
                out = stack.enter_context(open(requests_file, "w", encoding="utf-8"))

                def sealed(request: Any, judged: Any) -> None:
                    for row in rows_of(request, judged, pipeline.tally):
                        out.write(json.dumps(row) + "\n")

            pipeline = Pipeline(*declared, replay=True, lateness_ns=lateness_ns, sealed=sealed)
            lost = _replay(pipeline, paths)
        except (Problems, Unreadable, OSError) as error:
            _fail(str(error))
    _print_report(pipeline.report(), as_json)
    if lost:
        click.echo(f"{lost} {'body was' if lost == 1 else 'bodies were'} not OTLP and left out", err=True)
        sys.exit(1)


def _replay(pipeline: Any, paths: tuple[str, ...]) -> int:
    """Feed every body; how many were not OTLP. What is wrong with one is told on standard error, and costs only it."""
    from exporter.replay import bodies, feed, files_of

    found, lost = files_of(paths), 0
    with _progress(sum(path.stat().st_size for path in found if path.exists())) as advance:
        for path in found:
            for body in bodies(path):
                taken, fault = feed(pipeline, body)
                lost += not taken
                if fault:
                    click.echo(fault, err=True)
                advance(len(body.content))
    pipeline.finish()
    return lost


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar, in a terminal and for what is large enough to take a while."""
    if total < 20 * 2**20 or not sys.stderr.isatty():
        yield lambda size: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("replay"), BarColumn(), TextColumn("{task.percentage:.0f} %"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("replay", total=total)
        yield lambda size: progress.advance(task, size)


def _print_report(report: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(report, indent=2, sort_keys=True))
        return
    from rich.console import Console

    from exporter.expose.terminal import show

    console = Console(width=None if sys.stdout.isatty() else 110)
    show(report, console)


@main.command(epilog="Example: goodput-exporter check config.yaml slo.yaml my/profile.yaml")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
def check(paths: tuple[str, ...]) -> None:
    """Report every mistake in configuration, SLO and profile files; exit code 1 if there is any.

    What is allowed but can hardly be meant is a warning, which leaves the exit code at 0.
    """
    from exporter.check import check_files
    from slo_rules.document import Problem

    warnings: list[Problem] = []
    problems = check_files(paths, os.environ, warnings)
    _warn(warnings)
    for problem in problems:
        click.echo(str(problem))
    if problems:
        sys.exit(1)
    click.echo(f"{len(paths)} {'file' if len(paths) == 1 else 'files'} without a mistake", err=True)


def rule_options(command: Callable[..., None]) -> Callable[..., None]:
    """The arguments and options of what is made of SLO files for Prometheus."""
    for option in (
        click.option("--runbook-url", default="", metavar="URL", help="Link of alerts; {alert} and {slo} stand in it."),
        click.option("--scrape-interval", default="15s", show_default=True, help="How often the exporter is scraped."),
        click.option("--config.file", "config_file", metavar="FILE", help="Configuration file, with alert windows."),
        click.argument("slo_files", nargs=-1, required=True, metavar="FILE..."),
    ):
        command = option(command)
    return command


@main.group()
def rules() -> None:
    """Prometheus rules and alerts from SLO files."""


@rules.command(epilog="Example: goodput-exporter rules generate slo.yaml > goodput.rules.yml")
@rule_options
@click.option(
    "--format",
    "form",
    type=click.Choice(["prometheus", "operator"]),
    default="prometheus",
    show_default=True,
    help="A rule file, or a PrometheusRule object of the Prometheus operator.",
)
@click.option("--name", default="goodput-exporter", show_default=True, help="Name of the PrometheusRule object.")
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="Label of the PrometheusRule object.")
@click.option("--output", metavar="FILE", help="Where to write; standard output if left out.")
def generate(
    slo_files: tuple[str, ...], config_file: str | None, scrape_interval: str, runbook_url: str, form: str,
    name: str, labels: tuple[str, ...], output: str | None,
) -> None:  # fmt: skip
    """Write recording and alerting rules for the SLOs of some files."""
    from slo_rules.rules import write_operator, write_prometheus

    bad = next((label for label in labels if not label.partition("=")[0] or "=" not in label), None)
    if bad is not None:
        raise click.BadParameter(f"must be NAME=VALUE, found {bad}", param_hint="--label")
    made = _made(slo_files, config_file, scrape_interval, runbook_url)
    pairs = {key: value for key, _, value in (label.partition("=") for label in labels)}
    text = write_operator(made.rules, name, pairs) if form == "operator" else write_prometheus(made.rules)
    if output is None:
        click.echo(text, nl=False)
    else:
        _write_file(output, text)


@rules.command(epilog="Example: goodput-exporter rules test slo.yaml")
@rule_options
@click.option("--output", metavar="FOLDER", help="Keep the rules and their tests there.")
@click.option("--promtool", default="promtool", show_default=True, metavar="PROGRAM", help="Prometheus' own tester.")
def test(
    slo_files: tuple[str, ...], config_file: str | None, scrape_interval: str, runbook_url: str,
    output: str | None, promtool: str,
) -> None:  # fmt: skip
    """Write unit tests that make each alert fire, stay silent and resolve, and run them with promtool."""
    from tempfile import TemporaryDirectory

    from exporter.rulefiles import run_promtool

    made = _made(slo_files, config_file, scrape_interval, runbook_url)
    with ExitStack() as stack:
        folder = output if output is not None else stack.enter_context(TemporaryDirectory())
        try:
            tests = made.write(folder)
            answer = run_promtool(promtool, folder, tests)
        except OSError as error:
            _fail(str(error))
    kept = "" if output is None else f" in {output}"
    if answer is None:
        click.echo(
            f"{len(tests)} test files{kept} not run: there is no {promtool} (Debian: package prometheus)", err=True
        )
        return
    click.echo(answer.output, nl=False)
    if not answer.passed:
        sys.exit(1)
    click.echo(f"{len(tests)} test files{kept} passed", err=True)


def _made(slo_files: tuple[str, ...], config_file: str | None, scrape_interval: str, runbook_url: str) -> "Made":
    """Rules and tests, or the end of the program with all that is wrong."""
    from exporter.rulefiles import make
    from exporter.serve import Files
    from slo_rules.document import Problems
    from slo_rules.rules import RangeTooShort
    from slo_rules.units import parse_duration

    try:
        interval_ns = parse_duration(scrape_interval)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--scrape-interval") from error
    try:
        files = Files(config=config_file, slos=slo_files)
        made = make(files, interval_ns, runbook_url, os.environ)
    except (Problems, RangeTooShort) as error:
        _fail(str(error))
    for each in made.rules.left_out:
        click.echo(f"left out: {each}", err=True)
    return made


def _write_file(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        _fail(str(error))


@main.command(epilog="Example: goodput-exporter demo")
@click.option("--seed", default=1, show_default=True, help="Another seed, another order of requests.")
@click.option("--otlp", "host", metavar="HOST", help="Only send, for ever, to an exporter's ports 4317 and 4318 there.")
def demo(seed: int, host: str | None) -> None:
    """Watch a simulated gateway, queue and model server go through a surge and recover: about a minute."""
    try:
        import asyncio

        from rich.console import Console

        from exporter.demo.run import Elsewhere, load, run

        if host is None:
            sys.exit(asyncio.run(run(seed=seed, console=Console())))
        elsewhere = Elsewhere(grpc_url=f"http://{host}:4317", http_url=f"http://{host}:4318")
        sys.exit(asyncio.run(load(elsewhere, seed=seed, console=Console())))
    except KeyboardInterrupt:
        sys.exit(0)


@main.group()
def slo() -> None:
    """Translate SLOs from and to the formats of others. What cannot be carried over is named on standard error."""


@slo.command("import", epilog="Example: goodput-exporter slo import openslo/*.yaml > slo.yaml")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
@click.option("--config.file", "config_file", metavar="FILE", help="Configuration file, for boundaries of your own.")
def import_(paths: tuple[str, ...], config_file: str | None) -> None:
    """Print the SLOs of OpenSLO v1 files as an SLO file; exit code 1 if any SLO is left out."""
    from exporter.serve import Files, read_files, read_text
    from slo_rules.document import Problem, Problems, read
    from slo_rules.openslo import import_slos, read_objects
    from slo_rules.vocabulary import BOUNDARIES
    from slo_rules.write import document_of, write_documents

    try:
        settings = read_files(Files(config=config_file), os.environ).settings
        problems: list[Problem] = []
        warnings: list[Problem] = []
        nodes = [node for path in paths for node in read(read_text(path, problems), path, problems, None, warnings)]
        own = (boundary.name for boundary in settings.boundaries)
        found = import_slos(read_objects(nodes), (*BOUNDARIES, *own), settings.alerts.burn)
        if problems:
            raise Problems(problems)
    except Problems as error:
        _fail(str(error))
    click.echo(write_documents(map(document_of, found.slos)), nl=False)
    _warn(warnings, err=True)
    for each in found.left_out:
        click.echo(str(each), err=True)
    if any(each.what.startswith("SLO ") for each in found.left_out):
        sys.exit(1)


@slo.command("export", epilog="Example: goodput-exporter slo export slo.yaml --format openslo")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
@click.option("--config.file", "config_file", metavar="FILE", help="Configuration file, for boundaries of your own.")
@click.option("--format", "format_", type=click.Choice(["openslo", "sloth"]), default="openslo", show_default=True)
def export(paths: tuple[str, ...], config_file: str | None, format_: str) -> None:
    """Print the SLOs of SLO files in another format; exit code 1 if any SLO is left out."""
    from exporter.serve import Files, read_files
    from slo_rules import openslo, sloth
    from slo_rules.document import Problems
    from slo_rules.write import dump

    try:
        slos = read_files(Files(config=config_file, slos=paths), os.environ).slos
    except Problems as error:
        _fail(str(error))
    documents, left_out = (openslo if format_ == "openslo" else sloth).export_slos(slos)
    click.echo(dump(documents) if documents else "", nl=False)
    for each in left_out:
        click.echo(str(each), err=True)
    if any(each.what.startswith("SLO ") for each in left_out):
        sys.exit(1)


@main.group("dashboards")
def dashboards_() -> None:
    """Grafana dashboards."""


@dashboards_.command(
    "generate", epilog="Example: goodput-exporter dashboards generate --slo.file slo.yaml --out grafana"
)
@files
@click.option("--out", "folder", required=True, metavar="FOLDER", help="Where to write; made if it is not there.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "provisioning", "configmap"]),
    default="json",
    show_default=True,
    help="Files to import, a provisioning folder of Grafana, or ConfigMaps for its sidecar.",
)
@click.option("--tracing-url", default="http://localhost:16686", show_default=True, help="Where traces are looked at.")
@click.option(
    "--prometheus-url", default="http://prometheus:9090", show_default=True, help="Data source of the provisioning."
)
def generate_dashboards(
    config_file: str | None, slo_files: tuple[str, ...], folder: str, form: str, tracing_url: str, prometheus_url: str
) -> None:
    """Write the dashboards. SLO files, if given, fill the choice of SLOs and windows, and are put into words."""
    from exporter.serve import Files, read_files
    from slo_rules.document import Problems

    try:
        from dashboards.frame import Settings
        from dashboards.write import write
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("grafana_foundation_sdk"):
            raise
        _fail("needs grafana-foundation-sdk: pip install 'goodput-exporter[dashboards]'")
    try:
        slos = read_files(Files(config=config_file, slos=slo_files), os.environ).slos
        settings = Settings(slos=slos, tracing_url=tracing_url.rstrip("/"), prometheus_url=prometheus_url)
        for path in write(form, settings, folder):
            click.echo(str(path))
    except (Problems, OSError) as error:
        _fail(str(error))


@main.command(epilog="Example: goodput-exporter health --url http://127.0.0.1:9464")
@click.option("--url", default="http://127.0.0.1:9464", show_default=True)
def health(url: str) -> None:
    """Whether a running exporter is ready; exit code 1 if it is not. For container health checks."""
    from urllib.error import URLError
    from urllib.request import urlopen

    try:
        with urlopen(f"{url.rstrip('/')}/-/ready", timeout=5) as answer:
            click.echo(answer.read().decode().strip())
    except (URLError, OSError, ValueError) as error:
        click.echo(f"{url}: {error}", err=True)
        sys.exit(1)


def _warn(warnings: "Iterable[Problem]", *, err: bool = False) -> None:
    for warning in sorted(dict.fromkeys(warnings)):
        click.echo(f"warning: {warning}", err=err)


def _fail(message: str) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(WRONG_USE)

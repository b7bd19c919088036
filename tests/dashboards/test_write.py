"""What `dashboards generate` writes: the committed files to the byte, and forms that Grafana and Kubernetes take."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from dashboards.frame import Settings
from dashboards.write import configmaps, plain, provisioning
from exporter.cli import main
from tests.dashboards.boards import CHAT, boards, slos
from tests.e2e.programs import environment

NAMES = ["on-call.json", "anatomy.json", "capacity.json", "exporter-health.json"]


def generate(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["dashboards", "generate", *arguments])


def run_python(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False, env=environment()
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_dashboards_are_what_is_generated(name: str, checkout: Path) -> None:
    assert (checkout / "dashboards" / "generated" / name).read_text(encoding="utf-8") == plain(Settings())[name]


def test_uids_stay_as_links_hold_them() -> None:
    uids = [board["uid"] for board in boards().values()]
    assert uids == ["goodput-on-call", "goodput-anatomy", "goodput-capacity", "goodput-exporter-health"]


def test_the_command_writes_files_to_import(tmp_path: Path) -> None:
    done = generate("--out", str(tmp_path / "new"))
    assert done.exit_code == 0
    assert done.output.split() == [str(tmp_path / "new" / name) for name in NAMES]
    assert {name: (tmp_path / "new" / name).read_text() for name in NAMES} == plain(Settings())


def test_a_provisioning_folder_names_dashboards_where_they_are_mounted() -> None:
    files = provisioning(Settings())
    (provider,) = yaml.safe_load(files["dashboards/goodput.yaml"])["providers"]
    folder = provider["options"]["path"].removeprefix("/etc/grafana/provisioning/")
    assert {f"{folder}/{name}": text for name, text in plain(Settings()).items()}.items() <= files.items()


def test_a_provisioned_data_source_leads_from_exemplars_to_traces() -> None:
    settings = Settings(tracing_url="https://traces.example", prometheus_url="http://prometheus.example")
    (source,) = yaml.safe_load(provisioning(settings)["datasources/goodput.yaml"])["datasources"]
    assert source["url"] == "http://prometheus.example"
    (link,) = source["jsonData"]["exemplarTraceIdDestinations"]
    # Two dollars: provisioning takes one for the environment's.
    assert (link["name"], link["url"]) == ("trace_id", "https://traces.example/trace/$${__value.raw}")


def test_configmaps_are_labelled_for_the_sidecar_and_hold_the_dashboards() -> None:
    objects = [yaml.safe_load(text) for text in configmaps(Settings()).values()]
    assert {each["metadata"]["labels"]["grafana_dashboard"] for each in objects} == {"1"}
    assert all(each["kind"] == "ConfigMap" and len(each["metadata"]["name"]) <= 63 for each in objects)
    held = {name.removeprefix("goodput-"): text for each in objects for name, text in each["data"].items()}
    assert held == plain(Settings())


def test_slo_files_fill_the_choices_and_are_put_into_words(tmp_path: Path) -> None:
    (tmp_path / "slo.yaml").write_text(CHAT)
    assert generate("--slo.file", str(tmp_path / "slo.yaml"), "--out", str(tmp_path / "out")).exit_code == 0
    board = json.loads((tmp_path / "out" / "on-call.json").read_text())
    variables = {each["name"]: each for each in board["templating"]["list"]}
    assert [option["value"] for option in variables["slo"]["options"]] == ["$__all", "chat"]
    assert variables["window"]["current"]["value"] == "10m"
    (words,) = [panel for panel in board["panels"] if panel["type"] == "text"]
    assert words["options"]["content"].splitlines()[-1] == (
        "| chat | Answers start within a second. ttft p95 ≤ 1s at end_to_end, tpot p95 ≤ 50ms at model."
        " 99 % of requests meet every limit. |"
    )


def test_a_bad_slo_file_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "slo.yaml").write_text(CHAT.replace("percentile: 95", "percentile: 0.95"))
    done = generate("--slo.file", str(tmp_path / "slo.yaml"), "--out", str(tmp_path / "out"))
    assert done.exit_code == 2
    assert "slo.yaml:7:" in done.output
    assert not (tmp_path / "out").exists()


def test_dashboards_with_slos_are_the_same_but_for_choices_and_words() -> None:
    named, unnamed = plain(Settings(slos=slos())), plain(Settings())
    assert named["exporter-health.json"] == unnamed["exporter-health.json"]
    asked = [
        [panel.get("targets") for panel in json.loads(each["on-call.json"])["panels"] if panel["type"] != "text"]
        for each in (named, unnamed)
    ]
    assert asked[0] == asked[1]


def test_without_the_sdk_the_command_names_what_to_install(tmp_path: Path) -> None:
    done = run_python(
        "import sys; sys.modules['grafana_foundation_sdk'] = None\n"
        f"from exporter.cli import main; main(['dashboards', 'generate', '--out', {str(tmp_path)!r}])"
    )
    assert done.returncode == 2
    assert done.stderr == "needs grafana-foundation-sdk: pip install 'goodput-exporter[dashboards]'\n"


def test_the_running_exporter_imports_nothing_of_dashboards() -> None:
    done = run_python(
        "import sys, exporter.cli, exporter.serve, exporter.replay, exporter.demo.run\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('dashboards', 'grafana_foundation_sdk')])"
    )
    assert done.stdout == "[]\n"

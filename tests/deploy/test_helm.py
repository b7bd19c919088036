"""The chart: rendered by Helm's own code, compared with what was last looked at, and checked as the cluster would.

After a change that is meant: `UPDATE_GOLDEN=1 pytest tests/deploy/test_helm.py`, and read the difference.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from exporter.serve import Files, read_files
from tests.deploy.manifests import (
    VERSIONS,
    Object,
    listens,
    loose_ends,
    name,
    objects,
    port_numbers,
    templates,
    unrestricted,
    validate,
)

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "goodput-exporter"
GOLDEN = ROOT / "tests" / "golden" / "helm"
SIDECAR: Object = {
    "mode": "sidecar",
    "image": {"repository": "registry.example.org/goodput-exporter"},
    "podMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True},
    "dashboards": {"enabled": True},
}
FULL: Object = yaml.safe_load((Path(__file__).parent / "full-values.yaml").read_text(encoding="utf-8"))
CASES: dict[str, Object] = {
    "default": {},
    "full": FULL,
    "sidecar": SIDECAR,
    "full-sidecar": {**FULL, "mode": "sidecar"},
}


def rendered(values: Object) -> dict[str, str]:
    """Text by the name of its template. Raises HelmError for values that the schema refuses."""
    with helm_python.Chart.load(str(CHART)) as chart:
        chart.validate_schema(values)
        found: dict[str, str] = chart.render(values, name="goodput", namespace="llm")
    return {path.partition("templates/")[2]: text for path, text in sorted(found.items())}


def made(values: Object) -> list[Object]:
    return [each for path, text in rendered(values).items() if path.endswith(".yaml") for each in objects(text)]


def one(found: list[Object], wanted: str) -> Object:
    return next(each for each in found if name(each) == wanted)


def test_helm_has_no_complaint() -> None:
    messages = helm_python.lint(str(CHART))["messages"]
    assert [each for each in messages if each["error"] != "icon is recommended"] == []


@pytest.mark.parametrize("case", CASES)
def test_it_renders_what_was_last_looked_at(case: str) -> None:
    # Rules and dashboards are compared with the generated ones, below.
    left = {path: text for path, text in rendered(CASES[case]).items() if path != "dashboards.yaml" and text.strip()}
    if not CASES[case].get("slo"):
        left.pop("prometheusrule.yaml", None)
    text = "".join(f"# {path}\n{text.strip()}\n" for path, text in left.items())
    golden = GOLDEN / f"{case}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", CASES)
def test_every_object_is_what_its_schema_says(case: str, version: str) -> None:
    for each in made(CASES[case]):
        validate(each, version)


def test_every_value_is_tried_with_another_than_its_default() -> None:
    defaults = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert FULL.keys() == defaults.keys() == schema["properties"].keys() - {"global"}


@pytest.mark.parametrize(
    "values", [{"modes": "sidecar"}, {"mode": "daemonset"}, {"image": {"tags": "1"}}, {"replicaCount": "three"}]
)
def test_values_that_mean_nothing_are_refused(values: Object) -> None:
    with pytest.raises(helm_python.HelmError):
        rendered(values)


@pytest.mark.parametrize("case", ["default", "full"])
def test_nothing_refers_to_what_is_not_there_and_pods_are_restricted(case: str) -> None:
    found = made(CASES[case])
    assert [end for end in loose_ends(found) if "ConfigMap/profiles" not in end] == []
    assert [fault for _, pod in templates(found) for fault in unrestricted(pod)] == []


@pytest.mark.parametrize("case", CASES)
def test_the_exporter_takes_its_files(case: str, tmp_path: Path) -> None:
    files = one(made(CASES[case]), f"ConfigMap/{'slo-watch' if 'full' in case else 'goodput-goodput-exporter'}")
    for file, text in files["data"].items():
        (tmp_path / file).write_text(text)
    found = read_files(Files(config=str(tmp_path / "config.yaml"), slos=(str(tmp_path / "slo.yaml"),)), {})
    assert found.settings.receive.grpc.host == ("127.0.0.1" if "sidecar" in case else "")
    assert found.settings.receive.max_body == (4 if "full" in case else 20) * 2**20
    assert [slo.name for slo in found.slos] == (["fast"] if "full" in case else ["chat", "engine"])
    if "sidecar" in case:
        patch = next(each for each in made(CASES[case]) if name(each).endswith("-sidecar"))["data"]["patch.yaml"]
        (container,) = yaml.safe_load(patch)["spec"]["template"]["spec"]["initContainers"]
    else:
        (container,) = next(pod for whose, pod in templates(made(CASES[case])) if "Deployment" in whose)["spec"][
            "containers"
        ]
    assert port_numbers(container) == listens(found.settings)


def test_rules_and_dashboards_are_the_generated_ones() -> None:
    found = made(SIDECAR)
    generated = yaml.safe_load((ROOT / "deploy/kustomize/base/prometheusrule.yaml").read_text(encoding="utf-8"))
    assert one(found, "PrometheusRule/goodput-goodput-exporter")["spec"] == generated["spec"]
    boards = {path.name: path.read_text() for path in (ROOT / "dashboards" / "generated").glob("*.json")}
    maps = [each for each in found if each["metadata"]["labels"].get("grafana_dashboard") == "1"]
    assert {file: text for each in maps for file, text in each["data"].items()} == boards


@pytest.mark.parametrize(
    "rules", ["no rules", "{kind: PrometheusRule, spec: {groups: [{name: a, rules: []}]}}", "a: [b"]
)
def test_rules_without_groups_are_refused_and_not_rendered_as_none(rules: str) -> None:
    with pytest.raises(helm_python.HelmError, match="rules generate"):
        rendered({"prometheusRule": {"enabled": True, "rules": rules}})


def test_own_slos_without_their_rules_are_refused_with_the_command_that_makes_them() -> None:
    with pytest.raises(helm_python.HelmError, match="rules generate"):
        rendered({"slo": FULL["slo"], "prometheusRule": {"enabled": True}})


@pytest.mark.parametrize("change", [{"config": {"join": {"grace": "5s"}}}, {"slo": FULL["slo"]}])
def test_a_change_of_the_files_starts_new_pods(change: Object) -> None:
    def checksum(values: Object) -> Any:
        pod = one(made(values), "Deployment/goodput-goodput-exporter")["spec"]["template"]
        return pod["metadata"]["annotations"]["checksum/config"]

    assert checksum(change) != checksum({})
    assert checksum({"replicaCount": 2}) == checksum({})


@pytest.mark.needs("kustomize")
def test_the_patch_makes_of_a_model_server_what_the_plain_manifests_have(tmp_path: Path) -> None:
    patch = yaml.safe_load(one(made(SIDECAR), "ConfigMap/goodput-goodput-exporter-sidecar")["data"]["patch.yaml"])
    (mine,) = patch["spec"]["template"]["spec"]["initContainers"]
    command = ["kustomize", "build", str(ROOT / "deploy" / "kustomize" / "overlays" / "sidecar")]
    found = objects(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    theirs = one(found, "Deployment/vllm")["spec"]["template"]["spec"]["initContainers"][0]
    differ = {key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key)}
    # Where files are mounted, and where the image is from.
    assert differ == {"args", "image", "imagePullPolicy", "volumeMounts"}

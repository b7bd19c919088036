"""The plain manifests: each overlay is built by kustomize and looked at as the cluster would."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from exporter.serve import Declared, Files, read_files
from tests.deploy.manifests import (
    VERSIONS,
    Object,
    containers,
    listens,
    loose_ends,
    name,
    objects,
    port_numbers,
    selects,
    templates,
    unrestricted,
    validate,
)

OVERLAYS = ("sidecar", "gateway", "queue")
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.needs("kustomize")


@cache
def built(overlay: str) -> list[Object]:
    command = ["kustomize", "build", str(ROOT / "deploy" / "kustomize" / "overlays" / overlay)]
    return objects(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def one(overlay: str, wanted: str) -> Object:
    return next(each for each in built(overlay) if name(each) == wanted)


def exporter_of(overlay: str) -> tuple[Object, Object]:
    """The pod with the exporter, and its container."""
    for _, pod in templates(built(overlay)):
        for each in containers(pod):
            if each["name"] == "goodput-exporter":
                return pod, each
    raise AssertionError(f"no exporter in {overlay}")


def declared(overlay: str, folder: Path) -> Declared:
    """What the exporter reads there: the files of its volumes, by the names of its arguments."""
    pod, container = exporter_of(overlay)
    volumes = {
        volume["name"]: volume["configMap"]["name"] for volume in pod["spec"]["volumes"] if "configMap" in volume
    }
    for mount in container["volumeMounts"]:
        inside = folder / mount["mountPath"].strip("/")
        inside.mkdir(parents=True)
        for file, text in one(overlay, f"ConfigMap/{volumes[mount['name']]}")["data"].items():
            (inside / file).write_text(text)
    command, *options = container["args"]
    assert command == "serve"
    given = dict(option.split("=") for option in options)
    path = {key: str(folder / value.strip("/")) for key, value in given.items()}
    return read_files(Files(config=path["--config.file"], slos=(path["--slo.file"],)), {})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_object_is_what_its_schema_says(overlay: str, version: str) -> None:
    assert len(built(overlay)) > 10
    for each in built(overlay):
        validate(each, version)


def test_a_key_or_a_kind_that_no_schema_knows_is_refused() -> None:
    monitor = one("sidecar", "PodMonitor/goodput-exporter")
    endpoint = {"port": "goodput", "intervall": "15s"}
    with pytest.raises(jsonschema.ValidationError, match="intervall"):
        validate({**monitor, "spec": {**monitor["spec"], "podMetricsEndpoints": [endpoint]}}, VERSIONS[0])
    service = one("sidecar", "Service/vllm")
    with pytest.raises(kubernetes_validate.ValidationError, match="prots"):
        validate({**service, "spec": {"prots": []}}, VERSIONS[0])
    with pytest.raises(kubernetes_validate.SchemaNotFoundError):
        validate({**monitor, "kind": "PodMonitors"}, VERSIONS[0])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nothing_refers_to_what_is_not_there(overlay: str) -> None:
    assert loose_ends(built(overlay)) == []


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_is_restricted_and_has_measured_needs(overlay: str) -> None:
    for where, pod in templates(built(overlay)):
        assert unrestricted(pod) == [], where
        assert pod["spec"]["automountServiceAccountToken"] is False, where
        for each in containers(pod):
            assert {"cpu", "memory"} <= each["resources"]["requests"].keys(), where
            assert "memory" in each["resources"]["limits"], where


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_exporter_takes_the_files_that_it_is_given(overlay: str, tmp_path: Path) -> None:
    found = declared(overlay, tmp_path)
    assert [slo.name for slo in found.slos] == ["chat", "engine"]
    assert found.settings.labels.model_default == "Qwen/Qwen3-8B"
    assert port_numbers(exporter_of(overlay)[1]) == listens(found.settings)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_pod_has_time_for_the_last_scrape(overlay: str, tmp_path: Path) -> None:
    grace_s = declared(overlay, tmp_path).settings.stop.grace_ns / 1e9
    pod, _ = exporter_of(overlay)
    monitors = [each for each in built(overlay) if each["kind"] in ("PodMonitor", "ServiceMonitor")]
    endpoints: list[Any] = [each for one in monitors for each in one["spec"].get("endpoints", [])]
    endpoints += [each for one in monitors for each in one["spec"].get("podMetricsEndpoints", [])]
    assert {each["interval"] for each in endpoints} == {"15s"}
    assert grace_s * 0.6 > 15  # what is left of it when the spans are in
    assert grace_s < pod["spec"]["terminationGracePeriodSeconds"] - 15


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_exporter_that_others_can_reach_is_guarded(overlay: str, tmp_path: Path) -> None:
    receive = declared(overlay, tmp_path).settings.receive
    pod, container = exporter_of(overlay)
    if overlay == "sidecar":
        assert receive.grpc.host == receive.http.host == "127.0.0.1"
        assert port_numbers(container).keys() == {"goodput"}
    else:
        assert receive.grpc.host == receive.http.host == ""
    policies = [each["spec"] for each in built(overlay) if each["kind"] == "NetworkPolicy"]
    guards = [each for each in policies if selects(each["podSelector"]["matchLabels"], pod["metadata"]["labels"])]
    assert len(guards) == 1
    rules = guards[0]["ingress"]
    opened = {port["port"]: rule.get("from") for rule in rules for port in rule["ports"]}
    assert all(opened[port] for port in opened if port != "llm")  # requests may come from anywhere


@pytest.mark.parametrize("overlay", ["gateway", "queue"])
def test_whoever_is_told_to_send_spans_is_let_through(overlay: str) -> None:
    policy = one(overlay, "NetworkPolicy/goodput-exporter")["spec"]
    (sender,) = policy["ingress"][0]["from"]
    for where, pod in templates(built(overlay)):
        told = [each for each in containers(pod) if "goodput-exporter:4317" in str(each)]
        told += [each for each in containers(pod) if each["name"] == "envoy"]
        assert bool(told) == selects(sender["podSelector"]["matchLabels"], pod["metadata"]["labels"]), where


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_envoy_listens_where_its_port_is_and_sends_where_the_exporter_listens(overlay: str, tmp_path: Path) -> None:
    (config,) = [each for each in built(overlay) if name(each).startswith("ConfigMap/envoy-")]
    resources = yaml.safe_load(config["data"]["envoy.yaml"])["static_resources"]
    (envoy,) = [each for _, pod in templates(built(overlay)) for each in containers(pod) if each["name"] == "envoy"]
    assert port_numbers(envoy) == {"llm": resources["listeners"][0]["address"]["socket_address"]["port_value"]}
    places = {
        cluster["name"]: cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]
        for cluster in resources["clusters"]
    }
    found = {key: tuple(place["socket_address"].values()) for key, place in places.items()}
    receive = declared(overlay, tmp_path).settings.receive
    here = overlay == "sidecar"
    assert found["goodput"] == ("127.0.0.1" if here else "goodput-exporter", receive.grpc.port)
    assert found["model"] == ("127.0.0.1" if here else "vllm", 8000)


def test_the_sidecar_starts_first_and_ends_last() -> None:
    pod, container = exporter_of("sidecar")
    assert [each["name"] for each in pod["spec"]["initContainers"]] == ["goodput-exporter", "envoy"]
    assert all(each["restartPolicy"] == "Always" for each in pod["spec"]["initContainers"])
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()


def test_spans_and_rules_are_about_the_shipped_files(checkout: Path) -> None:
    generated = {path.name: path.read_text() for path in (checkout / "dashboards" / "generated").glob("*.json")}
    maps = [each for each in built("sidecar") if each["metadata"].get("labels", {}).get("grafana_dashboard") == "1"]
    assert {file: text for each in maps for file, text in each["data"].items()} == generated
    envoy = next(each for each in built("sidecar") if name(each).startswith("ConfigMap/envoy-"))
    assert envoy["data"] == {"envoy.yaml": (checkout / "deploy" / "envoy" / "envoy.yaml").read_text()}
    groups = one("sidecar", "PrometheusRule/goodput-exporter")["spec"]["groups"]
    assert {"chat", "engine"} == {
        rule["labels"]["slo"] for each in groups for rule in each["rules"] if "slo" in rule.get("labels", {})
    }

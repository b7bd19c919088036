"""A newcomer's walk: the five commands of the README, exactly as printed, from a running vLLM to the first dashboard.

There is no cluster here: docker, helm and kubectl are those of without_cluster.py. Where `GOODPUT_KUBE_APISERVER` names
a kube-apiserver, and helm and kubectl are there, the real ones walk too, up to what only nodes and a registry can do.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.serve import Files, read_files
from tests.deploy.manifests import VERSIONS, Object, objects, selects, validate
from tests.deploy.test_apiserver import PROGRAM, Api, api, namespace  # noqa: F401
from tests.e2e.programs import environment

ROOT = Path(__file__).parents[2]
PROGRAMS = ("docker", "helm", "kubectl")


def commands() -> list[str]:
    """What stands in the first block of the README's section, a command a line."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Kubernetes\n")[1].split("\n## ")[0]
    block = section.split("```sh\n")[1].split("```")[0]
    return block.replace("\\\n", "").splitlines()


def model_server() -> Object:
    """The Deployment of somebody who has never heard of this."""
    found = objects((ROOT / "deploy/kustomize/base/vllm.yaml").read_text(encoding="utf-8"))
    return next(one for one in found if one["kind"] == "Deployment")


def walk(folder: Path, real: dict[str, str]) -> str:
    """Run the commands, with the real programs where given; what they print."""
    programs = folder / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        shim = f'exec "{sys.executable}" -P "{Path(__file__).with_name("without_cluster.py")}" {name} "{folder}" "$@"'
        if name in real:
            shim = f'case $1 in port-forward) {shim};; esac\nexec {real[name]} "$@"'
        (programs / name).write_text(f"#!/bin/sh\n{shim}\n")
        (programs / name).chmod(0o755)
    around = {**environment(), "PATH": f"{programs}:{os.environ['PATH']}"}
    script = "\n".join(["set -euo pipefail", *commands()])
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT,
        env=around,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def arrived(deployment: Object, monitor: Object, files: Object, folder: Path) -> None:
    """The model server has its sidecar, sends it spans, and is scraped; the exporter takes what it reads."""
    pod = deployment["spec"]["template"]
    (sidecar,) = pod["spec"]["initContainers"]
    assert sidecar["image"] == "registry.example.org/goodput-exporter:0.1.0"
    assert sidecar["restartPolicy"] == "Always"
    assert pod["spec"]["containers"][0]["args"][-1] == "--otlp-traces-endpoint=http://127.0.0.1:4317"
    assert selects(monitor["spec"]["selector"]["matchLabels"], pod["metadata"]["labels"])
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] in [each["name"] for each in sidecar["ports"]]
    for name, text in files["data"].items():
        (folder / name).write_text(text)
    found = read_files(Files(config=str(folder / "config.yaml"), slos=(str(folder / "slo.yaml"),)), {})
    assert found.settings.receive.grpc.host == "127.0.0.1"
    assert found.settings.labels.model_default == "llama-3-8b"


def test_there_are_five_of_them() -> None:
    assert [line.split()[0] for line in commands()] == ["docker", "helm", "kubectl", "kubectl", "kubectl"]


@pytest.mark.needs("kustomize")
def test_they_lead_from_a_running_vllm_to_a_dashboard(tmp_path: Path) -> None:
    cluster = tmp_path / "cluster"
    cluster.mkdir()
    (cluster / "deployment-vllm.yaml").write_text(yaml.safe_dump(model_server()))
    printed = walk(cluster, {})
    found = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in cluster.glob("*.yaml")}
    for one in found.values():
        validate(one, VERSIONS[-1])
    arrived(
        found["deployment-vllm"], found["podmonitor-goodput-exporter"], found["configmap-goodput-exporter"], tmp_path
    )
    labels = found["prometheusrule-goodput-exporter"]["metadata"]["labels"]
    assert labels["release"] == "prometheus"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (uid,) = re.findall(r"localhost:3000/d/([a-z-]+)>", readme)
    assert f"/d/{uid}" in printed
    boards = [
        json.loads(text) for one in found.values() for name, text in one.get("data", {}).items() if ".json" in name
    ]
    assert uid in {board["uid"] for board in boards}
    assert printed.endswith("Forwarding from 127.0.0.1:3000\n")


@pytest.mark.skipif(
    not (PROGRAM and all(map(shutil.which, ("etcd", "helm", "kubectl")))),
    reason="needs GOODPUT_KUBE_APISERVER, etcd, helm and kubectl",
)
def test_the_real_programs_walk_the_same_way(api: Api, tmp_path: Path) -> None:  # noqa: F811
    where = namespace(api, "newcomer")
    api.apply(model_server(), where)
    user = {"name": "u", "user": {"token": "tok"}}
    server = {"name": "c", "cluster": {"server": api.url, "insecure-skip-tls-verify": True}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": where}}
    config: Any = {"apiVersion": "v1", "kind": "Config", "users": [user], "clusters": [server], "contexts": [context]}
    (tmp_path / "config").write_text(yaml.safe_dump({**config, "current-context": "x"}))
    kubeconfig = f"env KUBECONFIG={tmp_path / 'config'}"
    walk(tmp_path, {name: f"{kubeconfig} {shutil.which(name)}" for name in ("helm", "kubectl")})
    deployment = api.ask("GET", f"/apis/apps/v1/namespaces/{where}/deployments/vllm")
    monitor = api.ask("GET", f"/apis/monitoring.coreos.com/v1/namespaces/{where}/podmonitors/goodput-exporter")
    arrived(deployment, monitor, api.ask("GET", f"/api/v1/namespaces/{where}/configmaps/goodput-exporter"), tmp_path)

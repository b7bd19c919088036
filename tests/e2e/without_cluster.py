"""docker, helm and kubectl for a machine without any of them, as far as a newcomer's walk needs them.

Run as `without_cluster.py PROGRAM FOLDER ARGUMENT...`. FOLDER stands for the cluster: one YAML file an object. Helm's
own code renders, kustomize patches as the API server would, and what is not understood fails. What docker builds is
built by tests/deploy/test_image.py; here the command only has to name files that are there.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import helm_python
import yaml


class Cluster:
    """Objects, by kind and name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, one: dict[str, Any]) -> None:
        path = self.folder / f"{one['kind'].lower()}-{one['metadata']['name']}.yaml"
        path.write_text(yaml.safe_dump(one), encoding="utf-8")

    def get(self, kind: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = yaml.safe_load((self.folder / f"{kind}-{name}.yaml").read_text(encoding="utf-8"))
        return found

    def patch(self, kind: str, name: str, patch: str) -> None:
        """A strategic merge patch, or a list of JSON operations."""
        target = {"kind": self.get(kind, name)["kind"], "name": name}
        parsed = yaml.safe_load(patch)
        if isinstance(parsed, dict):  # kustomize wants to read again what it patches
            about = {key: self.get(kind, name)[key] for key in ("apiVersion", "kind")}
            patch = yaml.safe_dump({**about, "metadata": {"name": name}, **parsed})
        file = self.folder / "kustomization.yaml"
        patches = [{"target": target, "patch": patch}]
        file.write_text(yaml.safe_dump({"resources": [f"{kind}-{name}.yaml"], "patches": patches}))
        command = ["kustomize", "build", str(self.folder)]
        self.put(yaml.safe_load(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        file.unlink()


class NotUnderstood(Exception):
    """A command that the README does not give."""


def docker(arguments: list[str], _: Cluster) -> None:
    match arguments:
        case ["build", "-f", file, "-t", image, "--push", context] if (Path(context) / file).is_file():
            print(f"built and pushed {image}")
        case _:
            raise NotUnderstood


def helm(arguments: list[str], cluster: Cluster) -> None:
    match arguments:
        case ["install", name, path, *settings] if settings[::2] == ["--set"] * (len(settings) // 2):
            values = helm_python.parse_set_string(",".join(settings[1::2]))
            with helm_python.Chart.load(path) as chart:
                chart.validate_schema(values)
                texts = chart.render(values, name=name, namespace="default")
            for where, text in texts.items():
                for one in yaml.safe_load_all(text) if where.endswith(".yaml") else ():
                    if one:
                        cluster.put(one)
            print(next(text for where, text in texts.items() if where.endswith("NOTES.txt")))
        case _:
            raise NotUnderstood


def kubectl(arguments: list[str], cluster: Cluster) -> None:
    match arguments:
        case ["get", "configmap", name, "-o", r"jsonpath={.data.patch\.yaml}"]:
            print(cluster.get("configmap", name)["data"]["patch.yaml"], end="")
        case ["patch", kind, name, "--patch", patch] | ["patch", kind, name, "--type", "json", "--patch", patch]:
            cluster.patch(kind, name, patch)
            print(f"{kind}.apps/{name} patched")
        case ["port-forward", "service/grafana", ports]:
            print(f"Forwarding from 127.0.0.1:{ports.partition(':')[0]}")
        case _:
            raise NotUnderstood


if __name__ == "__main__":
    program, folder, *rest = sys.argv[1:]
    try:
        {"docker": docker, "helm": helm, "kubectl": kubectl}[program](rest, Cluster(Path(folder)))
    except NotUnderstood:
        sys.exit(f"{program} {' '.join(rest)}: not understood")

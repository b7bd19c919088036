"""What a real API server says of it all: strict, server-side, in a namespace that admits only restricted pods.

Run where `GOODPUT_KUBE_APISERVER` names a kube-apiserver and Debian's etcd is there. There are no nodes: objects are
validated, admitted and stored. A warning fails the test. Deployments are stored whatever their pods look like, so each
pod template is applied as a Pod, too.
"""

import json
import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest
import yaml

from tests.deploy.manifests import CRDS, Object, name, objects, templates
from tests.deploy.test_helm import CASES, made
from tests.e2e.programs import free_port, until

ROOT = Path(__file__).parents[2]
PROGRAM = os.environ.get("GOODPUT_KUBE_APISERVER", "")
START_LIMIT_S = 120.0

pytestmark = [
    pytest.mark.skipif(not (PROGRAM and shutil.which("etcd")), reason="needs GOODPUT_KUBE_APISERVER and etcd"),
    pytest.mark.needs("kustomize"),
]


class Api:
    """A running API server, as its administrator."""

    def __init__(self, port: int) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self._tls = ssl._create_unverified_context()

    def ask(self, method: str, path: str, body: Object | None = None, kind: str = "application/json") -> Any:
        """The answer, as data. Raises AssertionError with what the server says against it."""
        headers = {"Authorization": "Bearer tok", "Content-Type": kind}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(
                Request(self.url + path, data, headers, method=method), context=self._tls, timeout=30
            ) as answer:
                warnings = answer.headers.get_all("Warning", [])
                found = answer.read()
        except HTTPError as error:
            raise AssertionError(f"{path}: {error.read().decode()}") from error
        assert warnings == [], path
        return json.loads(found) if found.startswith(b"{") else found

    def ready(self) -> bool:
        with suppress(AssertionError, URLError, OSError):
            return bool(self.ask("GET", "/readyz") == b"ok")
        return False

    def apply(self, one: Object, namespace: str = "") -> None:
        """Server-side and strictly, as `kubectl apply --server-side --validate=strict` does."""
        group = one["apiVersion"]
        listed = self.ask("GET", f"/api/{group}" if group == "v1" else f"/apis/{group}")["resources"]
        kind = next(each for each in listed if each["kind"] == one["kind"] and "/" not in each["name"])
        where = f"/namespaces/{namespace}" if kind["namespaced"] else ""
        path = f"/{'api' if group == 'v1' else 'apis'}/{group}{where}/{kind['name']}/{one['metadata']['name']}"
        options = "?fieldManager=test&fieldValidation=Strict&force=true"
        self.ask("PATCH", path + options, one, "application/apply-patch+yaml")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("apiserver")
    (folder / "tokens.csv").write_text("tok,admin,admin,system:masters\n")
    subprocess.run(["openssl", "genrsa", "-out", "sa.key", "2048"], cwd=folder, check=True, capture_output=True)
    clients, peers, port = free_port(), free_port(), free_port()
    etcd = [
        "etcd", "--data-dir", "etcd", "--listen-client-urls", f"http://127.0.0.1:{clients}",
        "--advertise-client-urls", f"http://127.0.0.1:{clients}", "--listen-peer-urls", f"http://127.0.0.1:{peers}",
    ]  # fmt: skip
    server = [
        PROGRAM, f"--etcd-servers=http://127.0.0.1:{clients}", "--service-account-issuer=https://kubernetes.default",
        "--service-account-key-file=sa.key", "--service-account-signing-key-file=sa.key",
        "--token-auth-file=tokens.csv", "--authorization-mode=RBAC", "--service-cluster-ip-range=10.96.0.0/24",
        "--bind-address=127.0.0.1", f"--secure-port={port}", "--cert-dir=certs",
        "--disable-admission-plugins=ServiceAccount",
    ]  # fmt: skip
    with ExitStack() as stack:
        for command in (etcd, server):
            log = stack.enter_context(open(folder / f"{Path(command[0]).name}.log", "w"))
            program = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
            stack.callback(program.wait)
            stack.callback(program.kill)
        found = Api(port)
        until("the API server", found.ready, START_LIMIT_S)
        for path in CRDS.glob("*.yaml"):
            found.apply(yaml.safe_load(path.read_text(encoding="utf-8")))
        until("the kinds of the operator", lambda: knows_monitors(found), START_LIMIT_S)
        yield found


def knows_monitors(api: Api) -> bool:
    with suppress(AssertionError):
        listed = api.ask("GET", "/apis/monitoring.coreos.com/v1")["resources"]
        return {"podmonitors", "servicemonitors", "prometheusrules"} <= {each["name"] for each in listed}
    return False


def namespace(api: Api, called: str) -> str:
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn", "audit")}
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": called, "labels": labels}})
    return called


def apply_all(api: Api, found: list[Object], where: str) -> None:
    for each in found:
        api.apply(each, where)
    for whose, pod in templates(found):
        if not whose.startswith("Pod/"):
            metadata = {**pod["metadata"], "name": whose.partition("/")[2]}
            api.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}, where)


@pytest.mark.parametrize("overlay", ["sidecar", "gateway", "queue"])
def test_the_plain_manifests_are_admitted(api: Api, overlay: str) -> None:
    command = ["kustomize", "build", str(ROOT / "deploy" / "kustomize" / "overlays" / overlay)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    apply_all(api, objects(text), namespace(api, f"plain-{overlay}"))


@pytest.mark.parametrize("case", CASES)
def test_the_chart_is_admitted(api: Api, case: str) -> None:
    found = made(CASES[case])
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1}
    api.apply(priority)
    apply_all(api, found, namespace(api, f"chart-{case}"))


def test_a_pod_that_may_be_root_is_refused(api: Api) -> None:
    _, pod = next(templates(made({})))
    spec = {**pod["spec"], "securityContext": {}}
    metadata = {**pod["metadata"], "name": "root"}
    with pytest.raises(AssertionError, match="violates PodSecurity"):
        api.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, namespace(api, "root"))


def test_the_patch_of_the_chart_is_taken_by_a_running_deployment(api: Api) -> None:
    where = namespace(api, "patched")
    model_server = yaml.safe_load_all((ROOT / "deploy/kustomize/base/vllm.yaml").read_text(encoding="utf-8"))
    api.apply(next(each for each in model_server if name(each) == "Deployment/vllm"), where)
    patch = next(each for each in made(CASES["sidecar"]) if name(each).endswith("-sidecar"))["data"]["patch.yaml"]
    path = f"/apis/apps/v1/namespaces/{where}/deployments/vllm?fieldValidation=Strict"
    merged = api.ask("PATCH", path, yaml.safe_load(patch), "application/strategic-merge-patch+json")
    pod = merged["spec"]["template"]["spec"]
    assert [each["name"] for each in pod["initContainers"]] == ["goodput-exporter"]
    assert {"cache", "shm", "goodput"} == {each["name"] for each in pod["volumes"]}

"""Dashboards as files: plain JSON, a provisioning folder of Grafana, and ConfigMaps for its sidecar."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards import anatomy, capacity, health, on_call
from dashboards.frame import TAG, Settings
from slo_rules.rules import to_yaml

BOARDS: Final = {"on-call": on_call, "anatomy": anatomy, "capacity": capacity, "exporter-health": health}
"""By the name of the file."""
LABEL: Final = "grafana_dashboard"
"""What Grafana's sidecar looks for; the value is 1."""
FOLDER: Final = "Goodput"


def plain(settings: Settings) -> dict[str, str]:
    """Files to import by hand: the JSON of every dashboard, the same to the byte each time."""
    return {
        f"{name}.json": json.dumps(module.board(settings).build(settings), cls=JSONEncoder, indent=2, sort_keys=True)
        + "\n"
        for name, module in BOARDS.items()
    }


def provisioning(settings: Settings) -> dict[str, str]:
    """What belongs in /etc/grafana/provisioning: dashboards, and Prometheus with links from exemplars to traces."""
    provider = {
        "name": TAG, "folder": FOLDER, "type": "file", "allowUiUpdates": True,
        "options": {"path": "/etc/grafana/provisioning/dashboards/goodput"},
    }  # fmt: skip
    link = {"name": "trace_id", "url": f"{settings.tracing_url}/trace/$${{__value.raw}}", "urlDisplayLabel": "Trace"}
    source = {
        "name": "Prometheus", "type": "prometheus", "access": "proxy", "url": settings.prometheus_url,
        "isDefault": True, "jsonData": {"exemplarTraceIdDestinations": [link]},
    }  # fmt: skip
    return {
        "dashboards/goodput.yaml": to_yaml({"apiVersion": 1, "providers": [provider]}),
        "datasources/goodput.yaml": to_yaml({"apiVersion": 1, "datasources": [source]}),
        **{f"dashboards/goodput/{name}": text for name, text in plain(settings).items()},
    }


def configmaps(settings: Settings) -> dict[str, str]:
    """An object of Kubernetes for each dashboard, in the namespace in which it is applied."""
    return {f"{Path(name).stem}.yaml": to_yaml(_configmap(name, text)) for name, text in plain(settings).items()}


def _configmap(name: str, text: str) -> Mapping[str, Any]:
    labels = {"app.kubernetes.io/name": TAG, LABEL: "1"}
    metadata = {
        "name": f"{TAG}-dashboard-{Path(name).stem}", "labels": labels, "annotations": {"grafana_folder": FOLDER},
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {f"goodput-{name}": text}}


FORMS: Final = {"json": plain, "provisioning": provisioning, "configmap": configmaps}


def write(form: str, settings: Settings, folder: str) -> list[Path]:
    """Write one form into a folder, which is made if it is not there; what was written. Raises OSError."""
    written = []
    for name, text in FORMS[form](settings).items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written

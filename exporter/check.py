"""All mistakes of a set of files at once: configuration, SLO and profile files, told apart by what they hold."""

import os
from collections.abc import Iterable, Mapping

from exporter.config import Settings, read_settings
from exporter.profile import KIND_OF_LOGS, KIND_OF_SPANS, SourceProfile, built_in, check_names, read_profiles
from exporter.serve import check_boundaries, read_slo_nodes, read_text
from slo_rules.document import Node, Problem, read

KINDS = ("SLO", "SLOTemplate", KIND_OF_SPANS, KIND_OF_LOGS)


def check_files(
    paths: Iterable[str], environment: Mapping[str, str], warnings: list[Problem] | None = None
) -> list[Problem]:
    """Everything that is wrong, in the order of the files. SLOs are checked against the configuration among them.

    What can hardly be meant is added to `warnings`.
    """
    problems: list[Problem] = []
    settings, slos, own = Settings(), [], []
    configurations: list[tuple[str, str]] = []
    paths = list(dict.fromkeys(paths))
    for path in paths:
        text = read_text(path, problems)
        if _is_configuration(text, path, environment):
            configurations.append((path, text))
            settings = read_settings(path, text, environment, problems)
            continue
        for node in read(text, path, problems, environment, warnings):
            kind = _kind(node)
            if kind is not None and kind.scalar in (KIND_OF_SPANS, KIND_OF_LOGS):
                own += [(profile, node) for profile in read_profiles([node])]
            elif kind is None or kind.choice(*KINDS) in ("SLO", "SLOTemplate"):
                slos.append(node)
    named = {os.path.normpath(path) for path in paths}
    for path in settings.profiles:
        if os.path.normpath(path) not in named:
            text = read_text(path, problems)
            own += [(p, node) for node in read(text, path, problems, environment) for p in read_profiles([node])]
    check_names(own)
    profiles: list[SourceProfile] = [*(profile for profile, _ in own), *built_in()]
    for path, text in configurations:
        check_boundaries(path, text, profiles, environment, problems)
    read_slo_nodes(slos, settings)
    return sorted(dict.fromkeys(problems))


def _is_configuration(text: str, path: str, environment: Mapping[str, str]) -> bool:
    """A configuration has neither `kind` nor `apiVersion`; what cannot be read at all is left to the other readers."""
    nodes = read(text, path, [], environment)
    return bool(nodes) and not any(_has(node, "kind") or _has(node, "apiVersion") for node in nodes)


def _has(node: Node, name: str) -> bool:
    return node.is_mapping and any(key == name for key, _, _ in node.entries())


def _kind(node: Node) -> Node | None:
    return next((value for key, _, value in node.entries() if key == "kind"), None) if node.is_mapping else None

"""Templates: what similar SLOs have in common is written once, and each of them in a line.

    apiVersion: goodput/v1
    kind: SLOTemplate
    metadata: {name: chat}
    spec:
      parameters: {model: , first: 1s}           # with a default, or to be given
      selector: {class: interactive, model: $(model)}
      objectives:
        - {metric: ttft, boundary: end_to_end, percentile: 95, threshold: $(first), window: 5m}
    ---
    {apiVersion: goodput/v1, kind: SLO, metadata: {name: chat-8b}, spec: {template: chat, parameters: {model: 8b}}}

`$(NAME)` stands for a parameter: alone for any value, also a list, and inside a text for a single one. A key that the
SLO itself has under `spec` takes the place of the template's, as a whole; labels are joined, the SLO's own win.

Templates are resolved on nodes, not on text: an argument keeps the place where it was given, so a message about it
points to the SLO that gave it, and a message about the template to the template.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from slo_rules.document import Node, optional

KIND: Final = "SLOTemplate"
API_VERSION: Final = "goodput/v1"

_NAME: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_PARAMETER: Final = r"[a-z][a-z0-9_]{0,62}"


@dataclass(slots=True)
class Template:
    """One template as it stands in a file."""

    node: Node
    labels: Node | None
    spec: Node
    defaults: Mapping[str, Node | None]
    """By parameter; None where an SLO must give it."""
    used: bool = False


@dataclass(slots=True)
class Templates:
    """The templates of all files, by name."""

    by_name: dict[str, Template] = field(default_factory=dict)

    def fields(self, spec: Node, known: Collection[str]) -> tuple[dict[str, Node], Node | None]:
        """The values under `spec`, those of its template included, and the labels of the template.

        What is wrong is recorded with the nodes.
        """
        own = spec.fields(*known, "template", "parameters")
        template = self._template(own)
        if template is None:
            # What it would have given is not known; nothing is missing on that account.
            return ({"objectives": spec.undefined()} if "template" in own else {}) | own, None
        arguments = _arguments(spec, template, own.get("parameters"))
        labels = None if template.labels is None else template.labels.bind(arguments)
        return template.spec.bind(arguments).fields(*known, "parameters") | own, labels

    def _template(self, own: Mapping[str, Node]) -> Template | None:
        if "template" not in own:
            if "parameters" in own:
                own["parameters"].problem("must come with a template")
            return None
        name = own["template"].choice(*sorted(self.by_name)) if self.by_name else None
        if not self.by_name:
            own["template"].problem("must name a template: there is no document of the kind SLOTemplate")
        template = None if name is None else self.by_name[name]
        if template is not None:
            template.used = True
        return template

    def warn_of_unused(self) -> None:
        """What no SLO uses is read by nobody, mistakes included."""
        for template in self.by_name.values():
            if not template.used:
                template.node.warn("is used by no SLO, so that nothing of it has been checked")


def is_template(node: Node) -> bool:
    """Whether a document says that it is one."""
    kind = node.value_of("kind")
    return kind is not None and kind.scalar == KIND


def read_templates(nodes: Iterable[Node]) -> Templates:
    """The templates among some documents. What is wrong is recorded with the nodes."""
    templates = Templates()
    for node in filter(is_template, nodes):
        fields = node.fields("kind", required=("apiVersion", "metadata", "spec"))
        if "apiVersion" in fields:
            fields["apiVersion"].choice(API_VERSION)
        metadata = fields["metadata"].fields("labels", required=("name",)) if "metadata" in fields else {}
        name = optional(metadata, "name", _read_name, None)
        if name in templates.by_name:
            metadata["name"].problem("must be the name of one template only, in all files")
        elif name is not None and "spec" in fields:
            spec, labels = fields["spec"], metadata.get("labels")
            templates.by_name[name] = Template(node, labels, spec, _read_parameters(spec, labels))
    return templates


def _read_name(node: Node) -> str | None:
    return node.text(pattern=_NAME, rule="must be a name like that of an SLO")


def _read_parameters(spec: Node, labels: Node | None) -> dict[str, Node | None]:
    parameters = spec.value_of("parameters")
    defaults: dict[str, Node | None] = {}
    entries = [] if parameters is None or parameters.is_null else parameters.entries()
    parts = [value for name, _, value in _entries(spec) if name != "parameters"]
    mentioned = {name for part in (*parts, *([] if labels is None else [labels])) for name in part.mentions()}
    for name, key, value in entries:
        key.text(pattern=_PARAMETER, rule="must be a name of lower-case letters, digits and _")
        if name not in mentioned:
            key.problem(f"must be used: $({name}) stands nowhere in the template")
        defaults[name] = None if value.is_null else value
    return defaults


def _entries(spec: Node) -> list[tuple[str, Node, Node]]:
    return spec.entries() if spec.is_mapping else []


def _arguments(spec: Node, template: Template, given: Node | None) -> dict[str, Node]:
    """What each parameter stands for in one SLO."""
    arguments = {} if given is None else given.fields(*template.defaults)
    for name, default in template.defaults.items():
        if name not in arguments and default is not None:
            arguments[name] = default
        elif name not in arguments:
            place = spec if given is None else given
            place.problem(f"must give the parameter {name} of the template", "nothing")
            arguments[name] = place.undefined()
    return arguments

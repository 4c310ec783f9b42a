"""A Helm chart of the components, made from the same objects as `mooring install`. Pure.

What a chart's user may set stands in the objects as marks, which become Helm's expressions once the objects
are text. Kinds of our own are kept by `helm uninstall`: what is of them would be deleted with them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from mooring import __version__
from mooring.apiserver.errors import Obj
from mooring.install.components import COMPONENTS, DEFAULT, IMAGE, Settings, objects

_MARK = re.compile(r"^( *)(- )?(?:\w+: )?'?<<(\w+)>>'?$", re.MULTILINE)
_IMAGE = '"{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"'
_KEPT = {"helm.sh/resource-policy": "keep"}
_SETTABLE = ("nodeSelector", "tolerations")
"""Of a pod: what the chart's user adds to what the files say."""

_CHART = {
    "apiVersion": "v2",
    "name": "mooring",
    "description": "A storage control plane for Kubernetes: attach/detach, fencing, the EBS CSI driver.",
    "type": "application",
    "version": __version__,
    "appVersion": __version__,
    "kubeVersion": ">=1.30.0-0",
}
_WORKLOAD_SCHEMA: Mapping[str, Any] = {
    "replicas": {"type": "integer", "minimum": 1},
    "args": {"type": "array", "items": {"type": "string"}},
    "nodeSelector": {"type": "object", "additionalProperties": {"type": "string"}},
    "tolerations": {"type": "array", "items": {"type": "object"}},
}


def chart() -> dict[str, str]:
    """The chart's files, by path."""
    made = {
        "Chart.yaml": _text(_CHART),
        "values.yaml": _values(),
        "values.schema.json": json.dumps(_schema(), indent=2) + "\n",
        "templates/NOTES.txt": "mooring install --check says whether the cluster suits it.\n",
    }
    return made | {f"templates/{name}.yaml": _template(name) for name in COMPONENTS}


def key(component: str) -> str:
    """The component's name among the chart's values."""
    head, *rest = component.split("-")
    return head + "".join(each.capitalize() for each in rest)


def _template(name: str) -> str:
    made = [_marked(each) for each in objects([name], Settings(IMAGE))]
    text = yaml.safe_dump_all(made, sort_keys=False, width=1000)
    assert "{{" not in text, f"{name}: braces would be Helm's"
    text = _MARK.sub(lambda found: _expression(found, key(name)), text)
    others = [f".Values.{key(each)}.enabled" for each in COMPONENTS[name].excludes]
    refusal = (
        f"{{{{- if or {' '.join(others)} }}}}{{{{ fail {_one_form(name)} }}}}{{{{- end }}}}\n"
        if others
        else ""
    )
    return f"{{{{- if .Values.{key(name)}.enabled }}}}\n{refusal}{text}{{{{- end }}}}\n"


def _one_form(name: str) -> str:
    forms = ", ".join(key(each) for each in sorted((name, *COMPONENTS[name].excludes)))
    return f'"{forms} are forms of one thing: enable one of them"'


def _marked(obj: Obj) -> Obj:
    if obj["kind"] == "CustomResourceDefinition":
        metadata = obj["metadata"]
        return {**obj, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **_KEPT}}}
    template = obj.get("spec", {}).get("template")
    if template is None:
        return obj
    pod = template["spec"]
    first, *others = pod["containers"]
    containers = [{**first, "args": [*first["args"], "<<args>>"]}, *others]
    containers = [{**each, "image": "<<image>>", "imagePullPolicy": "<<policy>>"} if each["image"] == IMAGE else each
                  for each in containers]  # fmt: skip
    marks = {each: f"<<{each}>>" for each in _SETTABLE if each not in pod}
    made = {**pod, "containers": containers, "imagePullSecrets": "<<secrets>>", **marks}
    replicas = {"replicas": "<<replicas>>"} if "replicas" in obj["spec"] else {}
    return {**obj, "spec": {**obj["spec"], **replicas, "template": {**template, "spec": made}}}


def _expression(found: re.Match[str], component: str) -> str:
    """The line of a mark, as Helm's."""
    space, entry, mark = found[1], found[2] or "", found[3]
    own = f".Values.{component}.{mark}"
    match mark:
        case "image":
            return f"{space}{entry}image: {_IMAGE}"
        case "policy":
            return f"{space}imagePullPolicy: {{{{ .Values.image.pullPolicy }}}}"
        case "replicas":
            return f"{space}replicas: {{{{ {own} }}}}"
        case "args":
            return _block(space, f"with {own}", "")
        case "secrets":
            return _block(space, "with .Values.image.pullSecrets", "imagePullSecrets:")
        case _:
            return _block(space, f"with {own}", f"{mark}:")


def _block(space: str, condition: str, head: str) -> str:
    """Lines that are there only if there is something to say."""
    indent = len(space) + (2 if head else 0)
    lines = [
        f"{{{{- {condition} }}}}",
        *([f"{space}{head}"] if head else []),
        f"{{{{- toYaml . | nindent {indent} }}}}",
    ]
    return "\n".join(f"{space}{line}" if line.startswith("{{") else line for line in [*lines, "{{- end }}"])


def _values() -> str:
    image = {"repository": IMAGE, "tag": "", "pullPolicy": "IfNotPresent", "pullSecrets": list[str]()}
    text = "# The image that deploy/image/build makes; an empty tag is the chart's version.\n" + _text(
        {"image": image}
    )
    for name, component in COMPONENTS.items():
        given = {"enabled": name in DEFAULT, **_workload_values(name)}
        text += f"# {component.about}\n" + _text({key(name): given})
    return text


def _workload_values(name: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for pod in _workloads(name):
        if "replicas" in pod:
            made["replicas"] = pod["replicas"]
        made["args"] = []
        made |= {each: [] if each == "tolerations" else {} for each in _SETTABLE}
    return made


def _workloads(name: str) -> Iterator[dict[str, Any]]:
    for each in objects([name], Settings(IMAGE)):
        if "template" in each.get("spec", {}):
            yield each["spec"]


def _schema() -> dict[str, Any]:
    image = {
        "type": "object",
        "required": ["repository"],
        "properties": {
            "repository": {"type": "string", "minLength": 1},
            "tag": {"type": "string"},
            "pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
            "pullSecrets": {"type": "array", "items": {"type": "object", "required": ["name"]}},
        },
        "additionalProperties": False,
    }
    components = {key(name): _component_schema(name) for name in COMPONENTS}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"image": image, "global": {"type": "object"}, **components},
        "additionalProperties": False,
    }


def _component_schema(name: str) -> dict[str, Any]:
    own = {each: _WORKLOAD_SCHEMA[each] for each in _workload_values(name)}
    return {
        "type": "object",
        "properties": {"enabled": {"type": "boolean"}, **own},
        "additionalProperties": False,
    }


def _text(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=1000)

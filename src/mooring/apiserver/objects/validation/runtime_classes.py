"""RuntimeClasses: by which handler a node runs a pod, what that costs, and which nodes have it."""

from __future__ import annotations

from mooring.apiserver.errors import Obj, duplicate
from mooring.apiserver.objects.validation.checks import Errors, needed, objects, part, record, text
from mooring.apiserver.objects.validation.formats import label_error
from mooring.apiserver.objects.validation.labels import labels
from mooring.apiserver.objects.validation.placement import tolerations
from mooring.apiserver.objects.validation.resources import container_resource_name, requirements


def overhead(value: Obj) -> Errors:
    """What a pod needs beside its containers, by resource."""
    return requirements({"limits": value}, container_resource_name, ())


def _different(value: list[Obj]) -> Errors:
    """Tolerations, each once."""
    found = objects(value)
    twice = [
        duplicate(f"[{index}]", _told(each)) for index, each in enumerate(found) if each in found[:index]
    ]
    return [*tolerations(found), *twice]


def _told(toleration: Obj) -> Obj:
    """As upstream tells of it: by the names of its own fields."""
    texts = {name: toleration.get(name.lower()) or "" for name in ("Key", "Operator", "Value", "Effect")}
    return {**texts, "TolerationSeconds": toleration.get("tolerationSeconds")}


runtime_class = record(
    ("handler", needed(text(label_error))),
    ("overhead", lambda value: overhead(part(value, "podFixed"))),
    ("scheduling", record(("nodeSelector", labels), ("tolerations", _different))),
)
"""A RuntimeClass."""

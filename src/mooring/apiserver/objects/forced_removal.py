"""What a client is told that removes a pod by force while its node does not answer. Pure.

The pod-safety document asks that clients "communicate those implications". A `Warning:` header reaches every
client; kubectl prints it.
"""

from __future__ import annotations

from typing import Any

from mooring.apiserver.errors import Obj
from mooring.apiserver.values.dotted import object_at, text_at

_ENDED = ("Succeeded", "Failed")


def risk(pod: Obj, node: Obj | None) -> str | None:
    """A sentence, unless the pod has ended, never had a node, or its node answers and ends it. `node`: the
    one that the pod names; None if there is none."""
    name, status = text_at(object_at(pod, "spec"), "nodeName"), object_at(pod, "status")
    if not name or text_at(status, "phase") in _ENDED or (node is not None and _answers(node)):
        return None
    meta: Obj = pod["metadata"]
    silent = "does not exist any more" if node is None else "does not answer"
    return (
        f"pod {meta.get('namespace')}/{meta['name']} is removed by force, and its node {name} {silent}: its processes "
        "may still run there, and a second pod of this name may run beside them. If the machine is certainly off, "
        f"`mooring fence confirm {name}` says so for all that it has"
    )


def _answers(node: Obj) -> bool:
    conditions: list[Any] = object_at(node, "status").get("conditions") or []
    return any(each.get("type") == "Ready" and each.get("status") in ("True", "False") for each in conditions)

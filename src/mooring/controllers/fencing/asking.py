"""Takes up the fence that a Node's annotation asks for: `kubectl annotate node NAME
fencing.mooring.dev/request="why"`.

It stands for the policy's detectors, as any NodeFence that others make (`requestedBy`): the policy's pause,
storms, budgets and vetoes hold it. The fence is made first and the annotation goes after it, so a crash in
between asks for nothing anew: a node that is being fenced is not fenced twice. A kubelet may write its own
Node's annotations, and so have itself fenced, and no other.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import count
from typing import Any

from mooring.controllers.fencing.names import REQUEST, fence_name, new_fence
from mooring.kube.objects import Node
from mooring.kube.printable import printable

LONGEST = 1024
"""Characters of what the annotation says that are kept."""


def is_asked(node: Node) -> bool:
    """Whether the Node's annotation asks for a fence."""
    return REQUEST in node.metadata.annotations


def asked_fence(node: Node, known: Container[str]) -> dict[str, Any]:
    """The NodeFence that the Node's annotation asks for, as it is to be created. `known`: the names of those
    that there are; one of an earlier request stays as a record."""
    by, boot = f"annotation {REQUEST} of Node {node.name}", node.status.node_info.boot_id
    said = printable(node.metadata.annotations[REQUEST])[:LONGEST]
    spec = {
        "nodeName": node.name,
        "nodeUID": node.uid,
        **({"bootID": boot} if boot else {}),
        "requestedBy": by,
        "reason": said or f"the {by} asks for it",
    }
    names = (fence_name(node.name, node.uid, f"{boot}/asked {number}") for number in count(1))
    return new_fence(next(name for name in names if name not in known), spec)

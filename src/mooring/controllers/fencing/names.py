"""Names that fences write: the name of a NodeFence, the finalizers, the value of the taint. Pure."""

from __future__ import annotations

import hashlib
from typing import Any

FINALIZER = "fencing.mooring.dev/fence"
"""On a NodeFence until the node is free again: its deletion is a request for that."""
NODE_FINALIZER = "fencing.mooring.dev/node"
"""On a Node that a FencePolicy covers: its deletion waits until nothing exclusive is left on it."""
REQUEST = "fencing.mooring.dev/request"
"""Annotation of a Node: a fence of it is asked for; the value says why. It goes when the fence is made."""
TAINT_VALUE = "fenced"
"""Of the out-of-service taint that a fence sets: a person's has another."""
LONGEST_NODE = 200


def fence_name(node: str, node_uid: str, boot_id: str) -> str:
    """The name of the one NodeFence of this registration and boot of a node."""
    digest = hashlib.sha256(f"{node_uid}/{boot_id}".encode()).hexdigest()[:10]
    return f"{node[:LONGEST_NODE].rstrip('.-')}-{digest}"


def new_fence(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """A NodeFence as it is created: with its finalizer, so that it is never deleted away."""
    return {"metadata": {"name": name, "finalizers": [FINALIZER]}, "spec": spec}

"""Names that fences write: the name of a NodeFence, the finalizers, the taints. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import chain, count
from typing import Any

from mooring.kube.objects import Taint
from mooring.volumes.out_of_service import TAINT

FINALIZER = "fencing.mooring.dev/fence"
"""On a NodeFence until the node is free again: its deletion is a request for that."""
NODE_FINALIZER = "fencing.mooring.dev/node"
"""On a Node that a FencePolicy covers: its deletion waits until nothing exclusive is left on it."""
REQUEST = "fencing.mooring.dev/request"
"""Annotation of a Node: a fence of it is asked for; the value says why. It goes when the fence is made."""
TAKEN_UP = "fencing.mooring.dev/taken-up"
"""Annotation of a NodeFence: the version upon which an order without an answer was last taken up again."""
WITHDRAWN = "fencing.mooring.dev/withdrawn"
"""Annotation of a VolumeAttachment: its version when what a fence has stated there was last taken back."""
TAINT_VALUE = "fenced"
"""Of the out-of-service taint that a fence sets: a person's has another."""
SHUT_OUT = "fencing.mooring.dev/shut-out"
"""Taint (NoSchedule) of a Node that runs on and is shut out of storage: a pod that came now would wait there
until the node is let in. Its value is the scope of the fence."""
LONGEST_NODE = 200


def fence_name(node: str, node_uid: str, boot_id: str) -> str:
    """The name of the one NodeFence of this registration and boot of a node."""
    digest = hashlib.sha256(f"{node_uid}/{boot_id}".encode()).hexdigest()[:10]
    return f"{node[:LONGEST_NODE].rstrip('.-')}-{digest}"


def free_name(name: str, is_taken: Callable[[str], bool]) -> str:
    """The name, or, where that is taken, the first one that continues it and is not."""
    continued = (f"{name}-{number}" for number in count(2))
    return next(each for each in chain([name], continued) if not is_taken(each))


def new_fence(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """A NodeFence as it is created: with its finalizer, so that it is never deleted away."""
    return {"metadata": {"name": name, "finalizers": [FINALIZER]}, "spec": spec}


def is_of_a_fence(taint: Taint) -> bool:
    """Whether a fence has set the taint, and takes it off."""
    return taint.key == SHUT_OUT or (taint.key == TAINT and taint.value == TAINT_VALUE)

"""When a Node whose deletion was asked for may go: not before nothing exclusive is left on it. Pure.

An operator or an autoscaler that deletes a Node wants it gone, and says nothing of the processes of its
machine (origin: pod safety, "Avoid multiple instances"). Where a FencePolicy covers the Node, evidence is
asked for first: a finalizer keeps its uid, its boot and its labels in the API, so that detectors, fence and
release go on as ever. The Node goes once no volume is attached to it and no StatefulSet's pod is left on it.
Where no policy covers it (any more), the finalizer goes at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from mooring.controllers.fencing.names import NODE_FINALIZER
from mooring.kube.decision import Decision
from mooring.kube.objects import Node, Pod, VolumeAttachment
from mooring.kube.reason import Reason
from mooring.volumes.names import NODE_UID

MOST_NAMES = 5


class Keep(Enum):
    """What to do about the deletion of a Node."""

    NOTHING = "Nothing"
    HOLD = "Hold"  # write the finalizer
    WAIT = "Wait"
    LET_GO = "LetGo"


def decide_deletion(node: Node, left: Iterable[str], *, covered: bool) -> Decision[Keep]:
    """Whether the Node may go. `covered`: a FencePolicy selects it. `left`: what it has that no other node
    may have meanwhile, in words; of a Node that is not being deleted it does not matter."""
    held, where = NODE_FINALIZER in node.metadata.finalizers, f"node {node.name}"
    if not covered:
        reason = Reason("NotCovered", f"no FencePolicy covers {where}: its deletion is not held")
        return Decision(Keep.LET_GO if held else Keep.NOTHING, reason)
    if not node.deleting:
        reason = Reason("Covered", f"the deletion of {where} waits until nothing exclusive is left on it")
        return Decision(Keep.NOTHING if held else Keep.HOLD, reason)
    names = list(left)
    if held and names:
        return Decision(Keep.WAIT, Reason("NodeDeletionWaits", _waits(node, names)))
    reason = Reason("NothingLeft", f"{where} is being deleted, and nothing exclusive is left on it")
    return Decision(Keep.LET_GO if held else Keep.NOTHING, reason)


def _waits(node: Node, left: list[str]) -> str:
    more = f" and {len(left) - MOST_NAMES} more" if len(left) > MOST_NAMES else ""
    return (
        f"node {node.name} is being deleted; its deletion says nothing of its machine, which has "
        f"{', '.join(left[:MOST_NAMES])}{more}"
    )


def next_step(node: Node) -> str:
    """What a person can do, so that a Node whose deletion waits goes."""
    if node.ready == "True":
        return f"kubectl drain {node.name} --ignore-daemonsets"
    return (
        f"its fence is waited for (mooring why node/{node.name}); if its machine is certainly off: "
        f"mooring fence confirm {node.name}"
    )


def what_is_left(node: str, uid: str, records: Iterable[VolumeAttachment], pods: Iterable[Pod]) -> list[str]:
    """What the node has that no other node may have meanwhile, in words: its attachments and the identities
    of StatefulSets. `records`, `pods`: all, or those of the node."""
    attached = [
        f"volume {each.spec.source.persistent_volume_name or each.name}"
        for each in records
        if each.spec.node_name == node and each.metadata.annotations.get(NODE_UID, "") in ("", uid)
    ]
    owned = [f"pod {each.key}" for each in pods if each.spec.node_name == node and is_identity(each)]
    return [*sorted(attached), *sorted(owned)]


def is_identity(pod: Pod) -> bool:
    """Whether another pod of its name would be a second process of one identity."""
    return not pod.finished and pod.controller is not None and pod.controller.kind == "StatefulSet"

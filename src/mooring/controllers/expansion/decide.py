"""What to do about a claim that asks for more than its volume has. Pure.

The order is upstream's: the storage first, then the PersistentVolume's capacity, then the file system, on the node that
has it mounted (or mounts it next); only then the claim's status says the new size. Any prefix is completed by deciding
again. That a claim shrinks is refused by the API server.
"""

from __future__ import annotations

from enum import Enum

from mooring.kube.objects import Condition, PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.kube.quantity import parse_bytes
from mooring.kube.reason import Reason
from mooring.volumes.matching import FILE_SYSTEM_RESIZE_PENDING, RESIZING, capacity, requested


class Step(Enum):
    """The next step for a claim."""

    SETTLED = "Settled"
    REFUSE = "Refuse"
    EXPAND = "Expand"  # in the storage
    ASK_NODE = "AskNode"  # the file system is the node's matter
    FINISH = "Finish"  # the claim's status says the new size


def decide(
    claim: PersistentVolumeClaim, pv: PersistentVolume | None, storage_class: StorageClass | None, on_node: bool | None
) -> tuple[Step, Reason]:
    """The next step, and why. `pv` is the claim's own; `on_node`: a file system must grow after the device; None: the
    storage was not asked by this process, and is asked (again)."""
    if pv is None or claim.status.phase != "Bound" or claim.deleting or pv.deleting:
        return Step.SETTLED, Reason("NotBound", "it is not bound to a volume")
    wanted, has = requested(claim), parse_bytes(claim.status.capacity.get("storage", 0))
    if capacity(pv) < wanted:
        if storage_class is None or not storage_class.allow_volume_expansion:
            name = claim.spec.storage_class_name or ""
            return Step.REFUSE, Reason(
                "VolumeResizeFailed",
                f"storage class {name!r} does not allow its volumes to grow: set allowVolumeExpansion there",
            )
        return Step.EXPAND, Reason("Resizing", f"the volume has {capacity(pv)} bytes, {wanted} are requested")
    if has >= min(wanted, capacity(pv)) and not has_condition(claim, RESIZING):
        return Step.SETTLED, Reason("LargeEnough", "the volume is as large as requested")
    if has_condition(claim, FILE_SYSTEM_RESIZE_PENDING):
        return Step.SETTLED, Reason(FILE_SYSTEM_RESIZE_PENDING, "a node has to grow the file system")
    if on_node is None:
        return Step.EXPAND, Reason("Resizing", f"the volume has {capacity(pv)} bytes; who grows its file system?")
    if not on_node:
        return Step.FINISH, Reason("VolumeResizeSuccessful", "Resize volume succeeded")
    return Step.ASK_NODE, Reason("FileSystemResizeRequired", "Require file system resize of volume on node")


def has_condition(claim: PersistentVolumeClaim, type_: str) -> bool:
    """Whether the claim has the condition, true."""
    return any(each.type == type_ and each.status == "True" for each in claim.status.conditions)


def with_condition(claim: PersistentVolumeClaim, type_: str | None, message: str, stamp: str) -> list[Condition]:
    """The claim's conditions with this one instead of any other about its size; None: with none of them."""
    others = [each for each in claim.status.conditions if each.type not in (RESIZING, FILE_SYSTEM_RESIZE_PENDING)]
    if type_ is None:
        return others
    return [*others, Condition(type=type_, status="True", message=message, last_transition_time=stamp)]

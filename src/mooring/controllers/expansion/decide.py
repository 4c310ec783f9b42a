"""What to do about a claim that asks for more than its volume has. Pure.

The order is upstream's: the storage first, then the PersistentVolume's capacity, then the file system, on the
node that has it mounted (or mounts it next); the claim's status states the new size only after that. Deciding
again completes any prefix. The API server refuses claims that shrink.
"""

from __future__ import annotations

from enum import Enum

from mooring.kube.decision import Decision
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.kube.quantity import parse_bytes
from mooring.kube.reason import Reason
from mooring.volumes.growth import FILE_SYSTEM_RESIZE_PENDING, RESIZING, has_condition
from mooring.volumes.matching import capacity, requested


class Action(Enum):
    """The next step for a claim."""

    SETTLED = "Settled"
    REFUSE = "Refuse"
    EXPAND = "Expand"  # in the storage
    ASK_NODE = "AskNode"  # to grow the file system
    FINISH = "Finish"  # the claim's status gets the new size


def decide(
    claim: PersistentVolumeClaim,
    pv: PersistentVolume | None,
    storage_class: StorageClass | None,
    on_node: bool | None,
) -> Decision[Action]:
    """Returns the next step. `pv` is the claim's own. `on_node`: whether a file system must grow after the
    device; None: this process has no answer of the storage, and asks (again)."""
    if pv is None or claim.status.phase != "Bound" or claim.deleting or pv.deleting:
        return Decision(Action.SETTLED, Reason("NotBound", "it is not bound to a volume"))
    wanted, has = requested(claim), parse_bytes(claim.status.capacity.get("storage", 0))
    if capacity(pv) < wanted:
        if storage_class is None or not storage_class.allow_volume_expansion:
            name = claim.storage_class
            return Decision(
                Action.REFUSE,
                Reason(
                    "VolumeResizeFailed",
                    f"storage class {name!r} does not allow its volumes to grow: set allowVolumeExpansion there",
                ),
            )
        return Decision(
            Action.EXPAND, Reason("Resizing", f"the volume has {capacity(pv)} bytes, {wanted} are requested")
        )
    if has >= min(wanted, capacity(pv)) and not has_condition(claim, RESIZING):
        return Decision(Action.SETTLED, Reason("LargeEnough", "the volume is as large as requested"))
    if has_condition(claim, FILE_SYSTEM_RESIZE_PENDING):
        return Decision(
            Action.SETTLED, Reason(FILE_SYSTEM_RESIZE_PENDING, "a node has to grow the file system")
        )
    if on_node is None:
        return Decision(
            Action.EXPAND,
            Reason(
                "Resizing",
                f"the volume has {capacity(pv)} bytes; the storage is asked whether a node must grow its file system",
            ),
        )
    if not on_node:
        return Decision(Action.FINISH, Reason("VolumeResizeSuccessful", "Resize volume succeeded"))
    return Decision(
        Action.ASK_NODE, Reason("FileSystemResizeRequired", "Require file system resize of volume on node")
    )


def allocated(claim: PersistentVolumeClaim) -> int:
    """The bytes that the growth under way, or the last one, aims at; 0: there was none."""
    return parse_bytes(claim.status.allocated_resources.get("storage", 0))

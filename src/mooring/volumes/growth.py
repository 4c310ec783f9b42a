"""How a claim's status tells how far its volume has grown. Shared by the resizer and the node agent. Pure.

Two accounts of one thing: conditions, which people read, and `allocatedResourceStatuses`, which kubelets read
(KEP-1790). A size that the storage or the node says it can never have is *infeasible*: the claim's user may
ask for less then, as long as it is more than the volume has, and that is tried instead.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.kube.objects import Condition, PersistentVolumeClaim
from mooring.volumes.errors import InvalidSpec, SizeInfeasible, VolumeNotFound

RESIZING = "Resizing"
FILE_SYSTEM_RESIZE_PENDING = "FileSystemResizePending"
"""Conditions of a claim whose volume grows: in the storage; and, that being done, on the node."""
CONTROLLER_RESIZE_ERROR, NODE_RESIZE_ERROR = "ControllerResizeError", "NodeResizeError"
"""Conditions beside these: the size is infeasible."""
ABOUT_SIZE = (RESIZING, FILE_SYSTEM_RESIZE_PENDING, CONTROLLER_RESIZE_ERROR, NODE_RESIZE_ERROR)

CONTROLLER_RESIZE_IN_PROGRESS = "ControllerResizeInProgress"
CONTROLLER_RESIZE_INFEASIBLE = "ControllerResizeInfeasible"
NODE_RESIZE_PENDING = "NodeResizePending"
NODE_RESIZE_INFEASIBLE = "NodeResizeInfeasible"


def is_infeasible(error: Exception) -> bool:
    """Whether the same request fails for ever, as far as the plugin knows."""
    return isinstance(error, (SizeInfeasible, InvalidSpec, VolumeNotFound))


def has_condition(claim: PersistentVolumeClaim, type_: str) -> bool:
    """Whether the claim has the condition, with status True."""
    return any(each.type == type_ and each.status == "True" for each in claim.status.conditions)


def is_asked_to_grow(claim: PersistentVolumeClaim) -> bool:
    """Whether the claim asks its node for a larger file system: its volume has grown."""
    return has_condition(claim, FILE_SYSTEM_RESIZE_PENDING)


def with_conditions(claim: PersistentVolumeClaim, *about_size: Condition) -> list[dict[str, Any]]:
    """The claim's conditions with these in place of all others about its size, as they are written."""
    others = [each for each in claim.status.conditions if each.type not in ABOUT_SIZE]
    return msgspec.to_builtins([*others, *about_size])


def condition(type_: str, message: str, stamp: str | None) -> Condition:
    return Condition(type=type_, status="True", message=message, last_transition_time=stamp)


def infeasible(
    claim: PersistentVolumeClaim, step: str, error_type: str, status: str, error: Exception, stamp: str | None
) -> dict[str, Any] | None:
    """The status of a claim whose growth is infeasible at a step (its condition stays); None if it says so
    already."""
    if claim.status.allocated_resource_statuses.get("storage") == status and has_condition(claim, error_type):
        return None
    has = claim.status.capacity.get("storage", "0")
    message = f"{str(error)[:1000]}; ask for less, but for more than {has}, or mend what it names"
    begun = next((each for each in claim.status.conditions if each.type == step), condition(step, "", stamp))
    conditions = with_conditions(claim, begun, condition(error_type, message, stamp))
    return {"conditions": conditions, "allocatedResourceStatuses": {"storage": status}}

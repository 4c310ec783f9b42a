"""What to do about a claim that asks for another VolumeAttributesClass than its volume has. Pure.

The order is upstream's: the claim's status names the target before the storage is asked; then the PersistentVolume and
the claim's status name what is true. Any prefix is completed by deciding again.
"""

from __future__ import annotations

from enum import Enum

from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass
from mooring.kube.reason import Reason


class Step(Enum):
    """The next step for a claim."""

    SETTLED = "Settled"
    WAIT = "Wait"
    """What it asks for cannot be, or not yet: its status and an event say so."""
    BEGIN = "Begin"
    """The claim's status names the target."""
    MODIFY = "Modify"
    """The storage is asked, then the volume and the claim say so."""
    FINISH = "Finish"
    """The volume has the attributes: the claim's status says so."""


def decide(
    claim: PersistentVolumeClaim,
    pv: PersistentVolume,
    wanted: VolumeAttributesClass | None,
    driver: str,
) -> tuple[Step, Reason]:
    """The next step, and why. `pv` is the claim's own, `wanted` the class that it names, `driver` makes the volume."""
    name = claim.spec.volume_attributes_class_name
    if not name or claim.status.phase != "Bound" or claim.deleting or pv.deleting:
        return Step.SETTLED, Reason("NothingWanted", "it asks for no attributes")
    status = claim.status
    if status.current_volume_attributes_class_name == name and pv.spec.volume_attributes_class_name == name:
        if status.modify_volume_status is None:
            return Step.SETTLED, Reason("Modified", f"its volume has the attributes of {name}")
        return Step.FINISH, Reason("VolumeModifySuccessful", f"its volume has the attributes of {name}")
    if wanted is None:
        return Step.WAIT, Reason("VolumeModifyFailed", f"VolumeAttributesClass {name} does not exist: create it")
    if wanted.driver_name != driver:
        message = f"VolumeAttributesClass {name} is of driver {wanted.driver_name}, the volume of {driver}"
        return Step.WAIT, Reason("VolumeModifyFailed", message)
    if pv.spec.volume_attributes_class_name == name:
        return Step.FINISH, Reason("VolumeModifySuccessful", f"its volume has the attributes of {name}")
    target = status.modify_volume_status.target_volume_attributes_class_name if status.modify_volume_status else ""
    if target != name:
        return Step.BEGIN, Reason("VolumeModify", f"its volume gets the attributes of {name}")
    return Step.MODIFY, Reason("VolumeModify", f"its volume gets the attributes of {name}")

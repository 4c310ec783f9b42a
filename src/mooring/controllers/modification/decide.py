"""What to do about a claim that asks for another VolumeAttributesClass than its volume has. Pure.

The order is upstream's: the claim's status names the target before the storage is asked; afterwards the
PersistentVolume and the claim's status name what is true. Deciding again completes any prefix. A change that
the status names may have been made until the storage has carried another one out: so a claim that returns to
the class that its volume has is not believed to have it still, and its status goes on saying what may have
been made.
"""

from __future__ import annotations

from enum import Enum

from mooring.kube.decision import Decision
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass
from mooring.kube.reason import Reason


class Action(Enum):
    """The next step for a claim."""

    SETTLED = "Settled"
    WAIT = "Wait"
    """The class is missing, or of another driver: status and event say so."""
    REFUSE = "Refuse"
    """Such volumes have no attributes: status and event say so."""
    BEGIN = "Begin"
    """The claim's status is to name the target."""
    MODIFY = "Modify"
    """The storage is to be asked, then the PersistentVolume is to name the class."""
    FINISH = "Finish"
    """The volume has the attributes: the claim's status is to say so."""


def decide(
    claim: PersistentVolumeClaim,
    pv: PersistentVolume,
    wanted: VolumeAttributesClass | None,
    driver: str,
    *,
    can_modify: bool = True,
) -> Decision[Action]:
    """Returns the next step. `pv` is the claim's own, `wanted` the class that it names,
    `driver` makes the volume, and may have no attributes for it."""
    name = claim.spec.volume_attributes_class_name
    if not name or claim.status.phase != "Bound" or claim.deleting or pv.deleting:
        return Decision(Action.SETTLED, Reason("NothingWanted", "it asks for no attributes"))
    status = claim.status
    target = (
        status.modify_volume_status.target_volume_attributes_class_name if status.modify_volume_status else ""
    )
    has_it = pv.spec.volume_attributes_class_name == name
    done = f"its volume has the attributes of {name}"
    if has_it and (target in ("", name) or not can_modify):
        if status.current_volume_attributes_class_name == name and status.modify_volume_status is None:
            return Decision(Action.SETTLED, Reason("Modified", done))
        return Decision(Action.FINISH, Reason("VolumeModifySuccessful", done))
    if not can_modify:
        return Decision(
            Action.REFUSE, Reason("VolumeModifyFailed", f"volumes of {driver} have no attributes")
        )
    if wanted is None:
        return Decision(
            Action.WAIT,
            Reason("VolumeModifyFailed", f"VolumeAttributesClass {name} does not exist: create it"),
        )
    if wanted.driver_name != driver:
        message = f"VolumeAttributesClass {name} is of driver {wanted.driver_name}, the volume of {driver}"
        return Decision(Action.WAIT, Reason("VolumeModifyFailed", message))
    if has_it:
        return Decision(Action.MODIFY, Reason("VolumeModify", f"its volume may have those of {target}"))
    return Decision(
        Action.BEGIN if target != name else Action.MODIFY,
        Reason("VolumeModify", f"its volume gets the attributes of {name}"),
    )

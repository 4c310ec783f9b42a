"""What is to be done next for a volume that is to be attached, from what EC2 shows of it. Pure."""

from __future__ import annotations

from enum import Enum

from mooring.csi.errors import Code, CsiError
from mooring.ebs.controller_service.device_names import canonical
from mooring.ebs.ec2.records import Volume

STUCK_S = 90.0
"""An attachment that takes longer does not come any more (upstream issue 2833): the guest still holds the
name."""


class Step(Enum):
    """What is to be done next for a volume that is to be attached."""

    DONE = "done"
    WAIT = "wait"
    ATTACH = "attach"
    GIVE_UP = "give up"
    """The attaching is stuck."""


def next_step(volume: Volume, node: str, mine: str, proven: bool, attaching_s: float) -> Step:
    """From what EC2 shows of the volume. `mine` is the device name that this operation has asked for, empty
    if it has not yet; `proven`: the description is younger than all that we know of; `attaching_s`: for how
    long it has been attaching. Raises CsiError if it can not be attached."""
    attachment = volume.attachment(node)
    if attachment is None:
        return _unattached_step(volume, node, mine, proven)
    if attachment.state == "attached":
        is_mine = bool(mine) and canonical(attachment.device) == canonical(mine)
        return Step.DONE if is_mine or proven else Step.WAIT
    if attachment.state == "attaching" and attaching_s > STUCK_S:
        return Step.GIVE_UP
    return Step.WAIT  # attaching, detaching, busy: EC2 is at it


def shown(volume: Volume, node: str) -> str:
    """What EC2 shows of the volume on the instance, for people."""
    attachment = volume.attachment(node)
    if attachment is None:
        return f"EC2 shows it as {volume.state}"
    where = f"{node} as {attachment.device}" if attachment.device else node
    hint = "; the instance still has it open or mounted" if attachment.state == "busy" else ""
    return f"EC2 shows it as {attachment.state} on {where}{hint}"


def _unattached_step(volume: Volume, node: str, mine: str, proven: bool) -> Step:
    if volume.attachments and not volume.multi_attach:
        if proven:
            holders = ", ".join(f"{one.instance_id} ({one.state})" for one in volume.attachments)
            raise CsiError(
                Code.FAILED_PRECONDITION,
                f"volume {volume.id} cannot be attached to {node}: it is attached to {holders}",
            )
        return Step.WAIT
    if volume.state == "creating":
        return Step.WAIT
    if volume.state not in ("available", "in-use"):
        raise CsiError(
            Code.FAILED_PRECONDITION, f"volume {volume.id} cannot be attached: its state is {volume.state}"
        )
    return Step.WAIT if mine and not proven else Step.ATTACH

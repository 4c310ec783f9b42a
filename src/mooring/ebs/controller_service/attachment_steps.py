"""The next step of an attach, from EC2's description of the volume. Pure."""

from __future__ import annotations

from enum import Enum

from mooring.csi.errors import Code, CsiError
from mooring.ebs.controller_service.device_names import canonical
from mooring.ebs.ec2.records import Volume

STUCK_S = 90.0
"""Seconds after which an attach is stuck for good (upstream issue 2833): the guest still holds the device
name."""


class Step(Enum):
    """The next step of an attach."""

    DONE = "done"
    WAIT = "wait"
    ATTACH = "attach"
    GIVE_UP = "give up"
    """The attach is stuck: detach, and try another device name."""


def next_step(volume: Volume, node: str, mine: str, proven: bool, attaching_s: float, stays: bool) -> Step:
    """The next step for the described volume. `mine`: the device name in this operation's AttachVolume, empty
    before the first; `proven`: the description is younger than every known change; `attaching_s`: seconds for
    which the volume has been attaching; `stays`: no DetachVolume without an answer can still be carried out.
    Raises CsiError if it cannot be attached."""
    attachment = volume.attachment(node)
    if attachment is None:
        return _unattached_step(volume, node, mine, proven)
    if attachment.state == "attached":
        is_mine = bool(mine) and canonical(attachment.device) == canonical(mine)
        return Step.DONE if proven or (is_mine and stays) else Step.WAIT
    if attachment.state == "attaching" and attaching_s > STUCK_S:
        return Step.GIVE_UP
    return Step.WAIT  # attaching, detaching, busy: EC2 is still working on it


def shown(volume: Volume, node: str) -> str:
    """The state that EC2 shows of the volume on the instance, as text for people."""
    attachment = volume.attachment(node)
    if attachment is None:
        return f"EC2 shows it as {volume.state}"
    where = f"{node} as {attachment.device}" if attachment.device else node
    hint = "; the instance still has it open or mounted" if attachment.state == "busy" else ""
    return f"EC2 shows it as {attachment.state} on {where}{hint}"


def _unattached_step(volume: Volume, node: str, mine: str, proven: bool) -> Step:
    if volume.attachments and not volume.multi_attach:
        if proven:
            holders = ", ".join(f"{each.instance_id} ({each.state})" for each in volume.attachments)
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

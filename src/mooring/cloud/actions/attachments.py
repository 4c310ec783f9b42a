"""AttachVolume and DetachVolume: a volume becomes a device of an instance, and is taken away again.

EC2 does not document the order of its refusals; here missing resources come first, then zones and states,
then the device name, then limits.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.cloud.actions.device_names import check, same
from mooring.cloud.actions.instance_types import instance_types
from mooring.cloud.actions.volumes import attachment_answer
from mooring.cloud.errors import Ec2Error
from mooring.cloud.records.resources import Attachment, Instance, Volume
from mooring.cloud.region import Action, Region, dry_run
from mooring.cloud.requests.parameters import Request, check_id, flag, invalid, number, one_id, text

MOST_INSTANCES = 16
"""The most instances to which a Multi-Attach volume can be attached."""

replace = msgspec.structs.replace


async def attach_volume(region: Region, request: Request) -> dict[str, Any]:
    """Begins to attach a volume."""
    volume_id, instance_id = one_id(request, "VolumeId", "vol"), one_id(request, "InstanceId", "i")
    device = check(text(request, "Device", required=True))
    volume, instance = region.volume(volume_id), region.instance(instance_id)
    _check_states(volume, instance)
    _check_device(region, instance, device)
    card = _card(request, instance)
    beyond = _is_beyond_limit(region, instance)
    dry_run(request)
    attachment = Attachment(
        instance.id, device, "attaching", region.clock(), _due(region, volume, instance, device, beyond), card
    )
    region.store.put(volume.with_attachment(attachment))
    return attachment_answer(volume, attachment)


async def detach_volume(region: Region, request: Request) -> dict[str, Any]:
    """Begins to detach a volume. A volume that is still attaching can be detached, too."""
    volume = region.volume(one_id(request, "VolumeId", "vol"))
    attachment = _attachment(region, request, volume)
    force = flag(request, "Force")
    instance = region.store.instances.get(attachment.instance)
    _check_detachable(attachment, instance, force)
    dry_run(request)
    if force and instance is not None and attachment.state != "attached":
        burned = dict.fromkeys((*instance.burned, attachment.device))
        region.store.put(replace(instance, burned=tuple(burned)))
    detaching = _detaching(region, volume, attachment, force)
    region.store.put(volume.with_attachment(detaching))
    return attachment_answer(volume, detaching, "detaching")


# --- attaching


def _check_states(volume: Volume, instance: Instance) -> None:
    if volume.attachment(instance.id):
        raise Ec2Error("VolumeInUse", f"{volume.id} is already attached to {instance.id}")
    if instance.state not in ("running", "stopped"):
        raise Ec2Error("IncorrectState", f"Instance '{instance.id}' is not 'running'.")
    if volume.attachments and not volume.multi_attach:
        raise Ec2Error("VolumeInUse", f"{volume.id} is already attached to an instance")
    if volume.state not in ("available", "in-use"):
        raise Ec2Error("IncorrectState", f"{volume.id} is not 'available'.")
    if volume.zone != instance.zone:
        raise Ec2Error(
            "InvalidVolume.ZoneMismatch",
            f"The volume '{volume.id}' is not in the same availability zone as instance '{instance.id}'",
        )
    if volume.multi_attach and not instance_types()[instance.type].nitro:
        raise Ec2Error(
            "UnsupportedOperation",
            f"Instance type {instance.type} of '{instance.id}' does not support Multi-Attach.",
        )
    if len(volume.attachments) >= MOST_INSTANCES:
        raise Ec2Error("VolumeInUse", f"{volume.id} is already attached to {MOST_INSTANCES} instances")


def _check_device(region: Region, instance: Instance, device: str) -> None:
    taken = {same(name) for name in region.settings.hidden_devices}
    for volume in region.store.attached(instance.id):
        taken |= {same(each.device) for each in volume.attachments if each.instance == instance.id}
    if same(device) in taken:
        raise Ec2Error(
            "InvalidParameterValue",
            f"Invalid value '{device}' for unixDevice. Attachment point {device} is already in use",
        )


def _card(request: Request, instance: Instance) -> int:
    card = number(request, "EbsCardIndex") or 0
    cards = instance_types()[instance.type].cards
    if not 0 <= card < cards:
        invalid(
            "ebsCardIndex",
            card,
            f"Instance type {instance.type} has {cards} EBS card{'s' if cards > 1 else ''}.",
        )
    return card


def _is_beyond_limit(region: Region, instance: Instance) -> bool:
    room = instance_types()[instance.type].room(instance.interfaces)
    if sum(1 for _ in region.store.attached(instance.id)) < room:
        return False
    if region.settings.over_limit == "refuse":
        raise Ec2Error(
            "AttachmentLimitExceeded",
            f"Volume attachment limit exceeded: instance '{instance.id}' of type {instance.type} takes {room} volumes.",
        )
    return True


def _due(region: Region, volume: Volume, instance: Instance, device: str, beyond: bool) -> float:
    settings = region.settings
    done = region.delay(settings.attaching_s)
    burned = {
        same(name.removeprefix(f"{instance.id}:")) for name in (*settings.burned_devices, *instance.burned)
    }
    if beyond or same(device) in burned:
        return 0.0
    if volume.id in settings.stuck_attach or region.chance(settings.stuck_attach_share):
        return done + settings.stuck_s if settings.stuck_s else 0.0
    return done


# --- detaching


def _attachment(region: Region, request: Request, volume: Volume) -> Attachment:
    instance, device = text(request, "InstanceId"), text(request, "Device")
    if instance:
        region.instance(check_id(instance, "i"))
    if not volume.attachments:
        raise Ec2Error("IncorrectState", f"Volume '{volume.id}' is in the '{volume.state}' state.")
    if not instance and len(volume.attachments) > 1:
        raise Ec2Error(
            "MissingParameter", f"Volume '{volume.id}' has several attachments: name the instance."
        )
    first = next(iter(volume.attachments))
    found = volume.attachment(instance) if instance else first
    if found is None or (device and same(device) != same(found.device)):
        where = f"instance '{instance or first.instance}'" + (f" as {device}" if device else "")
        raise Ec2Error("InvalidAttachment.NotFound", f"The volume '{volume.id}' is not attached to {where}.")
    return found


def _check_detachable(attachment: Attachment, instance: Instance | None, force: bool) -> None:
    if attachment.state in ("detaching", "busy") and not force:
        raise Ec2Error(
            "IncorrectState",
            f"The attachment to '{attachment.instance}' is already in the '{attachment.state}' state.",
        )
    is_root = instance is not None and same(attachment.device) == same(instance.root_device)
    if is_root and instance is not None and instance.state != "stopped":
        raise Ec2Error(
            "OperationNotPermitted",
            f"Unable to detach root volume from instance '{instance.id}': it is {instance.state}",
        )


def _detaching(region: Region, volume: Volume, attachment: Attachment, force: bool) -> Attachment:
    settings = region.settings
    due = region.delay(settings.detaching_s)
    stuck = volume.id in settings.stuck_detach or region.chance(settings.stuck_detach_share)
    state = "busy" if attachment.state == "busy" else "detaching"
    return replace(attachment, state=state, due=due, force=force, stuck=stuck and not force)


ACTIONS: dict[str, Action] = {"AttachVolume": attach_volume, "DetachVolume": detach_volume}

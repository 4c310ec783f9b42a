"""Launching, stopping, starting and terminating instances. `instance_answers` describes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from mooring.cloud.actions.client_tokens import earlier, remember
from mooring.cloud.actions.device_names import check, same
from mooring.cloud.actions.instance_answers import reservation_answer, state_answer
from mooring.cloud.actions.instance_types import instance_types
from mooring.cloud.actions.tags import tags_for
from mooring.cloud.actions.volume_types import shape
from mooring.cloud.errors import Ec2Error
from mooring.cloud.records.resources import Attachment, Instance, Volume
from mooring.cloud.region import Action, Region, dry_run
from mooring.cloud.requests.parameters import (
    Request,
    ids,
    invalid,
    missing,
    not_found,
    number,
    structure,
    structures,
    text,
)
from mooring.cloud.settings import Delay

MOST_AT_ONCE = 1000

replace = msgspec.structs.replace


class Launch(msgspec.Struct, frozen=True):
    """What an instance is to be like. `root_size` in GiB, 0: as in the settings."""

    type: str
    zone: str
    image: str = "ami-00000000000000000"
    tags: dict[str, str] = {}
    root_tags: dict[str, str] = {}
    root_size: int = 0
    keep_root: bool = False
    """Whether the root volume outlives the instance."""
    interfaces: int = 1
    token: str = ""


async def run_instances(region: Region, request: Request) -> dict[str, Any]:
    """Launches instances, each with a root volume. Only the parameters that matter to storage have an
    effect."""
    count, wanted = _count(request), _wanted(region, request)
    place = structure(request, "Placement")
    scope = wanted.zone if place.get("AvailabilityZone") or place.get("AvailabilityZoneId") else ""
    old = earlier(region, request, "RunInstances", scope, lambda id: id in region.store.instances.records)
    dry_run(request)
    if old:
        return reservation_answer(region, [region.instance(id) for id in old])
    reservation = region.new_id("r")
    made = [launch_one(region, wanted, reservation, index) for index in range(count)]
    remember(region, request, "RunInstances", scope, tuple(each.id for each in made))
    return reservation_answer(region, made)


def launch_one(
    region: Region, wanted: Launch, reservation: str = "", index: int = 0, *, running: bool = False
) -> Instance:
    """Makes an instance and its root volume; it is "pending" at first, or `running` at once."""
    instance = Instance(
        id=region.new_id("i"),
        reservation=reservation or region.new_id("r"),
        type=wanted.type,
        zone=wanted.zone,
        launched=region.clock(),
        state="running" if running else "pending",
        number=1 + max((each.number for each in region.store.instances.records.values()), default=0),
        image=wanted.image,
        root_device=region.settings.root_device,
        interfaces=wanted.interfaces,
        launch_index=index,
        client_token=wanted.token,
        tags=wanted.tags,
        due=0.0 if running else region.delay(region.settings.starting_s),
    )
    region.store.put(instance)
    region.store.put(_root_volume(region, instance, wanted))
    return instance


async def terminate_instances(region: Region, request: Request) -> dict[str, Any]:
    """Terminates instances; when they have ended, their volumes are force-detached."""
    found = _named(region, request)
    dry_run(request)
    changes = [(each, _terminating(region, each)) for each in found]
    return {"TerminatingInstances": _changed(region, changes)}


async def stop_instances(region: Region, request: Request) -> dict[str, Any]:
    """Stops instances; their volumes stay attached."""
    found = _in_states(region, request, ("running", "stopping", "stopped"), "stopped")
    dry_run(request)

    def stopping(one: Instance, due: float) -> Instance:
        return replace(one, state="stopping", due=due, reason="User initiated")

    changes = _begun(region, found, "running", region.settings.stopping_s, stopping)
    return {"StoppingInstances": _changed(region, changes)}


async def start_instances(region: Region, request: Request) -> dict[str, Any]:
    """Starts stopped instances: a new launch, of which LaunchTime tells. Device names that force detaches had
    made unusable can be used again."""
    found = _in_states(region, request, ("stopped", "pending", "running"), "started")
    dry_run(request)

    def starting(one: Instance, due: float) -> Instance:
        started = replace(_booted(region, one), launched=region.clock())
        return replace(started, state="pending", due=due, reason="")

    changes = _begun(region, found, "stopped", region.settings.starting_s, starting)
    return {"StartingInstances": _changed(region, changes)}


async def reboot_instances(region: Region, request: Request) -> dict[str, Any]:
    """Restarts the guests; volumes stay attached."""
    found = _named(region, request)
    for each in found:
        if each.state not in ("running", "pending"):
            raise Ec2Error("IncorrectState", f"The instance '{each.id}' is not running.")
    dry_run(request)
    for each in found:
        region.store.put(_booted(region, each))
    return {}


# --- what is wanted


def _wanted(region: Region, request: Request) -> Launch:
    type = text(request, "InstanceType") or region.settings.instance_type
    if type not in instance_types():
        invalid("InstanceType", type, "There is no such instance type.")
    root_size, keep_root = _root(region, request)
    return Launch(
        type,
        _zone(region, request),
        text(request, "ImageId", required=True),
        tags_for(request, "instance", also=("volume", "network-interface")),
        tags_for(request, "volume", also=("instance", "network-interface")),
        root_size,
        keep_root,
        _interfaces(request, type),
        text(request, "ClientToken"),
    )


def _count(request: Request) -> int:
    least, most = number(request, "MinCount"), number(request, "MaxCount")
    if least is None or most is None:
        missing("MinCount" if least is None else "MaxCount")
    if not 1 <= least <= most:
        invalid("MinCount", least, "It must be at least 1, and not more than MaxCount.")
    if most > MOST_AT_ONCE:
        raise Ec2Error("InstanceLimitExceeded", f"At most {MOST_AT_ONCE} instances can be launched at once.")
    return most


def _zone(region: Region, request: Request) -> str:
    place = structure(request, "Placement")
    name = text(place, "AvailabilityZone") or text(place, "AvailabilityZoneId")
    return region.zone_of(name) if name else region.settings.zones[0]


def _root(region: Region, request: Request) -> tuple[int, bool]:
    """Size of the root volume, and whether it outlives the instance."""
    size, keep = region.settings.root_size, False
    for mapping in structures(request, "BlockDeviceMappings"):
        device, ebs = check(text(mapping, "DeviceName", required=True)), structure(mapping, "Ebs")
        if same(device) != same(region.settings.root_device):
            raise Ec2Error(
                "UnsupportedOperation",
                f"{device}: only the root device can be mapped at launch; use AttachVolume.",
            )
        size = number(ebs, "VolumeSize") or size
        keep = ebs.get("DeleteOnTermination") is False
    shape("gp3", size, None, None, False)
    return size, keep


def _interfaces(request: Request, type: str) -> int:
    wanted, most = max(1, len(structures(request, "NetworkInterfaces"))), instance_types()[type].interfaces
    if wanted > most:
        raise Ec2Error(
            "AttachmentLimitExceeded",
            f"Interface count {wanted} exceeds the limit for {type}, which is {most}.",
        )
    return wanted


def _in_states(region: Region, request: Request, states: tuple[str, ...], participle: str) -> list[Instance]:
    """The instances that the request names. Raises Ec2Error if one is in another state than these."""
    found = _named(region, request)
    for each in found:
        if each.state not in states:
            raise Ec2Error(
                "IncorrectInstanceState",
                f"The instance '{each.id}' is not in a state from which it can be {participle}.",
            )
    return found


def _begun(
    region: Region,
    instances: Sequence[Instance],
    state: str,
    takes: Delay,
    begin: Callable[[Instance, float], Instance],
) -> list[tuple[Instance, Instance]]:
    """Each instance before and after: `begin` changes those in this state; the others stay as they are."""
    # A delay is drawn for every instance, whatever its state, so that one instance's state does not change
    # the random numbers of the others.
    due = [region.delay(takes) for _ in instances]
    return [
        (one, begin(one, at) if one.state == state else one) for one, at in zip(instances, due, strict=True)
    ]


def _named(region: Region, request: Request) -> list[Instance]:
    named: Sequence[str] = ids(request, "InstanceIds", "i")
    if not named:
        missing("InstanceId")
    found = [region.store.instances.get(id) for id in named]
    if absent := [id for id, one in zip(named, found, strict=True) if one is None]:
        raise not_found("i", absent)
    return [each for each in found if each is not None]


# --- what is made


def _root_volume(region: Region, instance: Instance, wanted: Launch) -> Volume:
    attachment = Attachment(
        instance.id,
        instance.root_device,
        "attached",
        region.clock(),
        delete_on_termination=not wanted.keep_root,
    )
    return Volume(
        id=region.new_id("vol"),
        size=wanted.root_size or region.settings.root_size,
        type="gp3",
        iops=3000,
        throughput=125,
        zone=instance.zone,
        created=region.clock(),
        state="in-use",
        tags=wanted.root_tags,
        attachments=(attachment,),
    )


def _terminating(region: Region, instance: Instance) -> Instance:
    due = region.delay(region.settings.terminating_s)
    if instance.state in ("shutting-down", "terminated"):
        return instance
    return replace(instance, state="shutting-down", due=due, reason="User initiated")


def _booted(region: Region, instance: Instance) -> Instance:
    """The instance as its guest finds it at a start: no unusable device names, and its present devices."""
    attached = [volume.attachment(instance.id) for volume in region.store.attached(instance.id)]
    devices = sorted(each.device for each in attached if each and each.device != instance.root_device)
    return replace(instance, burned=(), boot_devices=tuple(devices))


def _changed(region: Region, changes: Sequence[tuple[Instance, Instance]]) -> list[dict[str, Any]]:
    for before, after in changes:
        if after is not before:
            region.store.put(after)
    return [
        {"InstanceId": after.id, "PreviousState": state_answer(before), "CurrentState": state_answer(after)}
        for before, after in changes
    ]


ACTIONS: dict[str, Action] = {
    "RunInstances": run_instances,
    "TerminateInstances": terminate_instances,
    "StopInstances": stop_instances,
    "StartInstances": start_instances,
    "RebootInstances": reboot_instances,
}

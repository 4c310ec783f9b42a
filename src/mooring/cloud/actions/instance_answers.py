"""DescribeInstances and DescribeInstanceStatus: instances as answers show them.

The block devices of an instance lag like the instance's own record (`instances_lag_s`), so they may be older
or newer than DescribeVolumes' answer. They have no state "busy"; such a device is "detaching".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from mooring.cloud.actions.instance_types import instance_types
from mooring.cloud.records.resources import Attachment, Instance, Volume
from mooring.cloud.region import Action, Region, dry_run, moment, paged, select, stamp, tag_list, zone_id
from mooring.cloud.requests.filters import Fields
from mooring.cloud.requests.paging import page_of
from mooring.cloud.requests.parameters import Request, filters, flag, ids

STATES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}
VPC, SUBNET = "vpc-00000000000000001", "subnet-0000000000000000"


async def describe_instances(region: Region, request: Request) -> dict[str, Any]:
    """Instances by id or filter, page by page; each reservation with its instances of this page."""
    wanted, named = filters(request), ids(request, "InstanceIds", "i")
    page = page_of("DescribeInstances", request, 5, 1000, ids=named, with_ids=False)
    time = region.as_of(region.settings.instances_lag_s)
    found = select(region.store.instances, wanted, _fields(region, time), prefix="i", ids=named, time=time)
    dry_run(request)
    shown, more = paged(found, page)
    reservations: dict[str, list[Instance]] = {}
    for instance in shown:
        reservations.setdefault(instance.reservation, []).append(instance)
    return {"Reservations": [reservation_answer(region, of, time) for of in reservations.values()], **more}


async def describe_instance_status(region: Region, request: Request) -> dict[str, Any]:
    """The state of running instances, or of all."""
    wanted, named, every = (
        filters(request),
        ids(request, "InstanceIds", "i"),
        flag(request, "IncludeAllInstances"),
    )
    page = page_of("DescribeInstanceStatus", request, 5, 1000, ids=named, with_ids=False)
    time = region.as_of(region.settings.instances_lag_s)
    names = ("availability-zone", "availability-zone-id", "instance-state-code", "instance-state-name")
    fields = {name: read for name, read in _fields(region, time).items() if name in names}
    found = select(region.store.instances, wanted, fields, prefix="i", ids=named, time=time)
    dry_run(request)
    shown, more = paged([each for each in found if every or each.state == "running"], page)
    return {"InstanceStatuses": [_status_answer(region, each) for each in shown], **more}


def reservation_answer(
    region: Region, instances: Sequence[Instance], time: float | None = None
) -> dict[str, Any]:
    """Instances that were launched together, as of `time`."""
    return {
        "ReservationId": instances[0].reservation,
        "OwnerId": region.settings.account,
        "Groups": [],
        "Instances": [instance_answer(region, each, time) for each in instances],
    }


def instance_answer(region: Region, instance: Instance, time: float | None = None) -> dict[str, Any]:
    """An instance as answers show it."""
    facts = instance_types()[instance.type]
    answer: dict[str, Any] = {
        "InstanceId": instance.id,
        "ImageId": instance.image,
        "InstanceType": instance.type,
        "State": state_answer(instance),
        "StateTransitionReason": instance.reason,
        "AmiLaunchIndex": instance.launch_index,
        "LaunchTime": moment(instance.launched),
        "Placement": {
            "AvailabilityZone": instance.zone,
            "AvailabilityZoneId": zone_id(region.settings, instance.zone),
            "GroupName": "",
            "Tenancy": "default",
        },
        "Architecture": facts.architecture,
        "Hypervisor": "xen",
        "VirtualizationType": "hvm",
        "RootDeviceName": instance.root_device,
        "RootDeviceType": "ebs",
        "EbsOptimized": False,
        "EnaSupport": True,
        "Monitoring": {"State": "disabled"},
        "ProductCodes": [],
        "SecurityGroups": [],
        "PublicDnsName": "",
        "BlockDeviceMappings": block_devices(region, instance, time),
        "Tags": tag_list(instance.tags),
    }
    if instance.client_token:
        answer["ClientToken"] = instance.client_token
    return answer | (
        _network(region, instance) if instance.state != "terminated" else {"NetworkInterfaces": []}
    )


def block_devices(region: Region, instance: Instance, time: float | None = None) -> list[dict[str, Any]]:
    """The volumes of the instance as its own description shows them."""
    found = [
        (attachment.time, attachment.device, volume, attachment)
        for volume in region.store.attached(instance.id, time)
        if (attachment := volume.attachment(instance.id))
    ]
    found.sort(key=lambda one: one[:2])
    return [_device(volume, attachment) for _, _, volume, attachment in found]


def private_address(instance: Instance, interface: int = 0) -> str:
    """The private IPv4 address of one of its network interfaces."""
    return f"10.{interface}.{instance.number >> 8 & 255}.{instance.number & 255}"


def mac_address(instance: Instance, interface: int = 0) -> str:
    """The MAC address of one of its network interfaces."""
    return "02:00:" + ":".join(f"{int(part):02x}" for part in private_address(instance, interface).split("."))


def private_name(region: Region, instance: Instance) -> str:
    """Its private DNS name."""
    inner = "ec2" if region.settings.region == "us-east-1" else f"{region.settings.region}.compute"
    return f"ip-{private_address(instance).replace('.', '-')}.{inner}.internal"


def state_answer(instance: Instance) -> dict[str, Any]:
    """Its state as answers show it."""
    return {"Code": STATES[instance.state], "Name": instance.state}


def _device(volume: Volume, attachment: Attachment) -> dict[str, Any]:
    ebs = {
        "VolumeId": volume.id,
        "Status": "detaching" if attachment.state == "busy" else attachment.state,
        "AttachTime": moment(attachment.time),
        "DeleteOnTermination": attachment.delete_on_termination,
        "EbsCardIndex": attachment.card,
    }
    return {"DeviceName": attachment.device, "Ebs": ebs}


def _network(region: Region, instance: Instance) -> dict[str, Any]:
    subnet = f"{SUBNET}{region.settings.zones.index(instance.zone) if instance.zone in region.settings.zones else 0:x}"
    return {
        "VpcId": VPC,
        "SubnetId": subnet,
        "PrivateIpAddress": private_address(instance),
        "PrivateDnsName": private_name(region, instance),
        "SourceDestCheck": True,
        "NetworkInterfaces": [
            _interface(region, instance, index, subnet) for index in range(instance.interfaces)
        ],
    }


def _interface(region: Region, instance: Instance, index: int, subnet: str) -> dict[str, Any]:
    return {
        "NetworkInterfaceId": f"eni-{instance.number * 16 + index:017x}",
        "MacAddress": mac_address(instance, index),
        "PrivateIpAddress": private_address(instance, index),
        "PrivateIpAddresses": [{"PrivateIpAddress": private_address(instance, index), "Primary": True}],
        "OwnerId": region.settings.account,
        "Status": "in-use",
        "InterfaceType": "interface",
        "SubnetId": subnet,
        "VpcId": VPC,
        "Attachment": {"DeviceIndex": index, "Status": "attached", "AttachTime": moment(instance.launched)},
    }


def _status_answer(region: Region, instance: Instance) -> dict[str, Any]:
    health = "ok" if instance.state == "running" else "not-applicable"
    details = [{"Name": "reachability", "Status": "passed"}] if health == "ok" else []
    return {
        "InstanceId": instance.id,
        "AvailabilityZone": instance.zone,
        "AvailabilityZoneId": zone_id(region.settings, instance.zone),
        "InstanceState": state_answer(instance),
        "InstanceStatus": {"Status": health, "Details": details},
        "SystemStatus": {"Status": health, "Details": details},
        "AttachedEbsStatus": {"Status": health, "Details": details},
    }


def _fields(region: Region, time: float | None) -> Fields[Instance]:
    devices = partial(_attachments, region, time)
    return {
        "architecture": lambda one: (instance_types()[one.type].architecture,),
        "availability-zone": lambda one: (one.zone,),
        "availability-zone-id": lambda one: (zone_id(region.settings, one.zone),),
        "block-device-mapping.attach-time": lambda one: [stamp(at.time) for _, at in devices(one)],
        "block-device-mapping.delete-on-termination": lambda one: [
            str(at.delete_on_termination).lower() for _, at in devices(one)
        ],
        "block-device-mapping.device-name": lambda one: [at.device for _, at in devices(one)],
        "block-device-mapping.status": lambda one: [
            "detaching" if at.state == "busy" else at.state for _, at in devices(one)
        ],
        "block-device-mapping.volume-id": lambda one: [volume.id for volume, _ in devices(one)],
        "client-token": lambda one: (one.client_token,),
        "image-id": lambda one: (one.image,),
        "instance-id": lambda one: (one.id,),
        "instance-state-code": lambda one: (str(STATES[one.state]),),
        "instance-state-name": lambda one: (one.state,),
        "instance-type": lambda one: (one.type,),
        "launch-index": lambda one: (str(one.launch_index),),
        "launch-time": lambda one: (stamp(one.launched),),
        "network-interface.mac-address": lambda one: [
            mac_address(one, index) for index in range(one.interfaces)
        ],
        "owner-id": lambda _: (region.settings.account,),
        "private-dns-name": lambda one: (private_name(region, one),),
        "private-ip-address": lambda one: (private_address(one),),
        "reservation-id": lambda one: (one.reservation,),
        "root-device-name": lambda one: (one.root_device,),
        "root-device-type": lambda _: ("ebs",),
        "vpc-id": lambda _: (VPC,),
    }


def _attachments(region: Region, time: float | None, instance: Instance) -> list[tuple[Volume, Attachment]]:
    volumes = region.store.attached(instance.id, time)
    return [(volume, attachment) for volume in volumes if (attachment := volume.attachment(instance.id))]


ACTIONS: dict[str, Action] = {
    "DescribeInstances": describe_instances,
    "DescribeInstanceStatus": describe_instance_status,
}

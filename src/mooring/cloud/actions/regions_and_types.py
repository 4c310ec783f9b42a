"""Regions, availability zones and instance types, which no request changes."""

from __future__ import annotations

from typing import Any, NamedTuple

from mooring.cloud.actions.instance_types import InstanceType, instance_types
from mooring.cloud.errors import Ec2Error
from mooring.cloud.region import Action, Region, dry_run, paged, zone_id
from mooring.cloud.requests.filters import Fields, Matcher, yes_or_no
from mooring.cloud.requests.paging import page_of
from mooring.cloud.requests.parameters import Request, filters, texts


class Named(NamedTuple):
    """A place by its name."""

    id: str


class TypeRow(NamedTuple):
    """An instance type by its name, which also orders it."""

    id: str
    facts: InstanceType


async def describe_availability_zones(region: Region, request: Request) -> dict[str, Any]:
    """The region's zones."""
    settings = region.settings
    fields: Fields[Named] = {
        "zone-name": lambda zone: (zone.id,),
        "zone-id": lambda zone: (zone_id(settings, zone.id),),
        "region-name": lambda _: (settings.region,),
        "group-name": lambda _: (f"{settings.region}-zg-1",),
        "state": lambda _: ("available",),
        "opt-in-status": lambda _: ("opt-in-not-required",),
        "zone-type": lambda _: ("availability-zone",),
        "message": lambda _: (),
        "parent-zone-id": lambda _: (),
        "parent-zone-name": lambda _: (),
    }
    passes = Matcher(filters(request), fields)
    names = [region.zone_of(name) for name in (*texts(request, "ZoneNames"), *texts(request, "ZoneIds"))]
    dry_run(request)
    zones = [zone for zone in settings.zones if (not names or zone in names) and passes(Named(zone))]
    return {"AvailabilityZones": [_zone_answer(region, zone) for zone in zones]}


async def describe_regions(region: Region, request: Request) -> dict[str, Any]:
    """This region."""
    name = region.settings.region
    endpoint = f"ec2.{name}.amazonaws.com"
    fields: Fields[Named] = {
        "region-name": lambda one: (one.id,),
        "endpoint": lambda _: (endpoint,),
        "opt-in-status": lambda _: ("opt-in-not-required",),
    }
    passes = Matcher(filters(request), fields)
    for wanted in texts(request, "RegionNames"):
        if wanted != name:
            raise Ec2Error("InvalidParameterValue", f"Invalid region provided: {wanted}")
    dry_run(request)
    shown = [{"RegionName": name, "Endpoint": endpoint, "OptInStatus": "opt-in-not-required"}]
    return {"Regions": shown if passes(Named(name)) else []}


async def describe_instance_types(region: Region, request: Request) -> dict[str, Any]:
    """What each instance type offers, as far as storage is concerned."""
    passes, named = Matcher(filters(request), TYPE_FIELDS), texts(request, "InstanceTypes")
    page = page_of("DescribeInstanceTypes", request, 5, 100, ids=named, with_ids=False)
    types = instance_types()
    if absent := [name for name in named if name not in types]:
        raise Ec2Error(
            "InvalidInstanceType",
            f"The following supplied instance types do not exist: [{', '.join(absent)}]",
        )
    if len(named) > 100:
        raise Ec2Error("InvalidParameterValue", "At most 100 instance types can be named in one call.")
    dry_run(request)
    found = sorted(TypeRow(name, types[name]) for name in named or types)
    shown, more = paged([each for each in found if passes(each)], page)
    return {"InstanceTypes": [type_answer(each.id, each.facts) for each in shown], **more}


def type_answer(name: str, facts: InstanceType) -> dict[str, Any]:
    """An instance type as answers show it."""
    ebs: dict[str, Any] = {
        "EbsOptimizedSupport": "default",
        "EncryptionSupport": "supported",
        "NvmeSupport": "required" if facts.nitro else "unsupported",
        "MaximumEbsAttachments": facts.limit,
        "AttachmentLimitType": facts.kind,
    }
    if facts.cards > 1:
        ebs |= {
            "MaximumEbsCards": facts.cards,
            "EbsCards": [{"EbsCardIndex": card} for card in range(facts.cards)],
        }
    answer: dict[str, Any] = {
        "InstanceType": name,
        "CurrentGeneration": True,
        "BareMetal": facts.bare_metal,
        "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": ["hvm"],
        "SupportedUsageClasses": ["on-demand", "spot"],
        "ProcessorInfo": {"SupportedArchitectures": [facts.architecture]},
        "VCpuInfo": {"DefaultVCpus": facts.vcpus},
        "MemoryInfo": {"SizeInMiB": facts.memory},
        "EbsInfo": ebs,
        "NetworkInfo": {"MaximumNetworkInterfaces": facts.interfaces},
    }
    return answer | ({"Hypervisor": facts.hypervisor} if facts.hypervisor else {})


TYPE_FIELDS: Fields[TypeRow] = {
    "bare-metal": lambda one: yes_or_no(one.facts.bare_metal),
    "ebs-info.attachment-limit-type": lambda one: (one.facts.kind,),
    "ebs-info.maximum-ebs-attachments": lambda one: (str(one.facts.limit),),
    "ebs-info.maximum-ebs-cards": lambda one: (str(one.facts.cards),),
    "hypervisor": lambda one: (one.facts.hypervisor,),
    "instance-type": lambda one: (one.id,),
    "memory-info.size-in-mib": lambda one: (str(one.facts.memory),),
    "network-info.maximum-network-interfaces": lambda one: (str(one.facts.interfaces),),
    "processor-info.supported-architecture": lambda one: (one.facts.architecture,),
    "vcpu-info.default-vcpus": lambda one: (str(one.facts.vcpus),),
}


def _zone_answer(region: Region, zone: str) -> dict[str, Any]:
    settings = region.settings
    return {
        "ZoneName": zone,
        "ZoneId": zone_id(settings, zone),
        "RegionName": settings.region,
        "State": "available",
        "OptInStatus": "opt-in-not-required",
        "GroupName": f"{settings.region}-zg-1",
        "NetworkBorderGroup": settings.region,
        "ZoneType": "availability-zone",
        "Messages": [],
    }


ACTIONS: dict[str, Action] = {
    "DescribeAvailabilityZones": describe_availability_zones,
    "DescribeInstanceTypes": describe_instance_types,
    "DescribeRegions": describe_regions,
}

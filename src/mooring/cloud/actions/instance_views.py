"""An instance as its metadata service and the control API show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from mooring.cloud.actions.instance_answers import mac_address, private_address
from mooring.cloud.records.resources import Instance
from mooring.cloud.region import Region, moment, zone_id


@dataclass(frozen=True)
class InstanceView:
    """`state` as in DescribeInstances."""

    instance_id: str
    instance_type: str
    zone: str
    zone_id: str
    state: str
    account: str
    image_id: str
    private_ip: str
    launched: datetime
    macs: tuple[str, ...]
    """Of its network interfaces, the first one first."""
    boot_devices: Mapping[str, str]
    """The block device mapping of its last start: {"ami": "xvda", "root": "/dev/xvda", "ebs1": "xvdba"}."""


def view(region: Region, instance: Instance) -> InstanceView:
    """The instance's view, from its record."""
    return InstanceView(
        instance_id=instance.id,
        instance_type=instance.type,
        zone=instance.zone,
        zone_id=zone_id(region.settings, instance.zone),
        state=instance.state,
        account=region.settings.account,
        image_id=instance.image,
        private_ip=private_address(instance),
        launched=moment(instance.launched),
        macs=tuple(mac_address(instance, index) for index in range(instance.interfaces)),
        boot_devices=_boot_devices(instance),
    )


def _boot_devices(instance: Instance) -> dict[str, str]:
    root = instance.root_device
    others = {
        f"ebs{index}": name.removeprefix("/dev/") for index, name in enumerate(instance.boot_devices, 1)
    }
    return {"ami": root.removeprefix("/dev/"), "root": root, **others}

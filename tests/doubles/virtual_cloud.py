"""A cloud whose time passes when the test says so."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from mooring.cloud.cloud import Cloud
from mooring.cloud.errors import Ec2Error
from mooring.cloud.interface import Devices, Journal, NoDevices, NoJournal, Power
from mooring.cloud.settings import Settings, from_json

START = 1_700_000_000.0


class KeptRecords(Journal):
    """A journal in memory, which outlives its cloud; `saves` counts transactions."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, str], bytes] = {}
        self.saves: list[list[tuple[str, str]]] = []

    def load(self):
        return [(kind, id, content) for (kind, id), content in self.records.items()]

    def save(self, changes):
        changes = list(changes)
        self.saves.append([(kind, id) for kind, id, _ in changes])
        for kind, id, content in changes:
            if content is None:
                self.records.pop((kind, id), None)
            else:
                self.records[kind, id] = content


class VirtualCloud:
    """A cloud, its clock, and short words for what tests ask of it."""

    def __init__(
        self,
        seed: int = 0,
        devices: Devices | None = None,
        journal: Journal | None = None,
        now: float = START,
        power: Power | None = None,
        **settings: Any,
    ) -> None:
        self.now = now
        made: Settings = from_json({"throttling": False, **settings})
        self.cloud = Cloud(
            settings=made,
            clock=lambda: self.now,
            rng=random.Random(seed),
            devices=devices or NoDevices(),
            journal=journal or NoJournal(),
            power=power,
        )

    async def __call__(self, action: str, **request: Any) -> dict[str, Any]:
        """Carries out a request."""
        return await self.cloud.call(action, request)

    async def refused(self, action: str, **request: Any) -> Ec2Error:
        """The refusal of a request."""
        with pytest.raises(Ec2Error) as caught:
            await self.cloud.call(action, request)
        return caught.value

    async def code(self, action: str, **request: Any) -> str:
        """The code of the refusal of a request."""
        return (await self.refused(action, **request)).code

    async def wait(self, seconds: float) -> None:
        """Time passes; what becomes due happens in time."""
        until = self.now + seconds
        while (due := await self.cloud.settle()) is not None and due <= until:
            self.now = max(self.now, due)
        self.now = until
        await self.cloud.settle()

    # --- short words

    async def volume(self, **request: Any) -> str:
        """An available volume."""
        wanted = {"Size": 1, "VolumeType": "gp3", "AvailabilityZone": "us-east-1a", **request}
        made = await self("CreateVolume", **wanted)
        await self.wait(10)
        return made["VolumeId"]

    async def shown(self, volume: str) -> dict[str, Any]:
        """The volume as DescribeVolumes shows it."""
        return (await self("DescribeVolumes", VolumeIds=[volume]))["Volumes"][0]

    async def state(self, volume: str) -> str:
        """State of the volume; "" if it is gone."""
        try:
            return (await self.shown(volume))["State"]
        except Ec2Error:
            return ""

    async def attachments(self, volume: str) -> list[tuple[str, str]]:
        """Instance and state of each attachment."""
        return [(one["InstanceId"], one["State"]) for one in (await self.shown(volume))["Attachments"]]

    async def devices_of(self, instance: str) -> dict[str, tuple[str, str]]:
        """By device name, what DescribeInstances shows: volume and status."""
        answer = await self("DescribeInstances", InstanceIds=[instance])
        mappings: Sequence[dict[str, Any]] = answer["Reservations"][0]["Instances"][0]["BlockDeviceMappings"]
        return {one["DeviceName"]: (one["Ebs"]["VolumeId"], one["Ebs"]["Status"]) for one in mappings}

    async def attach(self, volume: str, instance: str, device: str = "/dev/xvdba") -> None:
        """Attaches, and waits for it."""
        await self("AttachVolume", VolumeId=volume, InstanceId=instance, Device=device)
        await self.wait(10)

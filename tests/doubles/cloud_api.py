"""The driver's controller on a cloud in the same process, in virtual time; and ways to die on the way."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mooring.cloud.cloud import Cloud
from mooring.cloud.errors import Ec2Error as Refused
from mooring.cloud.settings import from_json
from mooring.csi.client import Client
from mooring.csi.driver.capacity import GIB
from mooring.csi.driver.dispatch import Dispatcher, LocalChannel
from mooring.csi.driver.services import AccessMode, Driver
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service.controller import GIVES_WAY, IN_FLIGHT, EbsController, make_controller
from mooring.ebs.ec2.api import Ec2Api
from mooring.ebs.errors import Ec2Error, Ec2Unreachable
from mooring.ebs.options import Options
from mooring.mounts.blocking import finish

START = 1_900_000_000.0
LONG_S = 100_000.0


def wall() -> float:
    """Seconds since the epoch, in the loop's time."""
    return START + asyncio.get_running_loop().time()


def now() -> datetime:
    return datetime.fromtimestamp(wall(), UTC)


class CloudApi(Ec2Api):
    """EC2, by a wire that takes `wire_s` each way. What was sent ends, also if the caller is cancelled."""

    def __init__(self, cloud: Cloud, wire_s: float = 0.01) -> None:
        self._cloud = cloud
        self._wire_s = wire_s
        self.calls: list[tuple[float, str, Mapping[str, Any]]] = []

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.calls.append((asyncio.get_running_loop().time(), action, request))
        return await finish(asyncio.ensure_future(self._call(action, request)))

    async def _call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        await asyncio.sleep(self._wire_s)
        try:
            return await self._cloud.call(action, request)
        except Refused as error:
            raise Ec2Error(error.code, error.message, action) from error
        finally:
            await asyncio.sleep(self._wire_s)

    def count(self) -> Counter[str]:
        return Counter(action for _, action, _ in self.calls)


class DyingApi(Ec2Api):
    """From its `number`-th call on (from 1) nothing comes back to the process that calls. `after`: that call
    itself is still carried out."""

    def __init__(self, api: Ec2Api, number: int, after: bool) -> None:
        self._api = api
        self._left = number
        self._after = after
        self.died = asyncio.Event()

    def kill(self) -> None:
        """The process is dead from now on; what was sent is carried out."""
        self._left = 0
        self.died.set()

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self._left -= 1
        if self._left > 0:
            return await self._api.call(action, request)
        if self._left == 0 and self._after:
            with suppress(Ec2Error):
                await self._api.call(action, request)
        self.died.set()
        return await asyncio.get_running_loop().create_future()


class LateApi(Ec2Api):
    """Its first call of `action` has no answer, and is carried out `late_s` later."""

    def __init__(self, api: Ec2Api, action: str, late_s: float) -> None:
        self._api, self._action, self._late_s = api, action, late_s
        self.late: asyncio.Future[None] | None = None

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if action != self._action or self.late is not None:
            return await self._api.call(action, request)
        self.late = asyncio.ensure_future(self._later(request))
        raise Ec2Unreachable("no answer")

    async def _later(self, request: Mapping[str, Any]) -> None:
        await asyncio.sleep(self._late_s)
        with suppress(Ec2Error):
            await self._api.call(self._action, request)


class FrozenApi(Ec2Api):
    """Its process is frozen for `frozen_s` just before its first call of `action`."""

    def __init__(self, api: Ec2Api, action: str, frozen_s: float) -> None:
        self._api, self._action, self._frozen_s = api, action, frozen_s

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if action == self._action:
            await asyncio.sleep(self._frozen_s)
            self._frozen_s = 0
        return await self._api.call(action, request)


class CloudInProcess:
    """A cloud and its instances."""

    def __init__(self, cloud: Cloud, nodes: list[str]) -> None:
        self.cloud = cloud
        self.nodes = nodes
        self.api = CloudApi(cloud)

    def controller(self, api: Ec2Api | None = None, seed: int = 0, **options: Any) -> EbsController:
        """The controller as after a start of its process."""
        options.setdefault("modify_volume_request_handler_timeout", 0.5)
        return make_controller(Options(**options), api or self.api, random=random.Random(seed).random)

    def client(self, api: Ec2Api | None = None, seed: int = 0, **options: Any) -> Client:
        """Calls a new controller as an orchestrator does."""
        return client_of(self.controller(api, seed, **options))

    async def until_dead(self, api: DyingApi, call: Callable[[], Coroutine[Any, Any, Any]]) -> bool:
        """Makes the call until it ends or its process dies; whether it died."""
        task, death = asyncio.ensure_future(call()), asyncio.ensure_future(api.died.wait())
        await asyncio.wait([task, death], return_when=asyncio.FIRST_COMPLETED)
        died = not task.done()
        task.add_done_callback(lambda task: None if task.cancelled() else task.exception())
        death.cancel()
        return died

    def volumes(self) -> dict[str, Any]:
        """What really is, whatever a describe shows; not root devices."""
        found = self.cloud.region.store.volumes.records
        return {
            id: one for id, one in found.items() if "CSIVolumeName" in one.tags and one.state != "deleting"
        }

    def named(self, name: str) -> list[str]:
        return [id for id, one in self.volumes().items() if one.tags["CSIVolumeName"] == name]

    def attached(self, volume: str) -> list[tuple[str, str, str]]:
        """Node, device and state."""
        one = self.volumes()[volume]
        return [(each.instance, each.device, each.state) for each in one.attachments]


@asynccontextmanager
async def world(
    nodes: int = 2, seed: int = 0, zone: str = "", **settings: Any
) -> AsyncIterator[CloudInProcess]:
    """A cloud while it runs."""
    settings.setdefault("instance_type", "m5.large")
    cloud = Cloud(settings=from_json(settings), clock=wall, rng=random.Random(seed))
    ids = cloud.launch(nodes, zone=zone)
    running = asyncio.ensure_future(cloud.run())
    try:
        yield CloudInProcess(cloud, ids)
    finally:
        running.cancel()
        await asyncio.wait([running])


def client_of(controller: EbsController) -> Client:
    driver = Driver(
        name="ebs.csi.aws.com", version="1", controller=controller, in_flight=IN_FLIGHT, gives_way=GIVES_WAY
    )
    return Client(LocalChannel(Dispatcher(driver, [Path("/var/lib/kubelet")])))


# --- requests


def capability(block: bool = False, mode: AccessMode = AccessMode.SINGLE_NODE_WRITER) -> csi.VolumeCapability:
    made = csi.VolumeCapability(access_mode=csi.VolumeCapability.AccessMode(mode=mode))
    if block:
        made.block.SetInParent()
    else:
        made.mount.fs_type = "ext4"
    return made


def create_request(name: str = "pvc-1", gib: int = 10, *zones: str, **more: Any) -> csi.CreateVolumeRequest:
    request = csi.CreateVolumeRequest(name=name, **{"volume_capabilities": [capability()], **more})
    if gib:
        request.capacity_range.required_bytes = gib * GIB
    for zone in zones:
        for topologies in (
            request.accessibility_requirements.preferred,
            request.accessibility_requirements.requisite,
        ):
            topologies.add().segments["topology.kubernetes.io/zone"] = zone
    return request


def publish_request(volume: str, node: str, **more: Any) -> csi.ControllerPublishVolumeRequest:
    return csi.ControllerPublishVolumeRequest(
        volume_id=volume, node_id=node, **{"volume_capability": capability(), **more}
    )


async def create(client: Client, name: str = "pvc-1", gib: int = 10, *zones: str, **more: Any) -> csi.Volume:
    reply = await client.controller.create_volume(create_request(name, gib, *zones, **more), timeout_s=LONG_S)
    return reply.volume


async def delete(client: Client, volume: str) -> None:
    await client.controller.delete_volume(csi.DeleteVolumeRequest(volume_id=volume), timeout_s=LONG_S)


async def publish(client: Client, volume: str, node: str, timeout_s: float = LONG_S, **more: Any) -> str:
    request = publish_request(volume, node, **more)
    reply = await client.controller.controller_publish_volume(request, timeout_s=timeout_s)
    return reply.publish_context["devicePath"]


async def unpublish(client: Client, volume: str, node: str, timeout_s: float = LONG_S) -> None:
    request = csi.ControllerUnpublishVolumeRequest(volume_id=volume, node_id=node)
    await client.controller.controller_unpublish_volume(request, timeout_s=timeout_s)

"""A driver unlike the others: nothing is attached or staged, each node has a zone of its own, it takes its
time, and half of its calls fail, some of them after they were carried out. `ENDPOINT NODE ROOT ALLOWED`.

While the file ROOT/malformed names a method, that method's answers lack what they must have.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from mooring.csi.driver.dispatch import Dispatcher
from mooring.csi.driver.log import log_call
from mooring.csi.driver.server import serving
from mooring.csi.driver.services import (
    ControllerCapability,
    ControllerService,
    Driver,
    NodeService,
    PluginService,
)
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.mounts.host import HostMounts

NAME = "odd.example.com"
ZONE = "odd.example.com/zone"
SLOW_S = 0.1
T = TypeVar("T")


class Odd:
    """What both services have: the storage, and their moods."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: Counter[str] = Counter()

    async def slowly(self, method: str, act: Callable[[], T]) -> T:
        """Of four calls the first is not carried out, and the third one's answer is lost."""
        await asyncio.sleep(SLOW_S)
        turn = self.calls[method] % 4
        self.calls[method] += 1
        if turn == 0:
            raise CsiError(Code.UNAVAILABLE, f"{method}: in no mood")
        answer = act()
        if turn == 2:
            raise CsiError(Code.DEADLINE_EXCEEDED, f"{method}: done, and not told")
        return answer

    def malformed(self, method: str) -> bool:
        path = self.root / "malformed"
        return path.exists() and path.read_text() == method


class OddController(ControllerService):
    capabilities = (ControllerCapability.CREATE_DELETE_VOLUME,)

    def __init__(self, odd: Odd) -> None:
        self.odd = odd

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        def act() -> csi.CreateVolumeResponse:
            if self.odd.malformed("CreateVolume"):
                return csi.CreateVolumeResponse()
            (place, *_) = request.accessibility_requirements.preferred
            zone = place.segments[ZONE]
            folder = self.odd.root / zone / request.name
            folder.mkdir(parents=True, exist_ok=True)
            size = request.capacity_range.required_bytes
            volume = csi.Volume(volume_id=f"{zone}.{request.name}", capacity_bytes=size)
            volume.accessible_topology.add(segments={ZONE: zone})
            return csi.CreateVolumeResponse(volume=volume)

        return await self.odd.slowly("CreateVolume", act)

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        zone, _, name = request.volume_id.partition(".")

        def act() -> csi.DeleteVolumeResponse:
            shutil.rmtree(self.odd.root / zone / name, ignore_errors=True)
            return csi.DeleteVolumeResponse()

        return await self.odd.slowly("DeleteVolume", act)

    async def validate_volume_capabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        return csi.ValidateVolumeCapabilitiesResponse()


class OddNode(NodeService):
    def __init__(self, odd: Odd, node_id: str) -> None:
        self.odd = odd
        self.node_id = node_id
        self.mounts = HostMounts()

    async def node_get_info(self, request: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        if self.odd.malformed("NodeGetInfo"):
            return csi.NodeGetInfoResponse()
        place = csi.Topology(segments={ZONE: f"zone-of-{self.node_id}"})
        return csi.NodeGetInfoResponse(node_id=self.node_id, accessible_topology=place)

    async def node_publish_volume(
        self, request: csi.NodePublishVolumeRequest
    ) -> csi.NodePublishVolumeResponse:
        zone, _, name = request.volume_id.partition(".")
        if zone != f"zone-of-{self.node_id}":
            raise CsiError(
                Code.FAILED_PRECONDITION, f"{request.volume_id} cannot be reached from {self.node_id}"
            )
        await self.odd.slowly("NodePublishVolume", lambda: None)
        await self.mounts.bind_mount(str(self.odd.root / zone / name), request.target_path, read_only=False)
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(
        self, request: csi.NodeUnpublishVolumeRequest
    ) -> csi.NodeUnpublishVolumeResponse:
        await self.odd.slowly("NodeUnpublishVolume", lambda: None)
        await self.mounts.remove_mount_point(request.target_path)
        return csi.NodeUnpublishVolumeResponse()


async def main(endpoint: str, node_id: str, root: Path, allowed: Path) -> None:
    odd = Odd(root)
    services = (PluginService.CONTROLLER_SERVICE, PluginService.VOLUME_ACCESSIBILITY_CONSTRAINTS)
    driver = Driver(NAME, "1", OddController(odd), OddNode(odd, node_id), services)
    async with serving(Dispatcher(driver, [allowed], [log_call]), [endpoint]):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])))

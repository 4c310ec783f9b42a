"""A CSI driver in this process, with a storage whose state a test can read; and the plugin that calls it.

A test decides what it can do, how late it is and how it fails.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mooring.csi.client import Channel
from mooring.csi.driver.dispatch import Dispatcher, LocalChannel
from mooring.csi.driver.services import (
    ControllerCapability,
    ControllerService,
    Driver,
    NodeService,
    PluginService,
)
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.volumes.plugins.csi.plugin import CSIPlugin

NAME = "played.example.com"
C = ControllerCapability
ALL = (
    C.CREATE_DELETE_VOLUME,
    C.PUBLISH_UNPUBLISH_VOLUME,
    C.LIST_VOLUMES,
    C.LIST_VOLUMES_PUBLISHED_NODES,
    C.CREATE_DELETE_SNAPSHOT,
    C.CLONE_VOLUME,
    C.EXPAND_VOLUME,
    C.MODIFY_VOLUME,
)


@dataclass
class Failing:
    """How the next calls of a method fail: each error strikes one call. `after`: the call is carried out
    first."""

    errors: list[Code] = field(default_factory=list[Code])
    after: bool = False
    delay_s: float = 0.0


@dataclass
class Storage:
    """What is true."""

    volumes: dict[str, csi.CreateVolumeRequest] = field(default_factory=dict[str, csi.CreateVolumeRequest])
    published: dict[str, set[str]] = field(default_factory=lambda: defaultdict[str, set[str]](set))
    snapshots: dict[str, csi.CreateSnapshotRequest] = field(
        default_factory=dict[str, csi.CreateSnapshotRequest]
    )
    grown: dict[str, int] = field(default_factory=dict[str, int])
    attributes: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    calls: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    failing: dict[str, Failing] = field(default_factory=lambda: defaultdict[str, Failing](Failing))
    accessible: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    full: bool = False
    short_by: int = 0
    """Bytes that a new volume lacks of what was asked for."""
    same_page: bool = False
    """Each page of a list names the same one as the next."""

    def methods(self) -> list[str]:
        """The calls so far, without the questions for capabilities."""
        return [name for name, _ in self.calls]

    async def play(self, name: str, request: Any, act: Callable[[], Any]) -> Any:
        """Carries a call out, or has it fail as was asked for."""
        self.calls.append((name, request))
        how = self.failing[name]
        await asyncio.sleep(how.delay_s)
        error = how.errors.pop(0) if how.errors else None
        if error is not None and not how.after:
            raise CsiError(error, "as the test asked")
        answer = act()
        if error is not None:
            raise CsiError(error, "as the test asked, after it was done")
        return answer


class PlayedController(ControllerService):
    def __init__(self, storage: Storage, capabilities: Collection[ControllerCapability]) -> None:
        self.storage = storage
        self.capabilities = tuple(capabilities)

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        def act() -> csi.CreateVolumeResponse:
            if self.storage.full and request.name not in self.storage.volumes:
                raise CsiError(Code.RESOURCE_EXHAUSTED, "full")
            held = self.storage.volumes.setdefault(request.name, request)
            size = held.capacity_range.required_bytes - self.storage.short_by
            volume = csi.Volume(volume_id=request.name, capacity_bytes=size)
            volume.accessible_topology.extend(csi.Topology(segments=each) for each in self.storage.accessible)
            return csi.CreateVolumeResponse(volume=volume)

        return await self.storage.play("CreateVolume", request, act)

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        def act() -> csi.DeleteVolumeResponse:
            if self.storage.published[request.volume_id]:
                raise CsiError(Code.FAILED_PRECONDITION, "in use")
            self.storage.volumes.pop(request.volume_id, None)
            return csi.DeleteVolumeResponse()

        return await self.storage.play("DeleteVolume", request, act)

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        def act() -> csi.ControllerPublishVolumeResponse:
            nodes = self.storage.published[request.volume_id]
            if nodes - {request.node_id}:
                raise CsiError(Code.FAILED_PRECONDITION, f"published to {', '.join(sorted(nodes))}")
            nodes.add(request.node_id)
            return csi.ControllerPublishVolumeResponse(publish_context={"lun": "7"})

        return await self.storage.play("ControllerPublishVolume", request, act)

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        def act() -> csi.ControllerUnpublishVolumeResponse:
            self.storage.published[request.volume_id].discard(request.node_id)
            return csi.ControllerUnpublishVolumeResponse()

        return await self.storage.play("ControllerUnpublishVolume", request, act)

    async def validate_volume_capabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        return csi.ValidateVolumeCapabilitiesResponse()

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        def act() -> csi.ListVolumesResponse:
            names = sorted(self.storage.volumes.keys() | self.storage.published.keys())
            first = int(request.starting_token or 0)
            reply = csi.ListVolumesResponse(next_token=str(first + 1) if first + 1 < len(names) else "")
            if self.storage.same_page:
                first, reply.next_token = 0, "1"
            for name in names[first : first + 1]:  # one on a page, so that pages are followed
                entry = reply.entries.add()
                entry.volume.volume_id = name
                entry.status.published_node_ids.extend(sorted(self.storage.published[name]))
            return reply

        return await self.storage.play("ListVolumes", request, act)

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.CreateSnapshotResponse:
        def act() -> csi.CreateSnapshotResponse:
            ready = request.name in self.storage.snapshots  # not yet at the first call
            self.storage.snapshots.setdefault(request.name, request)
            made = csi.Snapshot(
                snapshot_id=request.name,
                source_volume_id=request.source_volume_id,
                size_bytes=1,
                ready_to_use=ready,
            )
            made.creation_time.FromSeconds(1_900_000_000)
            return csi.CreateSnapshotResponse(snapshot=made)

        return await self.storage.play("CreateSnapshot", request, act)

    async def delete_snapshot(self, request: csi.DeleteSnapshotRequest) -> csi.DeleteSnapshotResponse:
        def act() -> csi.DeleteSnapshotResponse:
            self.storage.snapshots.pop(request.snapshot_id, None)
            return csi.DeleteSnapshotResponse()

        return await self.storage.play("DeleteSnapshot", request, act)

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        def act() -> csi.ControllerExpandVolumeResponse:
            size = self.storage.grown[request.volume_id] = request.capacity_range.required_bytes
            return csi.ControllerExpandVolumeResponse(capacity_bytes=size, node_expansion_required=True)

        return await self.storage.play("ControllerExpandVolume", request, act)

    async def controller_modify_volume(
        self, request: csi.ControllerModifyVolumeRequest
    ) -> csi.ControllerModifyVolumeResponse:
        def act() -> csi.ControllerModifyVolumeResponse:
            self.storage.attributes[request.volume_id] = dict(request.mutable_parameters)
            return csi.ControllerModifyVolumeResponse()

        return await self.storage.play("ControllerModifyVolume", request, act)


def plugin(
    storage: Storage,
    *,
    capabilities: Collection[ControllerCapability] = ALL,
    node: NodeService | None = None,
    topology: bool = False,
) -> CSIPlugin:
    """The CSI plugin of a process whose driver, whatever its address, is this one."""
    services = [PluginService.CONTROLLER_SERVICE]
    if topology:
        services.append(PluginService.VOLUME_ACCESSIBILITY_CONSTRAINTS)
    driver = Driver(NAME, "1", PlayedController(storage, capabilities), node, services)

    def connect(address: str) -> Channel:
        return LocalChannel(Dispatcher(driver, [Path(tempfile.gettempdir())]))

    return CSIPlugin(connect)

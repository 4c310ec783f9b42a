"""A small driver for tests of the client and of the base: it remembers what it was asked, and can be held."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mooring.csi.driver.services import (
    ControllerCapability,
    ControllerService,
    Driver,
    NodeCapability,
    NodeService,
)
from mooring.csi.errors import Code
from mooring.csi.proto import csi_pb2 as csi


class DriversOwnError(Exception):
    """An exception of the driver's own."""


class NotThere(DriversOwnError):
    """One that is derived from it."""


class PlayController(ControllerService):
    capabilities = (ControllerCapability.CREATE_DELETE_VOLUME, ControllerCapability.PUBLISH_UNPUBLISH_VOLUME)

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Event()
        self.failure: Exception | None = None
        self.done: list[str] = []

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        self.asked.append(request.name)
        self.begun.set()
        await self.gate.wait()
        if self.failure:
            raise self.failure
        self.done.append(request.name)
        return csi.CreateVolumeResponse(volume=csi.Volume(volume_id=request.name))

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        self.asked.append(request.volume_id)
        return csi.DeleteVolumeResponse()

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        return csi.ControllerPublishVolumeResponse(publish_context={"device": "/dev/sdz"})

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        return csi.ControllerUnpublishVolumeResponse()


class PlayNode(NodeService):
    capabilities = (NodeCapability.STAGE_UNSTAGE_VOLUME,)

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.published: list[str] = []

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        await self.gate.wait()
        return csi.NodeStageVolumeResponse()

    async def node_unstage_volume(
        self, request: csi.NodeUnstageVolumeRequest
    ) -> csi.NodeUnstageVolumeResponse:
        return csi.NodeUnstageVolumeResponse()

    async def node_publish_volume(
        self, request: csi.NodePublishVolumeRequest
    ) -> csi.NodePublishVolumeResponse:
        await self.gate.wait()
        self.published.append(request.target_path)
        return csi.NodePublishVolumeResponse()

    async def node_unpublish_volume(
        self, request: csi.NodeUnpublishVolumeRequest
    ) -> csi.NodeUnpublishVolumeResponse:
        return csi.NodeUnpublishVolumeResponse()

    async def node_get_info(self, request: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        return csi.NodeGetInfoResponse(node_id="n1")


@pytest.fixture
def controller() -> PlayController:
    return PlayController()


@pytest.fixture
def node() -> PlayNode:
    return PlayNode()


@pytest.fixture
def driver(controller: PlayController, node: PlayNode) -> Driver:
    return Driver(
        name="play.example.com",
        version="1.2.3",
        controller=controller,
        node=node,
        access_modes=(csi.VolumeCapability.AccessMode.Mode.SINGLE_NODE_WRITER,),
        codes={DriversOwnError: Code.FAILED_PRECONDITION, NotThere: Code.NOT_FOUND},
    )


@pytest.fixture
def capability() -> csi.VolumeCapability:
    mode = csi.VolumeCapability.AccessMode(mode=csi.VolumeCapability.AccessMode.Mode.SINGLE_NODE_WRITER)
    return csi.VolumeCapability(mount=csi.VolumeCapability.MountVolume(fs_type="ext4"), access_mode=mode)


@pytest.fixture
def create(capability: csi.VolumeCapability) -> csi.CreateVolumeRequest:
    return csi.CreateVolumeRequest(
        name="v1",
        volume_capabilities=[capability],
        secrets={"password": "hunter2"},
        parameters={"kind": "fast"},
    )


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "csi.sock"

"""The methods of CSI as typed values: what a client calls and a driver implements.

`Controller.create_volume` is the method CreateVolume; on an instance of a service class it is a coroutine
function. Everything else about a method is read from the protos, its only definition. The streaming methods
of SnapshotMetadata are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar, cast, overload

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.proto import registration_pb2 as registration

Request = TypeVar("Request", bound=Message)
Reply = TypeVar("Reply", bound=Message)
_Request_contra = TypeVar("_Request_contra", bound=Message, contravariant=True)
_Reply_co = TypeVar("_Reply_co", bound=Message, covariant=True)


class Caller(Protocol):
    """Sends a request and waits for the reply."""

    async def call(self, rpc: Rpc[Request, Reply], request: Request, timeout_s: float) -> Reply:
        """The reply. Raises CsiError; DEADLINE_EXCEEDED after `timeout_s` seconds."""
        ...


class Method(Protocol[_Request_contra, _Reply_co]):
    """A method bound to a service: `await client.node.node_get_info(request, timeout_s=5)`."""

    async def __call__(self, request: _Request_contra, /, *, timeout_s: float) -> _Reply_co: ...


class Service:
    """One service of a driver. Raises CsiError from every method."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @classmethod
    def methods(cls) -> Iterator[Rpc[Any, Any]]:
        """All methods of the service."""
        return (cast(Rpc[Any, Any], value) for value in vars(cls).values() if isinstance(value, Rpc))

    async def _call(self, rpc: Rpc[Request, Reply], request: Request, timeout_s: float) -> Reply:
        return await self._caller.call(rpc, request, timeout_s)


class Rpc(Generic[Request, Reply]):
    """One method of a service."""

    attribute: str
    """Its name in Python: create_volume."""

    def __init__(self, request: type[Request], reply: type[Reply]) -> None:
        self.request = request
        self.reply = reply
        self._descriptor = _method_that_takes(request)

    @property
    def name(self) -> str:
        """CreateVolume."""
        return self._descriptor.name

    @property
    def service(self) -> str:
        """csi.v1.Controller."""
        return self._descriptor.containing_service.full_name

    @property
    def path(self) -> str:
        """/csi.v1.Controller/CreateVolume."""
        return f"/{self.service}/{self.name}"

    def __set_name__(self, owner: type[Service], name: str) -> None:
        self.attribute = name

    @overload
    def __get__(self, instance: None, owner: type[Service]) -> Rpc[Request, Reply]: ...
    @overload
    def __get__(self, instance: Service, owner: type[Service]) -> Method[Request, Reply]: ...
    def __get__(
        self, instance: Service | None, owner: type[Service]
    ) -> Rpc[Request, Reply] | Method[Request, Reply]:
        if instance is None:
            return self
        caller = instance

        async def method(request: Request, /, *, timeout_s: float) -> Reply:
            return await caller._call(self, request, timeout_s)  # pyright: ignore[reportPrivateUsage]

        return method


def _method_that_takes(request: type[Message]) -> MethodDescriptor:
    services = cast(Any, request.DESCRIPTOR.file.services_by_name).values()
    return next(
        method
        for service in services
        for method in service.methods
        if method.input_type is request.DESCRIPTOR
    )


class Identity(Service):
    """What the driver is and can do."""

    get_plugin_info = Rpc(csi.GetPluginInfoRequest, csi.GetPluginInfoResponse)
    get_plugin_capabilities = Rpc(csi.GetPluginCapabilitiesRequest, csi.GetPluginCapabilitiesResponse)
    probe = Rpc(csi.ProbeRequest, csi.ProbeResponse)


class Controller(Service):
    """Acts on the storage."""

    create_volume = Rpc(csi.CreateVolumeRequest, csi.CreateVolumeResponse)
    delete_volume = Rpc(csi.DeleteVolumeRequest, csi.DeleteVolumeResponse)
    controller_publish_volume = Rpc(csi.ControllerPublishVolumeRequest, csi.ControllerPublishVolumeResponse)
    controller_unpublish_volume = Rpc(
        csi.ControllerUnpublishVolumeRequest, csi.ControllerUnpublishVolumeResponse
    )
    validate_volume_capabilities = Rpc(
        csi.ValidateVolumeCapabilitiesRequest, csi.ValidateVolumeCapabilitiesResponse
    )
    list_volumes = Rpc(csi.ListVolumesRequest, csi.ListVolumesResponse)
    get_capacity = Rpc(csi.GetCapacityRequest, csi.GetCapacityResponse)
    controller_get_capabilities = Rpc(
        csi.ControllerGetCapabilitiesRequest, csi.ControllerGetCapabilitiesResponse
    )
    create_snapshot = Rpc(csi.CreateSnapshotRequest, csi.CreateSnapshotResponse)
    delete_snapshot = Rpc(csi.DeleteSnapshotRequest, csi.DeleteSnapshotResponse)
    list_snapshots = Rpc(csi.ListSnapshotsRequest, csi.ListSnapshotsResponse)
    get_snapshot = Rpc(csi.GetSnapshotRequest, csi.GetSnapshotResponse)
    controller_expand_volume = Rpc(csi.ControllerExpandVolumeRequest, csi.ControllerExpandVolumeResponse)
    controller_get_volume = Rpc(csi.ControllerGetVolumeRequest, csi.ControllerGetVolumeResponse)
    controller_modify_volume = Rpc(csi.ControllerModifyVolumeRequest, csi.ControllerModifyVolumeResponse)


class GroupController(Service):
    """Snapshots of several volumes at once."""

    group_controller_get_capabilities = Rpc(
        csi.GroupControllerGetCapabilitiesRequest, csi.GroupControllerGetCapabilitiesResponse
    )
    create_volume_group_snapshot = Rpc(
        csi.CreateVolumeGroupSnapshotRequest, csi.CreateVolumeGroupSnapshotResponse
    )
    delete_volume_group_snapshot = Rpc(
        csi.DeleteVolumeGroupSnapshotRequest, csi.DeleteVolumeGroupSnapshotResponse
    )
    get_volume_group_snapshot = Rpc(csi.GetVolumeGroupSnapshotRequest, csi.GetVolumeGroupSnapshotResponse)


class Node(Service):
    """Acts on the machine on which the driver runs."""

    node_stage_volume = Rpc(csi.NodeStageVolumeRequest, csi.NodeStageVolumeResponse)
    node_unstage_volume = Rpc(csi.NodeUnstageVolumeRequest, csi.NodeUnstageVolumeResponse)
    node_publish_volume = Rpc(csi.NodePublishVolumeRequest, csi.NodePublishVolumeResponse)
    node_unpublish_volume = Rpc(csi.NodeUnpublishVolumeRequest, csi.NodeUnpublishVolumeResponse)
    node_get_volume_stats = Rpc(csi.NodeGetVolumeStatsRequest, csi.NodeGetVolumeStatsResponse)
    node_expand_volume = Rpc(csi.NodeExpandVolumeRequest, csi.NodeExpandVolumeResponse)
    node_get_capabilities = Rpc(csi.NodeGetCapabilitiesRequest, csi.NodeGetCapabilitiesResponse)
    node_get_info = Rpc(csi.NodeGetInfoRequest, csi.NodeGetInfoResponse)


class Registration(Service):
    """The kubelet's plugin registration, which makes a driver known on a node. Not part of CSI."""

    get_info = Rpc(registration.InfoRequest, registration.PluginInfo)
    notify_registration_status = Rpc(registration.RegistrationStatus, registration.RegistrationStatusResponse)


SERVICES: tuple[type[Service], ...] = (Identity, Controller, GroupController, Node, Registration)
METHODS = {rpc.name: rpc for service in SERVICES for rpc in service.methods()}
"""All methods by name."""

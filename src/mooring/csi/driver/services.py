"""The base classes of a driver: an author overrides the services' methods and puts them into a `Driver`.

A driver declares its capabilities. The base answers the Get...Capabilities calls from them, refuses every
method that no declared capability covers (UNIMPLEMENTED), and raises TypeError at the start for a capability
whose methods are not overridden.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.csi.driver.rules import IN_FLIGHT
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import Controller, Identity, Node, Rpc

ControllerCapability = csi.ControllerServiceCapability.RPC.Type
NodeCapability = csi.NodeServiceCapability.RPC.Type
PluginService = csi.PluginCapability.Service.Type
Expansion = csi.PluginCapability.VolumeExpansion.Type
AccessMode = csi.VolumeCapability.AccessMode.Mode

_C = ControllerCapability
_N = NodeCapability

CONTROLLER_METHODS: Mapping[ControllerCapability, tuple[Rpc[Any, Any], ...]] = {
    _C.CREATE_DELETE_VOLUME: (Controller.create_volume, Controller.delete_volume),
    _C.PUBLISH_UNPUBLISH_VOLUME: (
        Controller.controller_publish_volume,
        Controller.controller_unpublish_volume,
    ),
    _C.LIST_VOLUMES: (Controller.list_volumes,),
    _C.GET_CAPACITY: (Controller.get_capacity,),
    _C.CREATE_DELETE_SNAPSHOT: (Controller.create_snapshot, Controller.delete_snapshot),
    _C.LIST_SNAPSHOTS: (Controller.list_snapshots,),
    _C.GET_SNAPSHOT: (Controller.get_snapshot,),
    _C.EXPAND_VOLUME: (Controller.controller_expand_volume,),
    _C.GET_VOLUME: (Controller.controller_get_volume,),
    _C.MODIFY_VOLUME: (Controller.controller_modify_volume,),
}
"""The methods that a capability promises. The others (CLONE_VOLUME, ...) promise a behaviour, not a
method."""

NODE_METHODS: Mapping[NodeCapability, tuple[Rpc[Any, Any], ...]] = {
    _N.STAGE_UNSTAGE_VOLUME: (Node.node_stage_volume, Node.node_unstage_volume),
    _N.GET_VOLUME_STATS: (Node.node_get_volume_stats,),
    _N.EXPAND_VOLUME: (Node.node_expand_volume,),
}
ALWAYS: tuple[Rpc[Any, Any], ...] = (
    *Identity.methods(),
    Controller.validate_volume_capabilities,
    Controller.controller_get_capabilities,
    Node.node_publish_volume,
    Node.node_unpublish_volume,
    Node.node_get_info,
    Node.node_get_capabilities,
)
"""Methods that every driver with that service has."""


def _unimplemented(rpc: Rpc[Any, Any]) -> CsiError:
    return CsiError(Code.UNIMPLEMENTED, "this driver does not have this method", rpc.name)


class ControllerService:
    """Acts on the storage. Override the methods that `capabilities` promise and
    `validate_volume_capabilities`."""

    capabilities: Collection[ControllerCapability] = ()

    async def create_volume(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        raise _unimplemented(Controller.create_volume)

    async def delete_volume(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        raise _unimplemented(Controller.delete_volume)

    async def controller_publish_volume(
        self, request: csi.ControllerPublishVolumeRequest
    ) -> csi.ControllerPublishVolumeResponse:
        raise _unimplemented(Controller.controller_publish_volume)

    async def controller_unpublish_volume(
        self, request: csi.ControllerUnpublishVolumeRequest
    ) -> csi.ControllerUnpublishVolumeResponse:
        raise _unimplemented(Controller.controller_unpublish_volume)

    async def validate_volume_capabilities(
        self, request: csi.ValidateVolumeCapabilitiesRequest
    ) -> csi.ValidateVolumeCapabilitiesResponse:
        raise _unimplemented(Controller.validate_volume_capabilities)

    async def list_volumes(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        raise _unimplemented(Controller.list_volumes)

    async def get_capacity(self, request: csi.GetCapacityRequest) -> csi.GetCapacityResponse:
        raise _unimplemented(Controller.get_capacity)

    async def create_snapshot(self, request: csi.CreateSnapshotRequest) -> csi.CreateSnapshotResponse:
        raise _unimplemented(Controller.create_snapshot)

    async def delete_snapshot(self, request: csi.DeleteSnapshotRequest) -> csi.DeleteSnapshotResponse:
        raise _unimplemented(Controller.delete_snapshot)

    async def list_snapshots(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        raise _unimplemented(Controller.list_snapshots)

    async def get_snapshot(self, request: csi.GetSnapshotRequest) -> csi.GetSnapshotResponse:
        raise _unimplemented(Controller.get_snapshot)

    async def controller_expand_volume(
        self, request: csi.ControllerExpandVolumeRequest
    ) -> csi.ControllerExpandVolumeResponse:
        raise _unimplemented(Controller.controller_expand_volume)

    async def controller_get_volume(
        self, request: csi.ControllerGetVolumeRequest
    ) -> csi.ControllerGetVolumeResponse:
        raise _unimplemented(Controller.controller_get_volume)

    async def controller_modify_volume(
        self, request: csi.ControllerModifyVolumeRequest
    ) -> csi.ControllerModifyVolumeResponse:
        raise _unimplemented(Controller.controller_modify_volume)

    async def controller_get_capabilities(
        self, request: csi.ControllerGetCapabilitiesRequest
    ) -> csi.ControllerGetCapabilitiesResponse:
        """Answered from `capabilities`; not to be overridden."""
        rpcs = (csi.ControllerServiceCapability.RPC(type=kind) for kind in self.capabilities)
        return csi.ControllerGetCapabilitiesResponse(
            capabilities=[csi.ControllerServiceCapability(rpc=rpc) for rpc in rpcs]
        )


class NodeService:
    """Acts on this machine. Override publish, unpublish, get_info, and the methods that `capabilities`
    promise."""

    capabilities: Collection[NodeCapability] = ()

    async def node_stage_volume(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        raise _unimplemented(Node.node_stage_volume)

    async def node_unstage_volume(
        self, request: csi.NodeUnstageVolumeRequest
    ) -> csi.NodeUnstageVolumeResponse:
        raise _unimplemented(Node.node_unstage_volume)

    async def node_publish_volume(
        self, request: csi.NodePublishVolumeRequest
    ) -> csi.NodePublishVolumeResponse:
        raise _unimplemented(Node.node_publish_volume)

    async def node_unpublish_volume(
        self, request: csi.NodeUnpublishVolumeRequest
    ) -> csi.NodeUnpublishVolumeResponse:
        raise _unimplemented(Node.node_unpublish_volume)

    async def node_get_volume_stats(
        self, request: csi.NodeGetVolumeStatsRequest
    ) -> csi.NodeGetVolumeStatsResponse:
        raise _unimplemented(Node.node_get_volume_stats)

    async def node_expand_volume(self, request: csi.NodeExpandVolumeRequest) -> csi.NodeExpandVolumeResponse:
        raise _unimplemented(Node.node_expand_volume)

    async def node_get_info(self, request: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        raise _unimplemented(Node.node_get_info)

    async def node_get_capabilities(
        self, request: csi.NodeGetCapabilitiesRequest
    ) -> csi.NodeGetCapabilitiesResponse:
        """Answered from `capabilities`; not to be overridden."""
        rpcs = (csi.NodeServiceCapability.RPC(type=kind) for kind in self.capabilities)
        return csi.NodeGetCapabilitiesResponse(
            capabilities=[csi.NodeServiceCapability(rpc=rpc) for rpc in rpcs]
        )


@dataclass(frozen=True)
class Driver:
    """The part of a driver that one process serves: the controller service, the node service, or both.

    `name` has the form of a domain name. `plugin_services` are the same in every process of a driver, because
    a caller of the node's process must also learn that there is a controller.
    """

    name: str
    version: str
    controller: ControllerService | None = None
    node: NodeService | None = None
    plugin_services: Collection[PluginService] = ()
    expansion: Collection[Expansion] = ()
    access_modes: Collection[int] = tuple(AccessMode.values())
    """The access modes that the driver supports; a request for another one is INVALID_ARGUMENT."""
    codes: Mapping[type[Exception], Code] = field(default_factory=dict[type[Exception], Code])
    """The codes of the driver's own exceptions; the most derived class counts. Others are INTERNAL."""
    in_flight: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: IN_FLIGHT)
    """The fields that name the object that a method changes (`rules.IN_FLIGHT`). Empty fields at the end are
    left out, so an operation on a whole volume conflicts with those on its paths."""
    gives_way: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    """By method: the methods whose calls cancel an operation of it instead of being ABORTED. The method must
    be safe to cancel at each of its awaits, and the other methods must be able to go on from there."""

    def __post_init__(self) -> None:
        missing = [
            *_missing(self.controller, ControllerService, _promised(self.controller, CONTROLLER_METHODS)),
            *_missing(self.node, NodeService, (*_promised(self.node, NODE_METHODS), *_of(Node, ALWAYS))),
        ]
        if missing:
            raise TypeError(
                f"driver {self.name} declares capabilities without their methods: {', '.join(missing)}"
            )

    def service_of(self, rpc: Rpc[Any, Any]) -> object | None:
        """The service that has the method; None if this process does not serve it."""
        if rpc.service == _CONTROLLER:
            served, methods = self.controller, CONTROLLER_METHODS
        elif rpc.service == _NODE:
            served, methods = self.node, NODE_METHODS
        else:
            return None
        return served if rpc in ALWAYS or rpc in _promised(served, methods) else None

    def code_of(self, error: Exception) -> Code:
        """The code that the caller gets for the driver's exception."""
        return next((self.codes[kind] for kind in type(error).__mro__ if kind in self.codes), Code.INTERNAL)

    async def get_plugin_info(self, request: csi.GetPluginInfoRequest) -> csi.GetPluginInfoResponse:
        """Name and version."""
        return csi.GetPluginInfoResponse(name=self.name, vendor_version=self.version)

    async def get_plugin_capabilities(
        self, request: csi.GetPluginCapabilitiesRequest
    ) -> csi.GetPluginCapabilitiesResponse:
        """Answered from `plugin_services` and `expansion`."""
        services = (csi.PluginCapability.Service(type=kind) for kind in self.plugin_services)
        expansions = (csi.PluginCapability.VolumeExpansion(type=kind) for kind in self.expansion)
        return csi.GetPluginCapabilitiesResponse(
            capabilities=[
                *(csi.PluginCapability(service=service) for service in services),
                *(csi.PluginCapability(volume_expansion=expansion) for expansion in expansions),
            ]
        )

    async def probe(self, request: csi.ProbeRequest) -> csi.ProbeResponse:
        """Always ready. A driver that can be unhealthy overrides it and raises FAILED_PRECONDITION."""
        reply = csi.ProbeResponse()
        reply.ready.value = True
        return reply


_CONTROLLER = Controller.create_volume.service
_NODE = Node.node_publish_volume.service


def _promised(
    served: ControllerService | NodeService | None, methods: Mapping[Any, tuple[Rpc[Any, Any], ...]]
) -> tuple[Rpc[Any, Any], ...]:
    if served is None:
        return ()
    return tuple(rpc for kind in served.capabilities for rpc in methods.get(kind, ()))


def _of(service: type[Node], rpcs: tuple[Rpc[Any, Any], ...]) -> tuple[Rpc[Any, Any], ...]:
    wanted = set(service.methods())
    return tuple(rpc for rpc in rpcs if rpc in wanted)


def _missing(served: object | None, base: type, rpcs: tuple[Rpc[Any, Any], ...]) -> list[str]:
    if served is None:
        return []
    inherited = vars(base)
    return [
        rpc.name
        for rpc in rpcs
        if getattr(type(served), rpc.attribute) is inherited[rpc.attribute]
        and "capabilities" not in rpc.attribute
    ]

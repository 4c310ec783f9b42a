"""The CSI drivers that this process can call, by name; and what the outcome of a call means for volumes.

Guarantees: a failed call raises `StorageRefused` if it has certainly not happened, `NotAsked` if it was not
even sent, or not let in, and `OutcomeUnknown` otherwise. A driver's capabilities are read once, and again
after it was away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from google.protobuf.message import Message

from mooring.csi.client import Channel, Client, Exchange
from mooring.csi.errors import Code, CsiError, NotConnected, Outcome
from mooring.csi.faults import Fault, FaultFile, Faulty, parse_fault
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import Controller, Identity, Node, Rpc
from mooring.csi.trace import tracer
from mooring.volumes.errors import (
    InvalidSpec,
    MadeOtherwise,
    NotAsked,
    OutcomeUnknown,
    StorageFull,
    StorageRefused,
    VolumeError,
)
from mooring.volumes.host import VolumeHost
from mooring.volumes.names import CSI_PLUGIN

Request = TypeVar("Request", bound=Message)
Reply = TypeVar("Reply", bound=Message)
Connect = Callable[[str], Channel]
"""Takes a driver's address. Raises EndpointError."""
Spoil = Callable[[str, Channel], Channel]
"""Takes a driver's name and the channel to it, and injects faults into that."""
CallObserver = Callable[[str, Exchange], None]
"""Called after each call of a driver, with the driver's name."""

CONTROLLER_TIMEOUT_S = 15.0
"""As upstream's attacher."""
NODE_TIMEOUT_S = 120.0
"""As the kubelet."""
TIMEOUT, FAULTS, FAULT_FILE, TRACE = "timeout", "faults", "faultfile", "trace"
"""Settings that are not names of drivers: seconds that a call may take; faults (`mooring.csi.faults`),
separated by blanks; a file of faults, which may change; a file to which all calls are written
(`mooring.csi.trace`)."""

ControllerAbility = csi.ControllerServiceCapability.RPC
NodeAbility = csi.NodeServiceCapability.RPC
PluginAbility = csi.PluginCapability.Service


def _always() -> None:
    """Calls may be made at any time."""


class Driver:
    """One driver. `timeout_s` is what a call may take; `may_call` raises if none may be made any more."""

    def __init__(
        self, name: str, client: Client, timeout_s: float, may_call: Callable[[], None] = _always
    ) -> None:
        self.name = name
        self.client = client
        self._timeout_s = timeout_s
        self._may_call = may_call
        self._able: dict[str, frozenset[int]] = {}

    async def call(self, rpc: Rpc[Request, Reply], request: Request) -> Reply:
        """Raises StorageRefused, NotAsked, OutcomeUnknown. A controller asks nothing once its Lease is over:
        a Secret, or what the driver can do, may have been read before for as long as the process was paused.
        """
        self._may_call()
        try:
            return await self.client.call(rpc, request, self._timeout_s)
        except CsiError as error:
            if isinstance(error, NotConnected):
                self._able.clear()
            raise volume_error(self.name, error) from error

    async def controller_can(self, ability: ControllerAbility.Type) -> bool:
        """Whether its controller service has the ability; False for all if it has no such service."""
        return ability in await self._abilities("controller", self._of_controller)

    async def node_can(self, ability: NodeAbility.Type) -> bool:
        return ability in await self._abilities("node", self._of_node)

    async def has_service(self, service: PluginAbility.Type) -> bool:
        return service in await self._abilities("plugin", self._of_plugin)

    async def _abilities(self, what: str, ask: Callable[[], Any]) -> frozenset[int]:
        if what not in self._able:
            self._able[what] = await ask()
        return self._able[what]

    async def _of_plugin(self) -> frozenset[int]:
        reply = await self.call(Identity.get_plugin_capabilities, csi.GetPluginCapabilitiesRequest())
        return frozenset(each.service.type for each in reply.capabilities)

    async def _of_controller(self) -> frozenset[int]:
        if not await self.has_service(PluginAbility.CONTROLLER_SERVICE):
            return frozenset()
        reply = await self.call(
            Controller.controller_get_capabilities, csi.ControllerGetCapabilitiesRequest()
        )
        return frozenset(each.rpc.type for each in reply.capabilities)

    async def _of_node(self) -> frozenset[int]:
        reply = await self.call(Node.node_get_capabilities, csi.NodeGetCapabilitiesRequest())
        return frozenset(each.rpc.type for each in reply.capabilities)


class Drivers:
    """All drivers of this process. Drivers are added, removed and replaced while it runs."""

    def __init__(
        self,
        connect: Connect,
        timeout_s: float,
        spoil: Spoil | None = None,
        may_call: Callable[[], None] = _always,
    ) -> None:
        self._connect = connect
        self._timeout_s = timeout_s
        self._spoil = spoil
        self._may_call = may_call
        self._drivers: dict[str, Driver] = {}
        self.observers: list[CallObserver] = []
        """Called after each call of a driver. May be added to at any time."""

    @classmethod
    def of_settings(cls, host: VolumeHost, connect: Connect, timeout_s: float) -> Drivers:
        """Settings `<driver name>: <address>`, and those above. Raises EndpointError, ValueError."""
        settings = host.settings(CSI_PLUGIN)
        faults = [parse_fault(each) for each in settings.get(FAULTS, "").split()]
        made = cls(
            connect,
            float(settings.get(TIMEOUT, timeout_s)),
            _faulty(faults, settings.get(FAULT_FILE)),
            host.check_leading,
        )
        if trace := settings.get(TRACE):
            made.observers.append(tracer(Path(trace), host.node_name or "controller", host.now))
        for name, address in settings.items():
            if name not in (TIMEOUT, FAULTS, FAULT_FILE, TRACE):
                made.add(name, address)
        return made

    def __iter__(self) -> Iterator[Driver]:
        return iter(tuple(self._drivers.values()))

    def add(self, name: str, address: str) -> None:
        """The driver of this name is at `address` from now on. Raises EndpointError."""
        self.put(self.at(name, address))

    def at(self, name: str, address: str) -> Driver:
        """The driver of this name at `address`, which is not found before `put`. Raises EndpointError."""

        def observe(exchange: Exchange) -> None:
            for observer in self.observers:
                observer(name, exchange)

        channel = self._connect(address)
        client = Client(self._spoil(name, channel) if self._spoil else channel, [observe])
        return Driver(name, client, self._timeout_s, self._may_call)

    def put(self, driver: Driver) -> None:
        """It takes the place of another one of its name."""
        self._drivers[driver.name] = driver

    def remove(self, name: str) -> None:
        self._drivers.pop(name, None)

    def find(self, name: str) -> Driver:
        """Returns the driver. Raises NotAsked if there is none: it may come."""
        if name not in self._drivers:
            known = ", ".join(sorted(self._drivers)) or "none"
            raise NotAsked(
                f"CSI driver {name} is not registered here (drivers: {known}): start it on this node"
            )
        return self._drivers[name]


OF_CREATION: Mapping[Code, type[VolumeError]] = {
    Code.RESOURCE_EXHAUSTED: StorageFull,
    Code.ALREADY_EXISTS: MadeOtherwise,
}
"""What some answers to a CreateVolume mean."""


NOT_LET_IN = frozenset({Code.PERMISSION_DENIED, Code.UNAUTHENTICATED})
"""Codes of a driver that was not let in, by its storage, to look: of an earlier request they say nothing."""


def volume_error(driver: str, error: CsiError) -> VolumeError:
    """Returns what a failed call of a driver means for the volume."""
    if isinstance(error, NotConnected) or error.code in NOT_LET_IN:
        return NotAsked(f"CSI driver {driver}: {error}")
    kind: Callable[[str], VolumeError] = OutcomeUnknown
    if error.outcome is Outcome.FINAL:
        kind = (
            OF_CREATION.get(error.code, StorageRefused) if error.method == "CreateVolume" else StorageRefused
        )
    return kind(f"CSI driver {driver}: {error}")


def cannot(driver: Driver, what: str) -> InvalidSpec:
    """The driver lacks an ability that is needed."""
    return InvalidSpec(f"CSI driver {driver.name} does not {what}")


def _faulty(faults: Sequence[Fault], file: str | None) -> Spoil | None:
    """What injects these faults, and those of the file, if any were asked for."""
    random = Random()

    def spoil(name: str, channel: Channel) -> Channel:
        channel = Faulty(channel, faults, random) if faults else channel
        return Faulty(channel, FaultFile(Path(file), name), random) if file else channel

    return spoil if faults or file else None


def over_grpc(address: str) -> Channel:
    """A channel to a driver in another process."""
    from mooring.csi.grpc_channel import GrpcChannel

    return GrpcChannel(address)

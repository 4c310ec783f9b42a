"""A client of one CSI driver.

    client = Client("unix:///csi/csi.sock")
    info = await client.identity.get_plugin_info(csi.GetPluginInfoRequest(), timeout_s=5)

Guarantees: every call has a deadline and ends with a reply or a CsiError, whose `outcome` says whether it may
have happened; the client never retries. A driver may restart: the next call connects to it anew. Observers
see every call, without its secrets. A `Channel` carries the calls: gRPC for an address; the simulator gives
its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from google.protobuf.message import Message

from mooring.csi.errors import Code, CsiError
from mooring.csi.rpc import (
    Caller,
    Controller,
    GroupController,
    Identity,
    Node,
    Registration,
    Reply,
    Request,
    Rpc,
)
from mooring.csi.secrets import stripped


class Channel(Caller, Protocol):
    """The transport to a driver. It does not look into requests or replies."""

    async def close(self) -> None:
        """Cancels the calls in flight."""
        ...


@dataclass(frozen=True)
class Exchange:
    """A call that has ended, as observers see it. `started` is the event loop's time in seconds."""

    method: str
    """ControllerPublishVolume."""
    path: str
    """/csi.v1.Controller/ControllerPublishVolume."""
    started: float
    duration_s: float
    code: Code
    message: str
    """The driver's error message; empty for OK."""
    _request: Message = field(repr=False)
    _reply: Message | None = field(repr=False)

    def request(self) -> dict[str, object]:
        """The request's fields, without secrets."""
        return stripped(self._request)

    def reply(self) -> dict[str, object]:
        """The reply's fields, without secrets; empty if the call failed."""
        return {} if self._reply is None else stripped(self._reply)


Observer = Callable[[Exchange], None]
"""Called after the end of each call, also of a cancelled one (CANCELLED). It must not raise or block."""


class Client:
    """Calls one driver, by its address or through a channel of the caller's. Each service is an attribute."""

    def __init__(self, driver: str | Channel, observers: Sequence[Observer] = ()) -> None:
        """Connects at the first call, not here. Raises EndpointError for a malformed address."""
        self._channel = _grpc_channel(driver) if isinstance(driver, str) else driver
        self._observers = tuple(observers)
        self.identity = Identity(self)
        self.controller = Controller(self)
        self.group_controller = GroupController(self)
        self.node = Node(self)
        self.registration = Registration(self)

    async def call(self, rpc: Rpc[Request, Reply], request: Request, timeout_s: float) -> Reply:
        """Calls any method. Raises CsiError."""
        started = asyncio.get_running_loop().time()
        try:
            reply = await self._channel.call(rpc, request, timeout_s)
        except CsiError as error:
            self._observe(rpc, started, request, None, error.code, error.message)
            raise
        except asyncio.CancelledError:
            self._observe(rpc, started, request, None, Code.CANCELLED, "the caller went away")
            raise
        self._observe(rpc, started, request, reply, Code.OK, "")
        return reply

    def _observe(
        self,
        rpc: Rpc[Request, Reply],
        started: float,
        request: Message,
        reply: Message | None,
        code: Code,
        message: str,
    ) -> None:
        if self._observers:
            duration_s = asyncio.get_running_loop().time() - started
            exchange = Exchange(rpc.name, rpc.path, started, duration_s, code, message, request, reply)
            for observer in self._observers:
                observer(exchange)

    async def close(self) -> None:
        """Ends the calls in flight, as CANCELLED."""
        await self._channel.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _grpc_channel(address: str) -> Channel:
    from mooring.csi.grpc_channel import GrpcChannel

    return GrpcChannel(address)

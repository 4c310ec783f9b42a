"""Calls over gRPC: a Unix socket or TCP, without TLS, as CSI defines it.

Guarantee: a call without a connection fails at once with NotConnected and is not sent. When a driver has
restarted, the channel reconnects within half a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc
import grpc.aio

from mooring.csi.address import parse_address
from mooring.csi.errors import Code, CsiError, NotConnected
from mooring.csi.rpc import Reply, Request, Rpc

_OPTIONS = (
    ("grpc.default_authority", "localhost"),  # strict servers refuse a socket's path there
    ("grpc.enable_http_proxy", 0),  # a driver is never behind the proxy that the environment names
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    # Despite its name, gRPC's deadline for one connection attempt: a busy driver has so long to accept.
    ("grpc.min_reconnect_backoff_ms", 5000),
    ("grpc.max_reconnect_backoff_ms", 500),
    # gRPC's default is 4 MiB, and the driver chooses how long a page of ListVolumes is.
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
)
_Calling = Callable[..., Awaitable[Any]]


class GrpcChannel:
    """The `Channel` to the driver at `address`. Belongs to the event loop in which it is first used."""

    def __init__(self, address: str) -> None:
        """Raises EndpointError for a malformed address."""
        self._address = parse_address(address)
        self._channel: grpc.aio.Channel | None = None
        self._calling: dict[str, _Calling] = {}

    async def call(self, rpc: Rpc[Request, Reply], request: Request, timeout_s: float) -> Reply:
        # The connection is awaited first and by itself: gRPC alone answers UNAVAILABLE both for a call that
        # was never sent and for one whose connection broke, and only the former has a final outcome.
        deadline = asyncio.get_running_loop().time() + timeout_s
        await self._connected(rpc, timeout_s)
        remaining_s = max(0.0, deadline - asyncio.get_running_loop().time())
        try:
            return cast(Reply, await self._caller_of(rpc)(request, timeout=remaining_s))
        except grpc.aio.AioRpcError as error:
            raise CsiError(Code(_number(error.code())), error.details() or "no details", rpc.name) from None
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            raise CsiError(Code.CANCELLED, "the client was closed", rpc.name) from None

    async def close(self) -> None:
        channel, self._channel, self._calling = self._channel, None, {}
        if channel is not None:
            await channel.close()

    def _open(self) -> grpc.aio.Channel:
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(self._address.target, options=_OPTIONS)
        return self._channel

    async def _connected(self, rpc: Rpc[Request, Reply], timeout_s: float) -> None:
        """Waits while gRPC connects. Raises NotConnected if it cannot."""
        channel = self._open()
        state = channel.get_state(try_to_connect=True)
        try:
            async with asyncio.timeout(timeout_s):
                while state in (grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING):
                    await channel.wait_for_state_change(state)
                    state = channel.get_state(try_to_connect=True)
        except TimeoutError:
            raise NotConnected(str(self._address), f"not within {timeout_s:g} s", rpc.name) from None
        if state is not grpc.ChannelConnectivity.READY:
            raise NotConnected(str(self._address), "the connection was refused", rpc.name)

    def _caller_of(self, rpc: Rpc[Request, Reply]) -> _Calling:
        if rpc.path not in self._calling:
            method: Any = self._open().unary_unary(
                rpc.path,
                request_serializer=rpc.request.SerializeToString,
                response_deserializer=rpc.reply.FromString,
            )
            self._calling[rpc.path] = method
        return self._calling[rpc.path]


def _is_cancelled() -> bool:
    """Whether the task itself was cancelled, rather than only the call that it awaits (by `close`)."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _number(code: grpc.StatusCode) -> int:
    return cast(tuple[int, str], code.value)[0]

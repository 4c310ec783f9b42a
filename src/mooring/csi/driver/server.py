"""A driver over gRPC: on Unix sockets and TCP, with the health and reflection services.

Guarantees: a stale socket is replaced, one on which a process listens is not; only its owner can open a
socket, unless `mode` says otherwise. At the end the server accepts no new call, calls in flight have the
grace period to end, and `serving` returns only after all operations have ended.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from mooring.csi.address import Address, parse_address
from mooring.csi.driver.dispatch import Dispatcher
from mooring.csi.driver.progress import due_in
from mooring.csi.driver.sockets import making_socket, remove_socket
from mooring.csi.errors import Code, CsiError, EndpointError
from mooring.csi.rpc import Controller, Identity, Node, Rpc, Service

GRACE_S = 10.0
LONGEST_DETAILS = 2000
"""Characters of an error's message that are sent, because it travels in an HTTP/2 header."""

_OPTIONS = (
    ("grpc.so_reuseport", 0),
)  # otherwise two drivers could share a port, each with half of the calls


@asynccontextmanager
async def serving(
    dispatcher: Dispatcher, endpoints: Sequence[str], mode: int = 0o600, grace_s: float = GRACE_S
) -> AsyncGenerator[list[str]]:
    """Serves while entered; yields the addresses, with the actual port in place of a port 0. Raises
    EndpointError."""
    server = grpc.aio.server(options=_OPTIONS)
    names = [_add(server, dispatcher, service) for service in _services(dispatcher)]
    condition = await _add_health(server, names)
    reflection.enable_server_reflection(
        [*names, health.SERVICE_NAME, reflection.SERVICE_NAME],
        server,  # pyright: ignore[reportArgumentType] (an asyncio server is taken as well)
    )
    addresses = [_listen(server, parse_address(endpoint), mode) for endpoint in endpoints]
    sockets = [
        (Path(address.path), Path(address.path).lstat().st_ino) for address in addresses if address.path
    ]
    await server.start()
    try:
        yield [str(address) for address in addresses]
    finally:
        await condition.enter_graceful_shutdown()
        await server.stop(grace_s)
        await dispatcher.finish()
        for path, inode in sockets:
            remove_socket(path, inode)


def _services(dispatcher: Dispatcher) -> list[type[Service]]:
    driver = dispatcher.driver
    optional = ((Controller, driver.controller), (Node, driver.node))
    return [Identity, *(service for service, served in optional if served is not None)]


def _add(server: grpc.aio.Server, dispatcher: Dispatcher, service: type[Service]) -> str:
    rpcs = list(service.methods())
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        rpc.name: grpc.unary_unary_rpc_method_handler(
            _handler(dispatcher, rpc), response_serializer=rpc.reply.SerializeToString
        )
        for rpc in rpcs
    }
    name = rpcs[0].service
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
    return name


def _handler(dispatcher: Dispatcher, rpc: Rpc[Any, Any]) -> Callable[[bytes, Any], Awaitable[Message]]:
    async def handle(body: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> Message:
        try:
            with due_in(context.time_remaining()):
                return await dispatcher.call(rpc, rpc.request.FromString(body))
        except DecodeError as error:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, f"not a {rpc.request.DESCRIPTOR.name}: {error}"
            )
        except CsiError as error:
            await context.abort(_status(error.code), error.message[:LONGEST_DETAILS])

    return handle


def _status(code: Code) -> grpc.StatusCode:
    return grpc.StatusCode[code.name]


class _Health(Protocol):
    """gRPC's health service, which the library's type stubs leave out."""

    async def set(self, service: str, status: int) -> None: ...
    async def enter_graceful_shutdown(self) -> None: ...


async def _add_health(server: grpc.aio.Server, names: Sequence[str]) -> _Health:
    servicer: _Health = cast(Any, health).aio.HealthServicer()
    cast(Any, health_pb2_grpc).add_HealthServicer_to_server(servicer, server)
    for name in ("", *names):
        await servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    return servicer


def _listen(server: grpc.aio.Server, address: Address, mode: int) -> Address:
    try:
        if address.path:
            with making_socket(Path(address.path), mode):
                server.add_insecure_port(address.target)
            return address
        return Address(host=address.host, port=server.add_insecure_port(address.target))
    except RuntimeError as error:
        raise EndpointError(Code.ALREADY_EXISTS, f"{address} cannot be listened on: {error}") from error

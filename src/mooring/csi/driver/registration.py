"""A driver makes itself known to the node agent (a kubelet, or Mooring's): it serves `Registration` in the
agent's registration folder.

The socket is `<folder>/<driver>-reg.sock`, as upstream's registrar names it. The driver is registered as long
as the socket is served; a restarted node agent calls it again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import structlog

from mooring.csi.address import parse_address
from mooring.csi.driver.sockets import making_socket, remove_socket
from mooring.csi.proto import registration_pb2 as registration
from mooring.csi.rpc import Registration

KIND = "CSIPlugin"
VERSIONS = ("1.0.0",)

_log = structlog.get_logger(__name__)


class Registrar:
    """Answers the node agent. `endpoint` is the path of the driver's socket on the agent's side."""

    def __init__(self, driver: str, endpoint: str) -> None:
        self._info = registration.PluginInfo(
            type=KIND, name=driver, endpoint=endpoint, supported_versions=VERSIONS
        )
        self.registered: bool | None = None
        """The node agent's last notification; None before the first."""

    async def get_info(self, request: registration.InfoRequest, context: object) -> registration.PluginInfo:
        return self._info

    async def notify_registration_status(
        self, request: registration.RegistrationStatus, context: object
    ) -> registration.RegistrationStatusResponse:
        self.registered = request.plugin_registered
        if request.plugin_registered:
            _log.info("registered", driver=self._info.name)
        else:
            _log.error("not registered: the node agent says why", driver=self._info.name, error=request.error)
        return registration.RegistrationStatusResponse()

    def handlers(self) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """gRPC handlers by method name."""
        by_rpc: dict[Any, Any] = {
            Registration.get_info: self.get_info,
            Registration.notify_registration_status: self.notify_registration_status,
        }
        return {
            rpc.name: grpc.unary_unary_rpc_method_handler(
                handler,
                request_deserializer=rpc.request.FromString,
                response_serializer=rpc.reply.SerializeToString,
            )
            for rpc, handler in by_rpc.items()
        }


@asynccontextmanager
async def registering(driver: str, endpoint: str, folder: Path) -> AsyncGenerator[Path]:
    """Offers the driver while entered; yields the socket's path. Raises EndpointError if another registrar
    listens there."""
    path = folder.absolute() / f"{driver}-reg.sock"
    address = parse_address(str(path))
    registrar = Registrar(driver, endpoint)
    server = grpc.aio.server()
    name = Registration.get_info.service
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, registrar.handlers()),))
    with making_socket(path, 0o600):
        server.add_insecure_port(address.target)
    inode = path.lstat().st_ino
    await server.start()
    try:
        yield path
    finally:
        await server.stop(grace=None)
        remove_socket(path, inode)

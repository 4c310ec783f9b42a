"""Running the server on this machine: on a data directory and a port on loopback, and at an address for
machines."""

from __future__ import annotations

import asyncio
import errno
import resource
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random, SystemRandom

from aiohttp import web

from mooring.apiserver.access.tokens import Tokens
from mooring.apiserver.data_directory import (
    STORE,
    DataDirectoryDamaged,
    bring_up_to_date,
    load_tokens,
    prepare,
    write_kubeconfig,
    write_private,
)
from mooring.apiserver.errors import LogCorrupt, LogFailed
from mooring.apiserver.message import Response
from mooring.apiserver.server import Server
from mooring.apiserver.store.sqlite_log import LogBusy, SqliteLog
from mooring.apiserver.transport import tls
from mooring.apiserver.transport.http import application
from mooring.apiserver.transport.limits import HANDSHAKE_S, IDLE_S, LONGEST_LINE, Gate
from mooring.apiserver.transport.node_endpoints import LOOPBACK, Network
from mooring.apiserver.transport.node_proxy import NodeProxy

HOST = "127.0.0.1"
_SHUTDOWN_S = 1.0
_OPEN_FILES = 65536


class PortBusy(Exception):
    """The port is taken; the message names it and says what to do."""


class NoSuchAddress(Exception):
    """This host has not the address for machines; the message names it."""


UNUSABLE = (
    PortBusy,
    NoSuchAddress,
    LogBusy,
    LogFailed,
    LogCorrupt,
    DataDirectoryDamaged,
    tls.CertificatesDamaged,
)
"""The errors of `serve` that an operator must resolve; their messages say how."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers at `url`."""

    server: Server
    url: str
    tokens: Tokens
    kubeconfig: Path
    authority: Path
    """The certificate (PEM) that the server's own is signed by."""
    _runner: web.AppRunner
    _listeners: Sequence[asyncio.Server]
    _proxy: NodeProxy

    async def close(self) -> None:
        """Stops answering, ends the watches, finishes the writes under way."""
        for listener in self._listeners:
            listener.close()
        handlers = self._runner.server
        connections = [each.transport for each in handlers.connections] if handlers is not None else []
        await self._runner.cleanup()
        for transport in connections:
            if transport is not None:
                transport.abort()  # else the end of TLS waits for a client that says nothing
        await self._proxy.close()
        await self.server.close()


async def serve(
    *,
    data_dir: Path,
    port: int = 0,
    tokens: Tokens | None = None,
    kubeconfig: Path | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    random: Random | None = None,
    node_endpoints: Sequence[Network] = LOOPBACK,
    machines_address: str = "",
    kubelet_authority: Path | None = None,
) -> Running:
    """Serves the store in `data_dir` (made if missing) on 127.0.0.1:`port` by TLS; port 0 takes any free one.

    With a `machines_address` of this host it also serves nodes there, and nodes alone, on the same port; what
    such a node has to trust is `tls.of(data_dir, machines_address).authority`.

    The server calls agents for logs and commands only in the networks `node_endpoints`, whatever address
    their Nodes report; to kubelets it shows `tls.of_client(data_dir)`, and if there is a `kubelet_authority`,
    it must have signed their certificates. It writes the administrator's kubeconfig (mode 0600) to
    `kubeconfig`, by default `data_dir/kubeconfig`. Raises the errors in `UNUSABLE`.
    """
    prepare(data_dir)
    _allow_connections()

    async def read(path: str) -> Response:
        return await server.call("GET", path)

    log = SqliteLog(data_dir / STORE)
    try:
        bring_up_to_date(data_dir)
        tokens = tokens or load_tokens(data_dir)
        proxy = NodeProxy(
            tokens,
            read,
            node_endpoints,
            lambda: tls.client_context(tls.of_client(data_dir), kubelet_authority),
        )
        server = Server(log, tokens, now=now, random=random or SystemRandom(), pod_logs=proxy.logs)
    except BaseException as error:
        log.close()
        if isinstance(error, LogCorrupt):
            raise LogCorrupt(f"the API server's store {data_dir / STORE} is damaged: {error}") from error
        raise
    try:
        await server.start()
        certificates = tls.ensure(data_dir, now, write_private)
        contexts = {HOST: certificates.context()}
        tls.ensure_client(data_dir, now, write_private)
        if machines_address:
            theirs = tls.ensure(data_dir, now, write_private, machines_address)
            contexts[machines_address] = theirs.context()
        gate = Gate(server.identities, machines_address)
        runner, listeners, url = await _listen(server, proxy, gate, port, contexts)
    except BaseException:
        await server.close()
        raise
    target = kubeconfig or data_dir / "kubeconfig"
    write_kubeconfig(target, url, tokens.admin(), certificates.authority.read_bytes())
    return Running(server, url, tokens, target, certificates.authority, runner, listeners, proxy)


async def _listen(
    server: Server, proxy: NodeProxy, gate: Gate, port: int, contexts: Mapping[str, ssl.SSLContext]
) -> tuple[web.AppRunner, list[asyncio.Server], str]:
    """At each address of `contexts`, on one port."""
    runner = web.AppRunner(
        application(server, proxy, gate),
        access_log=None,
        shutdown_timeout=_SHUTDOWN_S,
        handler_cancellation=True,
        keepalive_timeout=IDLE_S,
        max_line_size=LONGEST_LINE,
        auto_decompress=False,  # as upstream: a body is what was sent
    )
    await runner.setup()
    handlers = runner.server
    assert handlers is not None
    listeners: list[asyncio.Server] = []
    host = HOST
    try:
        for host, context in contexts.items():
            listener = await asyncio.get_running_loop().create_server(
                lambda: gate.arrived(handlers()),
                host,
                port,
                ssl=context,
                ssl_handshake_timeout=HANDSHAKE_S,
                backlog=512,
            )
            listeners.append(listener)
            port = listener.sockets[0].getsockname()[1]
    except OSError as error:
        for listener in listeners:
            listener.close()
        await runner.cleanup()
        raise _why_not(error, host, port) from error
    return runner, listeners, f"https://{HOST}:{port}"


def _why_not(error: OSError, host: str, port: int) -> Exception:
    """What to do about an address at which nothing can listen."""
    if error.errno == errno.EADDRINUSE:
        what = "stop what listens there, or choose another port (0 = any free one)"
        return PortBusy(f"port {port} on {host} is in use: {what}")
    if error.errno == errno.EADDRNOTAVAIL:
        return NoSuchAddress(
            f"{host} is no address of this host: `mooring up` gives it one with a machine's tap"
        )
    return error


def _allow_connections() -> None:
    """As many open files as this process may have: the usual bound is 1024, fewer than the nodes' watches."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

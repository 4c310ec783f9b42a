"""The storage servers of a running cluster: makes them, starts and stops them, shuts nodes out, says how
they are used.

Guarantees: what was ordered is written down before it is done, so a node that was shut out stays so whatever
dies; "is shut out" is answered only when the server has closed what the node had open and refuses it. A
server that cannot run does not keep the cluster from running: `list` says why it does not.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, Protocol

import structlog

from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.machines.network import MachineNetwork
from mooring.cluster.orders import Order, one_of, parse, text
from mooring.cluster.storage import addresses, programs, record
from mooring.cluster.storage.host import HostServer
from mooring.cluster.storage.nfs import NfsServer
from mooring.cluster.storage.record import Damaged, Kind, Server
from mooring.cluster.together import together
from mooring.mounts.blocking import blocking

log = structlog.get_logger(component="cluster")

INITIATOR = "/etc/iscsi/initiatorname.iscsi"
"""Where a machine's open-iscsi finds its iSCSI name."""
LOOK_S = 5.0
"""So long may a server take to say who is connected, in seconds."""


class Runs(Protocol):
    """A server that runs."""

    async def start(self) -> None: ...
    async def allow(self, clients: Mapping[str, Any]) -> None: ...
    async def connected(self) -> list[str]: ...
    async def stop(self) -> None: ...


def directory(layout: Layout, name: str) -> Path:
    """Of a server."""
    return layout.root / "storage" / name


def directories(layout: Layout) -> list[Path]:
    """Of all servers, also those that were removed and whose data is kept. Blocks."""
    return sorted(path for path in (layout.root / "storage").glob("*") if path.is_dir())


def initiator_name(layout: Layout, node: str) -> Path:
    """A file with the iSCSI name of a node's machine, as open-iscsi reads it: all of them would have the
    host's otherwise. Blocks."""
    path = layout.machine(node) / "initiatorname.iscsi"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"InitiatorName={record.initiator(node)}\n")
    return path


class Servers:
    """Those of one cluster. `networks` are the nodes' machines with a kernel of their own, by node;
    `changed` is awaited whenever the servers' addresses have changed."""

    def __init__(
        self,
        layout: Layout,
        networks: Mapping[str, MachineNetwork],
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        self._layout = layout
        self._networks = networks
        self._changed = changed
        self._known: dict[str, Server] = {}
        self._running: dict[str, Runs] = {}
        self._problems: dict[str, str] = {}
        self._lock = asyncio.Lock()  # one change at a time

    @property
    def addresses(self) -> Sequence[IPv4Address]:
        """Of those that are to be served."""
        return sorted(server.address for server in self._known.values() if not server.removed)

    @property
    def iscsi(self) -> Sequence[Server]:
        """The iSCSI servers that are to be served."""
        return [each for each in self._known.values() if each.kind is Kind.ISCSI and not each.removed]

    @property
    def parts(self) -> Mapping[str, IPv4Network]:
        """The addresses of each node's machine and its pods."""
        return {node: addresses.part(network) for node, network in self._networks.items()}

    # --- with the cluster

    async def start(self) -> None:
        """Those that were there when the cluster was last up are there again."""
        if not self._networks:
            return
        for path in await blocking(directories, self._layout):
            try:
                server = await blocking(record.load, path)
                self._known[server.name] = server
            except FileNotFoundError:
                continue  # it was being made
            except (Damaged, OSError) as error:
                self._problems[path.name] = str(error)
                log.error("a storage server's record cannot be read", server=path.name, why=str(error))
        wanted = [server for server in self._known.values() if not server.removed]
        await together(*(self._try(server) for server in wanted))

    async def _try(self, server: Server) -> None:
        try:
            await self._serve(server)
        except (ClusterError, OSError) as error:
            log.error("a storage server does not run", server=server.name, why=str(error))

    async def stop(self) -> None:
        """Takes all of them down; their addresses are swept away with the cluster's."""
        running, self._running = dict(self._running), {}
        await together(*(each.stop() for each in running.values()))

    async def _serve(self, server: Server) -> None:
        where = directory(self._layout, server.name)
        network = next(iter(self._networks.values()))
        running: Runs
        try:
            await blocking(programs.check, server.kind)
            await blocking(record.save_clients, where, self._clients(server))
            if server.kind is Kind.NFS:
                running = NfsServer(server, where, self._layout, network.addresses)
            else:
                running = HostServer(server, where, self._layout, network.addresses)
            self._running[server.name] = running
            await running.start()
            self._problems.pop(server.name, None)
        except BaseException as error:
            if isinstance(error, Exception):
                self._problems[server.name] = str(error)
            if (begun := self._running.pop(server.name, None)) is not None:
                await begun.stop()
            raise

    def _clients(self, server: Server) -> dict[str, Any]:
        return {node: part for node, part in self.parts.items() if node not in server.shut_out}

    # --- orders

    async def obey(self, command: str, name: str, options: Mapping[str, Any]) -> str:
        """Carries out what `mooring storage` orders of the server of that name. Raises ClusterError."""
        if not self._networks:
            raise ClusterError(
                "storage servers serve machines with a kernel of their own, and this cluster has none: "
                "mooring up --machines uml=2"
            )
        order = ORDERS.get(command)
        if order is None:
            raise ClusterError(f"unknown command {command!r}: there are {', '.join(ORDERS)}")
        given = parse(command, order, options)
        async with self._lock:
            return await order.run(self, name, **given)

    async def add(self, name: str, kind: Kind | None = None, size: int = 1 << 30, disks: int = 1) -> str:
        """Makes a server and starts it; one whose data was kept serves that again."""
        try:
            record.name(name)
        except ValueError as error:
            raise ClusterError(f"{name[:64]!r}: {error}") from None
        if kind is None:
            raise ClusterError(f"what a server speaks is one of {', '.join(Kind)}")
        if kind is Kind.NFS and disks != 1:
            raise ClusterError("an NFS server exports one file system")
        await blocking(programs.check, kind)
        before = self._known.get(name)
        if name in self._problems and before is None:
            raise ClusterError(f"there is a server {name} whose record is damaged: {self._problems[name]}")
        if before is not None and not before.removed:
            raise ClusterError(f"there is a server {name} already, of {before.kind}")
        if before is not None and (before.kind, before.size, before.disks) != (kind, size, disks):
            raise ClusterError(
                f"the data of {name} is kept, of {before.kind} with {before.disks} x {before.size} bytes: name these, "
                f"or `mooring storage remove {name} --delete-data`"
            )
        if len(self.addresses) >= record.MOST_SERVERS:
            raise ClusterError(f"there are {record.MOST_SERVERS} servers, and there can be no more")
        network = next(iter(self._networks.values()))
        address = await blocking(addresses.free, network.addresses, self.addresses)
        out = before.shut_out if before is not None else frozenset[str]()
        server = Server(kind, name, size, disks, address, out)
        await self._record(server)
        await blocking(_make_disks, directory(self._layout, name), server)
        try:
            await self._serve(server)
        except BaseException:
            if before is None:
                await self._forget(server)
            else:
                await self._record(before)
            raise
        await self._changed()
        also = f"; shut out as before: {', '.join(sorted(out))}" if out else ""
        return f"{name} serves {kind} at {address}{also}\n" + _commands(server)

    async def remove(self, name: str, delete_data: bool = False) -> str:
        """Takes it away; refused while a client is connected."""
        server = self._server(name, removed=True)
        if not server.removed:
            if users := await self._users(server):
                raise ClusterError(
                    f"{name} is used by {', '.join(users)}: disconnect there, or shut them out first "
                    f"(mooring storage shut-out {name} NODE)"
                )
            await self._record(_with(server, removed=True))
            if (running := self._running.pop(name, None)) is not None:
                await running.stop()
            await blocking(addresses.take_back, directory(self._layout, name))
            self._problems.pop(name, None)
            await self._changed()
        if not delete_data:
            return f"{name} is removed; its data is kept until `mooring storage remove {name} --delete-data`"
        await self._forget(server)
        return f"{name} is removed, with its data"

    async def _users(self, server: Server) -> list[str]:
        running = self._running.get(server.name)
        if running is None:
            return []
        found = {self._owner(address) for address in await running.connected()}
        return sorted(found - server.shut_out)

    def _owner(self, address: str) -> str:
        owners = (
            n for n, network in self._networks.items() if IPv4Address(address) in addresses.part(network)
        )
        return next(owners, address)

    async def shut_out(self, name: str, node: str = "") -> str:
        """The node's machine and pods cannot use it any more, once this returns."""
        server = self._server(name)
        self._check(node)
        changed = _with(server, shut_out=server.shut_out | {node})
        await self._record(changed)
        await self._apply(changed, f"so {node} may not be shut out yet")
        return f"{node} is shut out of {name}: what it had open there is closed, and it is refused"

    async def let_in(self, name: str, node: str = "") -> str:
        """The node may use it again. What it has not written yet it may write now."""
        server = self._server(name)
        self._check(node)
        changed = _with(server, shut_out=server.shut_out - {node})
        await self._record(changed)
        await self._apply(changed, f"so {node} may not be let in yet")
        return f"{node} may use {name}"

    async def _apply(self, server: Server, so: str) -> None:
        clients = self._clients(server)
        try:
            await blocking(record.save_clients, directory(self._layout, server.name), clients)
            if (running := self._running.get(server.name)) is not None:
                await running.allow(clients)
        except (ClusterError, OSError) as error:
            raise ClusterError(
                f"{server.name}: {error}, {so}: try again (it is done when it starts)"
            ) from error

    async def list(self, name: str) -> str:
        """JSON: all servers, or the one of that name, with how they are used and who uses them."""
        servers = [self._server(name, removed=True)] if name else list(self._known.values())
        rows = await asyncio.gather(*(self._row(server) for server in sorted(servers, key=lambda s: s.name)))
        damaged = [] if name else [each for each in self._problems if each not in self._known]
        return json.dumps([*rows, *({"name": each, "problem": self._problems[each]} for each in damaged)])

    async def _row(self, server: Server) -> dict[str, Any]:
        problem, users = self._problems.get(server.name, ""), list[str]()
        try:
            async with asyncio.timeout(LOOK_S):
                users = await self._users(server)
        except (ClusterError, TimeoutError, OSError) as error:
            problem = problem or str(error) or f"it does not answer within {LOOK_S:g} s"
        serves = server.name in self._running
        return {
            "name": server.name,
            "kind": server.kind.value,
            "address": str(server.address) if serves else "",
            "size": server.size,
            "disks": server.disks,
            "serves": serves,
            "problem": problem or ("removed; its data is kept" if server.removed else ""),
            "shutOut": sorted(server.shut_out),
            "connected": users,
            "target": server.target if server.kind is Kind.ISCSI else "",
            "commands": record.how_to_use(server) if serves else {},
        }

    def _server(self, name: str, *, removed: bool = False) -> Server:
        server = self._known.get(name)
        if server is None or (server.removed and not removed):
            there = ", ".join(sorted(n for n, s in self._known.items() if removed or not s.removed)) or "none"
            raise ClusterError(f"no storage server {name[:64]!r}: there are {there}")
        return server

    def _check(self, node: str) -> None:
        if node not in self._networks:
            raise ClusterError(
                f"{node[:64]!r} is no node whose machine has a kernel of its own: there are {', '.join(self._networks)}"
            )

    async def _record(self, server: Server) -> None:
        await blocking(record.save, directory(self._layout, server.name), server)
        self._known[server.name] = server

    async def _forget(self, server: Server) -> None:
        where = directory(self._layout, server.name)
        await blocking(addresses.take_back, where)
        self._known.pop(server.name, None)
        await blocking(_delete, where, self._layout.machine(server.machine))


def _with(server: Server, *, shut_out: frozenset[str] | None = None, removed: bool = False) -> Server:
    out = server.shut_out if shut_out is None else shut_out
    return Server(server.kind, server.name, server.size, server.disks, server.address, out, removed)


def _make_disks(where: Path, server: Server) -> None:
    if server.kind is Kind.NFS:
        return  # its machine makes its disk
    for path in record.disk_files(where, server):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            with path.open("wb") as file:
                file.truncate(server.size)


def _delete(*paths: Path) -> None:
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)


def _commands(server: Server) -> str:
    return "\n".join(f"  {command}" for command in record.how_to_use(server).values())


def _flag(said: Any) -> bool:
    if not isinstance(said, bool):
        raise ValueError("it is true or false")
    return said


_NODE = {"node": text(253)}
ORDERS: dict[str, Order] = {
    "storage-add": Order(
        Servers.add, options={"kind": one_of(Kind), "size": record.size, "disks": record.disks}
    ),
    "storage-remove": Order(Servers.remove, options={"delete_data": _flag}),
    "storage-shut-out": Order(Servers.shut_out, options=_NODE),
    "storage-let-in": Order(Servers.let_in, options=_NODE),
    "storage-list": Order(Servers.list),
}
"""By the word of the command."""

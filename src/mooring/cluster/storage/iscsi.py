"""An iSCSI server: tgtd at an address of its own, with its own control socket, kept as its clients are to be.

Guarantee: when `allow` has returned, no connection of a client that is not allowed is left, by tgtd's word
and by the kernel's, and none is let in. Persistent reservations are tgtd's, in its memory: they end with
it, as on an array without APTPL.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import structlog

from mooring.cluster.layout import ClusterError
from mooring.cluster.storage import tgt
from mooring.cluster.storage.peers import peers
from mooring.cluster.storage.programs import ENVIRON
from mooring.cluster.storage.record import ISCSI_PORT, Server, disk_files
from mooring.mounts.blocking import blocking

log = structlog.get_logger(component="storage")

START_S = 10.0
ORDER_S = 10.0
CLOSE_S = 10.0
_CONTROL = "0"


def control_socket(sockets: Path, server: Server) -> Path:
    """By which the server's tgtd takes orders. `sockets` is a directory with a short path."""
    return sockets / f"{server.name}.tgt"


class Tgtd:
    """The server's program, from `start` to `stop`."""

    def __init__(self, server: Server, directory: Path, sockets: Path) -> None:
        """`sockets`: see `control_socket`."""
        self._server = server
        self._directory = directory
        self._environ = {**os.environ, **ENVIRON, "TGT_IPC_SOCKET": str(control_socket(sockets, server))}
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Runs tgtd with the server's target and disks; no client is let in yet. Raises ClusterError."""
        portal = f"portal={self._server.address}:{ISCSI_PORT},nop_interval=10,nop_count=3"
        command = ["setpriv", "--pdeathsig", "KILL", "tgtd", "-f", "-C", _CONTROL, "--iscsi", portal]
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, cwd=self._directory, env=self._environ
        )
        await self._until_answers()
        mode = ("--mode", "target", "--tid", tgt.TARGET)
        await self._order("--op", "new", *mode, "-T", self._server.target)
        for number, path in enumerate(disk_files(self._directory, self._server), 1):
            await self._add_unit(number, path)

    async def _add_unit(self, number: int, path: Path) -> None:
        unit = ("--mode", "logicalunit", "--tid", tgt.TARGET, "--lun", str(number))
        await self._order("--op", "new", *unit, "-b", str(path))
        serial = hashlib.sha256(str(path).encode()).hexdigest()[:16]
        product = f"vendor_id=MOORING,product_id={path.name},scsi_sn={serial},scsi_id={serial}"
        await self._order("--op", "update", *unit, "--params", product)

    async def _until_answers(self) -> None:
        assert self._process is not None
        deadline = asyncio.get_running_loop().time() + START_S
        while True:
            try:
                await self._order("--op", "show", "--mode", "sys", driver=False)
                return
            except ClusterError as error:
                if self._process.returncode is not None or asyncio.get_running_loop().time() > deadline:
                    raise ClusterError(f"tgtd does not come up at {self._server.address}: {error}") from None
            await asyncio.sleep(0.05)

    async def allow(self, clients: Mapping[str, IPv4Network]) -> None:
        """From now on these clients are let in, and no others. Idempotent. Raises ClusterError: then it is
        not known who is connected."""
        deadline = asyncio.get_running_loop().time() + CLOSE_S
        while True:
            access = await self._access()
            for words in tgt.acl_orders(access, clients):
                await self._order(*words)
            # A client can have come back between two looks, as long as the ACL let it in.
            unwelcome = tgt.unwelcome(access, clients)
            for connection in unwelcome:
                with contextlib.suppress(ClusterError):  # it has gone by itself; the next look tells
                    await self._order(*tgt.closing(connection))
            strangers = [each for each in await self._peers() if not _is_in(each, clients)]
            if not unwelcome and not strangers and access.lets_in == tgt.wanted(clients):
                return
            if asyncio.get_running_loop().time() > deadline:
                who = f" to {', '.join(map(str, strangers))}" if strangers else ""
                raise ClusterError(f"tgtd has not closed all connections{who} within {CLOSE_S:g} s")
            await asyncio.sleep(0.05)

    async def connected(self) -> list[str]:
        """The addresses of its clients."""
        return sorted(map(str, await self._peers()))

    async def _peers(self) -> set[IPv4Address]:
        return await blocking(peers, self._server.address, ISCSI_PORT)

    async def _access(self) -> tgt.Access:
        return tgt.parse(await self._order("--op", "show", "--mode", "target"))

    async def _order(self, *words: str, driver: bool = True) -> str:
        process = await asyncio.create_subprocess_exec(
            *("tgtadm", "-C", _CONTROL, *(("--lld", "iscsi") if driver else ()), *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self._environ,
        )
        try:
            async with asyncio.timeout(ORDER_S):
                said, wrong = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise ClusterError(f"tgtd does not answer within {ORDER_S:g} s") from None
        if process.returncode:
            raise ClusterError(f"tgtadm {' '.join(words)}: {wrong.decode(errors='replace').strip()[:300]}")
        return said.decode(errors="replace")

    async def ended(self) -> str:
        """Waits until it has ended by itself; how."""
        assert self._process is not None
        return f"tgtd ended with status {await self._process.wait()}"

    async def stop(self) -> None:
        """Kills it: what it has acknowledged is the kernel's already, and it does not end while a client is
        connected."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


def _is_in(address: IPv4Address, clients: Mapping[str, IPv4Network]) -> bool:
    return any(address in part for part in clients.values())

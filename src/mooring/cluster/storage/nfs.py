"""An NFS server: the kernel's nfsd in a machine of its own, which boots again whenever it goes off, until
`stop`.

Its data is on the machine's own disk, and outlives its power.
"""

from __future__ import annotations

import asyncio
import shlex
import uuid
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path

import structlog

from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.machines import cgroup
from mooring.cluster.machines.boot_orders import Guest
from mooring.cluster.machines.guest_program import command
from mooring.cluster.machines.interface import Boot
from mooring.cluster.machines.system_uuid import system_uuid
from mooring.cluster.machines.uml.machine import UmlMachine
from mooring.cluster.storage import record
from mooring.cluster.storage.addresses import give_machine
from mooring.cluster.storage.record import Server
from mooring.mounts.blocking import blocking

log = structlog.get_logger(component="cluster")

MEMORY_BYTES = 256 << 20
STOP_S = 20.0
AGAIN_S = 1.0
INSIDE = Path("/srv/storage")
"""Where the machine mounts its disk."""
UNTIL_SERVES = (
    "timeout 15 sh -c 'until grep -q [1-9] /proc/fs/nfsd/threads; do sleep 0.05; done' 2> /dev/null"
)


class NfsServer:
    """Of a running cluster, from `start` to `stop`."""

    def __init__(self, server: Server, directory: Path, layout: Layout, addresses: IPv4Network) -> None:
        self._server = server
        self._directory = directory
        self._layout = layout
        self._addresses = addresses
        self._machine: UmlMachine | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()

    async def start(self) -> None:
        """Boots it. Raises ClusterError."""
        network = await blocking(give_machine, self._directory, self._server.address, self._addresses)
        group = await blocking(cgroup.of, self._layout.root, self._server.machine)
        if group is None:
            raise ClusterError("a machine of its own needs cgroups of version 2")
        self._machine = UmlMachine(
            self._server.machine,
            self._layout,
            self._guest,
            group=group,
            network=network,
            memory=MEMORY_BYTES,
            state_bytes=self._server.size,
        )
        await self._boot()
        self._watcher = asyncio.create_task(self._watch(), name=f"watch {self._server.machine}")

    async def _boot(self) -> None:
        assert self._machine is not None
        await self._machine.boot(Boot(str(uuid.uuid4()), "", str(system_uuid(self._directory))))
        status, output = await self._machine.run(UNTIL_SERVES)
        if status:
            raise ClusterError(
                f"its nfsd does not come up: {output.strip()[-200:]}; see {self._machine.console()}"
            )

    async def _watch(self) -> None:
        machine = self._machine
        assert machine is not None
        while True:
            ending = await machine.until_off()
            log.warning(
                "a storage server's machine is off: it boots again", server=self._server.name, why=ending
            )
            while not await self._boots(machine):
                pass

    async def _boots(self, machine: UmlMachine) -> bool:
        """Tries to boot it again, with nothing left of the boot before."""
        async with self._changing:
            await asyncio.sleep(AGAIN_S)
            try:
                await machine.cut_power()
                await self._boot()
            except Exception as error:  # a full disk, a kernel that does not end: whatever it is may pass
                log.error(
                    "a storage server does not boot: tried again", server=self._server.name, why=str(error)
                )
                return False
            return True

    def _guest(self) -> Guest:
        parts = ",".join(map(str, record.load_clients(self._directory).values()))
        return Guest([self._program("serve", parts)], {}, INSIDE, {}, [self._layout.root])

    def _program(self, what: str, parts: str = "") -> list[str]:
        return command("guest.nfs_server", what, str(INSIDE), parts)

    async def allow(self, clients: Mapping[str, IPv4Network]) -> None:
        """From now on these clients are let in, and no others. Idempotent. Raises ClusterError: then it is
        not known who is connected."""
        async with self._changing:
            await self._run(self._program("allow", ",".join(map(str, clients.values()))))

    async def connected(self) -> list[str]:
        """The addresses of its clients, also of one that was shut out and asks again. Raises ClusterError."""
        return (await self._run(self._program("connected"))).split()

    async def _run(self, command: list[str]) -> str:
        if self._machine is None:
            raise ClusterError(f"{self._server.name} does not run")
        status, output = await self._machine.run(shlex.join(command))
        if status:
            raise ClusterError(f"the machine of {self._server.name}: {output.strip()[-400:]}")
        return output

    async def stop(self) -> None:
        """Shuts it down. Idempotent."""
        if self._watcher is not None:
            self._watcher.cancel()
        machine = self._machine
        if machine is None:
            return
        async with self._changing:
            await machine.press_power_button()
            try:
                async with asyncio.timeout(STOP_S):
                    await machine.until_off()
            except TimeoutError:
                log.warning("did not shut down: its power is cut", server=self._server.name)
            await machine.cut_power()
            self._machine = None

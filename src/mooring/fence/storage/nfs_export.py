"""Shuts a machine out of an export of a kernel's NFS server, on the machine where it runs.

The export is taken back first (exportfs -u) and the kernel's cache of exports emptied; then each client state
of the machine is ended by `expire`, which the kernel answers only when no request of that client is in
progress. FENCED means that this was so for all of them, and that afterwards the export lets the machine in by
no entry. A server of NFS 3 keeps no list of clients, so what is in progress there cannot be shown: UNKNOWN.

`exportfs -r` and a restart of the server export again what /etc/exports names.
"""

from __future__ import annotations

from collections.abc import Mapping

from mooring.fence import parameters, programs
from mooring.fence.interface import Answer, Look, Mechanism, Order, Outcome, Parameter, Scope, State
from mooring.fence.moments import moment
from mooring.fence.programs import Deadline, Ended, ProgramMissing, Run
from mooring.fence.storage import nfsd_clients
from mooring.fence.storage.clients import BadClient, client_of, uncovered

EXPIRE = '[ ! -e "$1" ] || echo expire > "$1" || [ ! -e "$1" ]'
"""Of one client: true if it is gone."""
LISTING_BYTES = 4 << 20


class _Failed(Exception):
    """The server did not answer as it should."""


class NfsExport:
    """See `Mechanism`."""

    kind = "nfs-export"
    scope = Scope.STORAGE
    summary = "Shuts a machine out of an export of a kernel's NFS server (NFS 4), and ends its state there"
    parameters: Mapping[str, Parameter] = {
        "export": Parameter("The path that is exported", required=True),
        "networks": Parameter("Addresses and networks beside the machine's own: its pods'", per_node=True),
        "options": Parameter("With which it is let in again; rw,sync,no_subtree_check"),
    }

    def __init__(self, run: Run = programs.run) -> None:
        """`run` runs programs on the server's machine, if it is not this one."""
        self._run = run
        self._here = run is programs.run

    def problems(self, order: Order) -> list[str]:
        """See `Mechanism`."""
        given = order.parameters
        found = programs.missing({"exportfs": "nfs-kernel-server"}) if self._here else []
        found += parameters.problems(self.parameters, order)
        path = given.get("export", "/")
        if not path.startswith("/") or any(each.isspace() or each == ":" for each in path):
            found.append(f"export {path!r} is no path")
        if given.get("export"):
            found += uncovered(order.target.volumes, path, "/")
        if not given.get("options", "rw").replace(",", "").replace("_", "").replace("=", "").isalnum():
            found.append("options are no options of exports(5)")
        try:
            if not client_of(order).networks:
                found.append(f"no address of {order.target.node} is known")
        except BadClient as error:
            found.append(str(error))
        return found

    async def look(self, order: Order) -> Look:
        """See `Mechanism`."""
        if wrong := self.problems(order):
            return Look(State.UNKNOWN, "BadParameter", "; ".join(wrong))
        try:
            return await _Session(order, self._run).look()
        except (_Failed, ProgramMissing) as error:
            return Look(State.UNKNOWN, "Failed", str(error))

    async def fence(self, order: Order) -> Answer:
        """See `Mechanism`."""
        if wrong := self.problems(order):
            return Answer(Outcome.NOT_FENCED, "BadParameter", "; ".join(wrong))
        try:
            return await _Session(order, self._run).shut()
        except (_Failed, ProgramMissing) as error:
            return Answer(Outcome.UNKNOWN, "Failed", str(error))

    async def unfence(self, order: Order) -> Answer:
        """See `Mechanism`."""
        if wrong := self.problems(order):
            return Answer(Outcome.UNKNOWN, "BadParameter", "; ".join(wrong))
        try:
            return await _Session(order, self._run).open()
        except (_Failed, ProgramMissing) as error:
            return Answer(Outcome.UNKNOWN, "Failed", str(error))


def mechanism() -> Mechanism:
    """For the registry."""
    return NfsExport()


class _Session:
    """One call for one order."""

    def __init__(self, order: Order, run: Run) -> None:
        self._path = order.parameters["export"]
        self._options = order.parameters.get("options", "rw,sync,no_subtree_check")
        self._client = client_of(order)
        self._deadline = Deadline(order.deadline)
        self._run = run

    async def look(self) -> Look:
        entries = await self._entries()
        if nfsd_clients.lets_in(entries, self._client):
            return Look(State.OPEN, "Open", f"{self._path} is exported to {', '.join(entries)}")
        return Look(State.SHUT, "Shut", f"{self._path} is not exported to it")

    async def shut(self) -> Answer:
        before, ordered = await self.look(), moment()
        entries = await self._entries()
        own = [each for each in entries if self._client.has(each)]
        if nfsd_clients.lets_in([each for each in entries if each not in own], self._client):
            others = ", ".join(each for each in entries if each not in own)
            message = f"nothing was done: {self._path} is exported to it together with others ({others})"
            return Answer(Outcome.NOT_FENCED, "ExportTooWide", message, before=before.state)
        for entry in own:
            await self._asked("exportfs", "-u", f"{entry}:{self._path}")
        await self._asked("exportfs", "-f")
        ended = nfsd_clients.theirs(await self._known(), self._client)
        for each in ended:
            await self._asked("sh", "-c", EXPIRE, "sh", f"{each.directory}/ctl")
        after = await self.look()
        if after.state is not State.SHUT:
            return Answer(Outcome.UNKNOWN, after.code, after.message, before=before.state)
        if nfsd_clients.serves_version_3(await self._asked("cat", "/proc/fs/nfsd/versions")):
            message = "it is not exported to it any more; but the server speaks NFS 3, and a write may be in progress"
            return Answer(Outcome.UNKNOWN, "Version3", message, before=before.state)
        evidence = {
            "source": "nfs-export",
            "export": self._path,
            "orderedAt": ordered,
            "readAt": moment(),
            "expiredClients": str(len(ended)),
            "exportedTo": " ".join(await self._entries()),
        }
        return Answer(Outcome.FENCED, after.code, after.message, evidence, before.state)

    async def open(self) -> Answer:
        if not nfsd_clients.lets_in(await self._entries(), self._client):
            for each in self._client.networks:
                who = str(each).removesuffix("/32").removesuffix("/128")
                await self._asked("exportfs", "-o", self._options, f"{who}:{self._path}")
        after = await self.look()
        if after.state is not State.OPEN:
            return Answer(Outcome.UNKNOWN, after.code, after.message)
        return Answer(Outcome.UNFENCED, after.code, after.message, {"readAt": moment()})

    async def _entries(self) -> list[str]:
        return nfsd_clients.exported(await self._asked("exportfs", "-s"), self._path)

    async def _known(self) -> list[nfsd_clients.Known]:
        return nfsd_clients.known(await self._asked("sh", "-c", nfsd_clients.LIST))

    async def _asked(self, *words: str) -> str:
        ended = await self._run(words, deadline=self._deadline.left(), keep=LISTING_BYTES)
        if ended.status != 0:
            raise _Failed(f"{' '.join(words[:2])}: {_said(ended)}; it may have been done")
        return ended.output


def _said(ended: Ended) -> str:
    lines = [line for line in (ended.errors or ended.output).splitlines() if line.strip()]
    return f"{ended.words()}{': ' + lines[0][:200] if lines else ''}"

"""Shuts a machine out of one iSCSI target of tgt, on the machine where its tgtd runs.

Guarantees: the list of who is let in comes first and the connections after it, as a client that is only
disconnected logs in again at once, and one that is only taken out of the list goes on writing. FENCED means
that, read afterwards, the list lets the client in by none of its addresses and names, and tgtd has no session
of it: so no command of it is in progress either. A list that lets others in together with the client (ALL, a
wider network) is left as it is, and said. Needs tgtadm.

tgtd forgets its list when it ends: what starts it again must know which machines are shut out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mooring.fence import parameters, programs
from mooring.fence.interface import (
    Answer,
    Look,
    Mechanism,
    Order,
    Outcome,
    Parameter,
    Scope,
    Sessions,
    State,
    Volume,
)
from mooring.fence.moments import moment
from mooring.fence.programs import Deadline, Ended, ProgramMissing, Run
from mooring.fence.storage import tgt_targets
from mooring.fence.storage.clients import BadClient, Client, client_of, is_of, listed, uncovered
from mooring.fence.storage.tgt_targets import Served

PROGRAMS = {"tgtadm": "tgt"}
LISTING_BYTES = 4 << 20
PAUSE_S = 0.1


class _Failed(Exception):
    """tgtd did not answer as it should. `target`: it answered, and has no such target."""

    def __init__(self, message: str, code: str = "Failed") -> None:
        super().__init__(message)
        self.code = code


class IscsiTgt:
    """See `Mechanism`."""

    kind = "iscsi-tgt"
    scope = Scope.STORAGE
    summary = "Shuts a machine out of an iSCSI target of tgt: its list first, then the connections"
    parameters: Mapping[str, Parameter] = {
        "target": Parameter("The target's name (IQN)", required=True),
        "portals": Parameter(
            "ADDRESS:PORT, ... of this tgtd, as volumes name it: what is known of volumes by those alone is "
            "released when a machine is shut out; without it, nothing is"
        ),
        "socket": Parameter("tgtd's control socket, as TGT_IPC_SOCKET; its default one"),
        "control-port": Parameter("tgtd's control port (tgtadm -C); 0"),
        "networks": Parameter("Addresses and networks beside the machine's own: its pods'", per_node=True),
        "acl": Parameter(
            "The machine's entries of the target's list, to be taken out and put back; its addresses, networks "
            "and initiators",
            per_node=True,
        ),
    }

    def __init__(self, run: Run = programs.run) -> None:
        self._run = run

    def problems(self, order: Order) -> list[str]:
        """See `Mechanism`."""
        given = order.parameters
        found = [*programs.missing(PROGRAMS), *parameters.problems(self.parameters, order)]
        if any(each.isspace() for each in given.get("target", "")):
            found.append(f"target {given['target']!r} is no name of a target")
        if not given.get("control-port", "0").isdecimal():
            found.append("control-port is no number")
        found += [f"acl: {each!r} is everyone" for each in listed(given.get("acl", "")) if each == "ALL"]
        if given.get("target"):
            found += uncovered(order.target.volumes, given["target"], ",")
        try:
            _client_of(order)
        except BadClient as error:
            found.append(str(error))
        return found

    def covers(self, order: Order, volume: Volume) -> bool:
        """By the target's name and its portal both: the name alone does not tell one tgtd from another."""
        portals = listed(order.parameters.get("portals", ""))
        return volume.server in portals and is_of(volume, order.parameters.get("target", ""), ",")

    async def look(self, order: Order) -> Look:
        """See `Mechanism`."""
        if wrong := self.problems(order):
            return Look(State.UNKNOWN, "BadParameter", "; ".join(wrong))
        try:
            return await _Session(order, self._run).look()
        except (_Failed, ProgramMissing) as error:
            return Look(State.UNKNOWN, getattr(error, "code", "NotInstalled"), str(error))

    async def sessions(self, order: Order) -> Sessions:
        """A nexus stays in tgtd's list until its last command has ended: what a look calls shut has none."""
        if wrong := self.problems(order):
            return Sessions(State.UNKNOWN, "; ".join(wrong))
        try:
            return await _Session(order, self._run).sessions()
        except (_Failed, ProgramMissing) as error:
            return Sessions(State.UNKNOWN, str(error))

    async def fence(self, order: Order) -> Answer:
        """See `Mechanism`."""
        if wrong := self.problems(order):
            return Answer(Outcome.NOT_FENCED, "BadParameter", "; ".join(wrong))
        try:
            return await _Session(order, self._run).shut()
        except (_Failed, ProgramMissing) as error:  # tgtadm was there a moment ago, and may have been told
            return Answer(Outcome.UNKNOWN, getattr(error, "code", "NotInstalled"), str(error))

    async def unfence(self, order: Order) -> Answer:
        """See `Mechanism`."""
        if wrong := self.problems(order):
            return Answer(Outcome.UNKNOWN, "BadParameter", "; ".join(wrong))
        try:
            return await _Session(order, self._run).open()
        except (_Failed, ProgramMissing) as error:
            return Answer(Outcome.UNKNOWN, getattr(error, "code", "NotInstalled"), str(error))


def mechanism() -> Mechanism:
    """For the registry."""
    return IscsiTgt()


class _Session:
    """One call for one order."""

    def __init__(self, order: Order, run: Run) -> None:
        self._given = order.parameters
        self._client = _client_of(order)
        self._deadline = Deadline(order.deadline)
        self._run = run

    @property
    def _target(self) -> str:
        return self._given["target"]

    async def look(self) -> Look:
        return self._judged(await self._served())

    async def sessions(self) -> Sessions:
        served = await self._served()
        found, moved = self._judged(served), dict[str, int]()
        own = {each.session for each in tgt_targets.sessions_of(served, self._client)}
        if own:
            ended = await self._do("--op", "stat", "--mode", "target", "--tid", served.number)
            if ended.status != 0:
                raise _Failed(f"tgtadm --op stat: {_said(ended)}")
            traffic = tgt_targets.traffic(ended.output)
            moved = {f"{session}/{lun}": many for (session, lun), many in traffic.items() if session in own}
        return Sessions(found.state, found.message, moved)

    def _judged(self, served: Served) -> Look:
        sessions = tgt_targets.sessions_of(served, self._client)
        lets_in = tgt_targets.lets_in(served.acl, self._client)
        facts = {"target": self._target}
        if not lets_in and not sessions:
            return Look(
                State.SHUT, "Shut", f"{self._target} does not let it in, and has no session of it", facts
            )
        if not lets_in:
            message = f"{self._target} does not let it in again, and has sessions of it: {len(sessions)}"
            return Look(State.OPEN, "Connected", message, facts)
        return Look(State.OPEN, "Open", f"{self._target} lets it in; sessions: {len(sessions)}", facts)

    async def shut(self) -> Answer:
        served = await self._served()
        before = self._judged(served)
        own = tgt_targets.entries_of(served, self._client, listed(self._given.get("acl", "")))
        if tgt_targets.lets_in([each for each in served.acl if each not in own], self._client):
            others = ", ".join(each for each in served.acl if each not in own)
            message = f"nothing was done: {self._target} lets it in together with others ({others})"
            return Answer(Outcome.NOT_FENCED, "ListTooWide", message, before=before.state)
        ordered, closed = moment(), 0
        while True:
            for entry in tgt_targets.entries_of(served, self._client, listed(self._given.get("acl", ""))):
                await self._ordered("unbind", served, entry)
            # The client can have logged in again until its entries were gone.
            for nexus in tgt_targets.sessions_of(served, self._client):
                for number, _ in nexus.connections:
                    closed += 1
                    await self._do(
                        *("--op", "delete", "--mode", "conn", "--tid", served.number),
                        *("--sid", nexus.session, "--cid", number),
                    )
            served = await self._served()
            look = self._judged(served)
            if look.state is State.SHUT:
                break
            if not await self._deadline.pause(PAUSE_S):
                return Answer(Outcome.UNKNOWN, look.code, look.message, before=before.state)
        evidence = {
            "source": "iscsi-tgt",
            "target": self._target,
            "orderedAt": ordered,
            "readAt": moment(),
            "letsIn": " ".join(served.acl),
            "closedConnections": str(closed),
            "sessions": "0",
        }
        return Answer(Outcome.FENCED, look.code, look.message, evidence, before.state)

    async def open(self) -> Answer:
        served = await self._served()
        if not tgt_targets.lets_in(served.acl, self._client):
            for entry in self._entries():
                if entry not in served.acl:
                    await self._ordered("bind", served, entry)
            served = await self._served()
        look = self._judged(served)
        if not tgt_targets.lets_in(served.acl, self._client):
            return Answer(Outcome.UNKNOWN, look.code, look.message)
        return Answer(Outcome.UNFENCED, look.code, look.message, {"readAt": moment(), **look.identity})

    def _entries(self) -> list[str]:
        """What lets it in again."""
        own = [*map(_entry, map(str, self._client.networks)), *self._client.names]
        return listed(self._given.get("acl", "")) or own

    async def _served(self) -> Served:
        ended = await self._do("--op", "show", "--mode", "target")
        if ended.status != 0:
            raise _Failed(f"tgtadm: {_said(ended)}", "Silent" if ended.status is None else "Failed")
        found = tgt_targets.parse(ended.output).get(self._target)
        if found is None:
            raise _Failed(f"tgtd has no target {self._target}", "NotFound")
        return found

    async def _ordered(self, operation: str, served: Served, entry: str) -> None:
        flag = "-Q" if tgt_targets.is_name(entry) else "-I"
        ended = await self._do("--op", operation, "--mode", "target", "--tid", served.number, flag, entry)
        if ended.status is None:
            raise _Failed(f"tgtadm --op {operation}: {_said(ended)}; it may have been done", "Silent")

    async def _do(self, *words: str) -> Ended:
        socket = self._given.get("socket")
        return await self._run(
            ["tgtadm", "-C", self._given.get("control-port", "0"), "--lld", "iscsi", *words],
            deadline=self._deadline.left(),
            environ={"TGT_IPC_SOCKET": socket} if socket else {},
            keep=LISTING_BYTES,
        )


def _client_of(order: Order) -> Client:
    """The machine, with the names that its own entries of the list give it. Raises BadClient."""
    named = [each for each in listed(order.parameters.get("acl", "")) if tgt_targets.is_name(each)]
    target = replace(order.target, initiators=(*order.target.initiators, *named))
    return client_of(replace(order, target=target))


def _entry(network: str) -> str:
    """As tgt lists an address alone."""
    return network.removesuffix("/32").removesuffix("/128")


def _said(ended: Ended) -> str:
    lines = [line for line in (ended.errors or ended.output).splitlines() if line.strip()]
    return f"{ended.words()}{': ' + lines[0][:200] if lines else ''}"

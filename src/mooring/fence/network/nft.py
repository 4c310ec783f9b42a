"""Cuts a machine off by nftables on the host that carries its bridge, or routes for it.

Guarantees: FENCED means that the kernel lists all rules of this fence, read after they were loaded. They are
loaded in one transaction, in tables that are this fence's alone, so several fences stand beside one another
and `unfence` opens no other's. Nothing of the machine gets through in either direction but, if so asked, TCP
to one server's port: the API server's, so that a new boot of the machine can say that it is one.

Not seen by it: traffic that does not pass this host; that of a flow offloaded to hardware, of XDP, macvtap or
SR-IOV. Needs nft and iproute2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from mooring.fence import parameters, programs
from mooring.fence.interface import Answer, Look, Mechanism, Order, Outcome, Parameter, Scope, State, Volume
from mooring.fence.moments import moment
from mooring.fence.network import rules
from mooring.fence.network.rules import BadFence, Fence
from mooring.fence.programs import Deadline, Ended, ProgramMissing, Run

PROGRAMS = {"nft": "nftables", "ip": "iproute2", "bridge": "iproute2", "nsenter": "util-linux"}

LISTING_BYTES = 8 << 20
"""What a host lists of its tables, addresses and neighbours may be long."""


class _Failed(Exception):
    """A question was not answered."""


class Nft:
    """See `Mechanism`."""

    kind = "nft"
    scope = Scope.NETWORK
    summary = "Cuts a machine off by nftables on the host that carries its bridge"
    parameters: Mapping[str, Parameter] = {
        "leave-open": Parameter(
            "ADDRESS:PORT of the API server, to which the machine's TCP is let through; or `nothing`",
            required=True,
        ),
        "ports": Parameter("The machine's ports of the bridge, with commas between them", per_node=True),
        "networks": Parameter("Addresses and networks beside the machine's own: its pods'", per_node=True),
        "reaches": Parameter(
            "Networks that the machine reaches through what is cut, and by no other way: volumes that are served there "
            "are given free"
        ),
        "namespace": Parameter("Name of the network namespace (ip netns) in which the bridge is"),
    }

    def __init__(self, run: Run = programs.run) -> None:
        self._run = run

    def problems(self, order: Order) -> list[str]:
        """See `Mechanism`."""
        found = [*programs.missing(PROGRAMS), *parameters.problems(self.parameters, order)]
        found += [] if order.token else ["the order has no token"]
        try:
            fence_of(order)
            _reaches(order)
        except BadFence as error:
            found.append(str(error))
        return found

    def covers(self, order: Order, volume: Volume) -> bool:
        """By the address of its server: one that the machine reaches by nothing but what is cut, and that is
        neither the machine's own nor left open."""
        server = _address(volume.server)
        if server is None or server.is_loopback:
            return False
        try:
            fence, reaches = fence_of(order), _reaches(order)
        except BadFence:
            return False
        open_still = fence.way is not None and fence.way.address == server
        own = any(server in each for each in fence.networks)
        return any(server in each for each in reaches) and not (own or open_still)

    async def look(self, order: Order) -> Look:
        """See `Mechanism`."""
        if wrong := self.problems(order):
            return Look(State.UNKNOWN, "BadParameter", "; ".join(wrong))
        session = _Session(order, self._run)
        try:
            return await session.look()
        except (_Failed, ProgramMissing) as error:
            return Look(State.UNKNOWN, "Failed", str(error))

    async def fence(self, order: Order) -> Answer:
        """See `Mechanism`."""
        if wrong := self.problems(order):
            return Answer(Outcome.NOT_FENCED, "BadParameter", "; ".join(wrong))
        try:
            return await _Session(order, self._run).shut()
        except (_Failed, ProgramMissing) as error:  # it was there a moment ago: the rules may be loaded
            return Answer(Outcome.UNKNOWN, "Failed", str(error))

    async def unfence(self, order: Order) -> Answer:
        """See `Mechanism`."""
        if not order.token:
            return Answer(Outcome.UNKNOWN, "BadParameter", "the order has no token")
        try:
            return await _Session(order, self._run).open()
        except (_Failed, ProgramMissing) as error:
            return Answer(Outcome.UNKNOWN, "Failed", str(error))


def mechanism() -> Mechanism:
    """For the registry."""
    return Nft()


def fence_of(order: Order) -> Fence:
    """What is to be cut off. Raises BadFence."""
    given = parameters.given(order)
    target = order.target
    made = Fence(
        tuple(dict.fromkeys(map(rules.mac, target.macs))),
        tuple(
            dict.fromkeys(map(rules.network, (*target.addresses, *rules.listed(given.get("networks", "")))))
        ),
        tuple(dict.fromkeys(map(rules.port, rules.listed(given.get("ports", ""))))),
        rules.way(given.get("leave-open", "nothing")),
    )
    rules.port(given.get("namespace", "none"))
    if not made.macs and not made.ports:
        raise BadFence(
            f"neither a MAC address of {target.node} nor its port of the bridge is known: under another address "
            "it would get through"
        )
    if made.way is not None and any(made.way.address in each for each in made.networks):
        raise BadFence(f"{made.way.address} is to be left open, and is of the machine that is to be cut off")
    return made


def _reaches(order: Order) -> list[rules.Network]:
    """Raises BadFence."""
    words = rules.listed(order.parameters.get("reaches", ""))
    try:
        return [ip_network(each) for each in words]
    except ValueError as error:
        raise BadFence(f"reaches: {error}") from None


def _address(server: str) -> IPv4Address | IPv6Address | None:
    """Of ADDRESS:PORT; None if it is a name, which may lead anywhere."""
    host, _, port = server.rpartition(":")
    try:
        return ip_address(host.removeprefix("[").removesuffix("]")) if port.isdigit() else None
    except ValueError:
        return None


class _Session:
    """One call for one order."""

    def __init__(self, order: Order, run: Run) -> None:
        self._order = order
        self._fence = fence_of(order)
        self._name = rules.table(order.target.node, order.token)
        self._deadline = Deadline(order.deadline)
        self._run = run

    async def look(self) -> Look:
        found = [
            rules.found(await self._table(family), family, self._name, self._fence)
            for family in rules.FAMILIES
        ]
        out, into = (sum(each.dropped[way] for each in found) for way in (0, 1))
        if all(each.complete for each in found):
            message = f"all rules of {self._name} are there; dropped {out} packets from it, {into} to it"
            return Look(State.SHUT, "Shut", message, {"droppedFrom": str(out), "droppedTo": str(into)})
        if any(each.present for each in found):
            return Look(
                State.OPEN, "Incomplete", f"{self._name} is there, and rules of it are missing or changed"
            )
        return Look(State.OPEN, "Open", f"there is no {self._name}")

    async def shut(self) -> Answer:
        if wrong := await self._strangers():
            return Answer(Outcome.NOT_FENCED, "WrongTarget", f"nothing was done: {wrong}")
        before = await self.look()
        ordered = moment()
        if before.state is not State.SHUT:
            text = rules.ruleset(self._name, self._order.target.node, self._fence)
            loaded = await self._do("nft", "-f", "-", given=text)
            if loaded.status is None or loaded.status < 0:
                raise _Failed(f"nft {loaded.words()}: the rules may have been loaded")
            if loaded.status:
                return Answer(
                    Outcome.NOT_FENCED, "Refused", f"the kernel took none of the rules: {_said(loaded)}"
                )
        after = await self.look()
        if after.state is not State.SHUT:
            return Answer(Outcome.UNKNOWN, after.code, after.message, before=before.state)
        evidence = {
            "source": "nft",
            "table": self._name,
            "orderedAt": ordered,
            "readAt": moment(),
            "macs": " ".join(self._fence.macs),
            "networks": " ".join(map(str, self._fence.networks)),
            "ports": " ".join(self._fence.ports),
            **after.identity,
        }
        return Answer(Outcome.FENCED, after.code, after.message, evidence, before.state)

    async def open(self) -> Answer:
        if there := await self._there():
            await self._do("nft", "-f", "-", given=rules.removal(there))
        if left := await self._there():
            return Answer(Outcome.UNKNOWN, "Shut", f"{self._name} is still there, in families: {len(left)}")
        return Answer(Outcome.UNFENCED, "Open", f"there is no {self._name}", {"readAt": moment()})

    async def _there(self) -> list[tuple[str, str]]:
        tables = (await self._answered("nft", "list", "tables")).splitlines()
        return [(family, self._name) for family in rules.FAMILIES if f"table {family} {self._name}" in tables]

    async def _table(self, family: str) -> Any:
        """What the kernel lists of it; None if there is none."""
        if (family, self._name) not in await self._there():
            return None
        text = await self._answered("nft", "-j", "list", "table", family, self._name)
        try:
            return json.loads(text)
        except ValueError:  # nft 1.0.6 does not print a table's flags as JSON; a fence has none
            return {"nftables": [{"table": {"family": family, "name": self._name, "flags": "unreadable"}}]}

    async def _strangers(self) -> str:
        """Whom the fence would cut off beside the machine, or in its place."""
        if own := rules.own(await self._asked("ip", "-j", "address"), self._fence):
            return f"this host itself has {', '.join(own)}"
        if found := rules.strangers(await self._asked("ip", "-j", "neighbour"), self._fence):
            return f"another machine has its address: {', '.join(found)}"
        if found := rules.elsewhere(await self._asked("bridge", "-j", "fdb"), self._fence):
            return f"it is at another port of the bridge: {', '.join(found)}"
        return ""

    async def _answered(self, *words: str) -> str:
        ended = await self._do(*words)
        if ended.status != 0:
            raise _Failed(f"{' '.join(words)}: {_said(ended)}")
        return ended.output

    async def _asked(self, *words: str) -> Any:
        try:
            return json.loads(await self._answered(*words) or "[]")
        except ValueError as error:
            raise _Failed(f"{' '.join(words)}: its answer is no JSON: {error}") from error

    async def _do(self, *words: str, given: str = "") -> Ended:
        namespace = self._order.parameters.get("namespace")
        inside = ["nsenter", f"--net=/run/netns/{namespace}"] if namespace else []
        return await self._run(
            [*inside, *words], deadline=self._deadline.left(), given=given.encode(), keep=LISTING_BYTES
        )


def _said(ended: Ended) -> str:
    lines = [line for line in ended.errors.splitlines() if line.strip()]
    return f"{ended.words()}{': ' + lines[0][:200] if lines else ''}"

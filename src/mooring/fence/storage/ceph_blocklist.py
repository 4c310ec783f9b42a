"""Puts a machine's addresses on a Ceph cluster's blocklist (`ceph osd blocklist`): its storage daemons refuse
every client at them, whatever it has mapped or mounted.

FENCED means: the cluster lists each of the addresses, and each storage daemon that is up says that it goes by
a map that is as new as that list; one that comes up later asks for it first. An entry has an end: `look`
finds one that is near, or that another has taken away, and it is written anew. The machine's storage network
may be another than its Node's addresses: `networks`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from mooring.fence import parameters, programs
from mooring.fence.interface import (
    Answer,
    Look,
    Mechanism,
    Order,
    Outcome,
    Parameter,
    Scope,
    State,
    Volume,
)
from mooring.fence.moments import moment
from mooring.fence.programs import Deadline, Hidden, ProgramMissing, Run
from mooring.fence.storage import ceph_answers
from mooring.fence.storage.ceph_answers import Unreadable
from mooring.fence.storage.clients import BadClient, client_of, listed

LASTS_S = 94_608_000
"""Three years: an entry's end lets the machine in again, whatever it holds."""
LEAST = timedelta(minutes=10)
"""An entry that ends sooner counts as none."""
AT_ONCE = 8
"""So many storage daemons are asked at a time."""
LOOK_S = 0.5
LISTING_BYTES = 16 << 20


class _Failed(Exception):
    """The cluster did not answer as it should."""


class CephBlocklist:
    """See `Mechanism`."""

    kind = "ceph-blocklist"
    scope = Scope.STORAGE
    summary = "Puts a machine's addresses on a Ceph cluster's blocklist"
    parameters: Mapping[str, Parameter] = {
        "monitors": Parameter(
            "Of the cluster, ADDRESS:PORT, with commas: all that volumes name", required=True
        ),
        "user": Parameter("Without `client.`, with the right to read and to blocklist", required=True),
        "key": Parameter("Of the user, as `ceph auth print-key` prints it", required=True, secret=True),
        "networks": Parameter("Its addresses beside its Node's: on the storage network", per_node=True),
    }

    def __init__(self, run: Run = programs.run) -> None:
        self._run = run
        self._here = run is programs.run

    def problems(self, order: Order) -> list[str]:
        """See `Mechanism`."""
        given = order.parameters
        found = programs.missing({"ceph": "ceph-common"}) if self._here else []
        found += parameters.problems(self.parameters, order)
        if not given.get("user", "x").replace("-", "").replace("_", "").replace(".", "").isalnum():
            found.append("user is no name of a Ceph user")
        found += [
            f"monitors: {each!r} is no address with a port"
            for each in listed(given.get("monitors", ""))
            if not ceph_answers.is_endpoint(each)
        ]
        try:
            if wide := [str(each) for each in client_of(order).networks if each.num_addresses > 1]:
                found.append(f"{', '.join(wide)} is not one address: name each of the machine's")
            if not client_of(order).networks:
                found.append(f"no address of {order.target.node} is known")
        except BadClient as error:
            found.append(str(error))
        return found

    def covers(self, order: Order, volume: Volume) -> bool:
        """By its monitor: all of a cluster's volumes."""
        return volume.server in listed(order.parameters.get("monitors", ""))

    async def look(self, order: Order) -> Look:
        """See `Mechanism`."""
        if wrong := self.problems(order):
            return Look(State.UNKNOWN, "BadParameter", "; ".join(wrong))
        try:
            with Hidden(keyring(order)) as file:
                return await _Session(order, self._run, file.path).look()
        except (_Failed, Unreadable, ProgramMissing) as error:
            return Look(State.UNKNOWN, "Failed", str(error))

    async def fence(self, order: Order) -> Answer:
        """See `Mechanism`."""
        if wrong := self.problems(order):
            return Answer(Outcome.NOT_FENCED, "BadParameter", "; ".join(wrong))
        try:
            with Hidden(keyring(order)) as file:
                return await _Session(order, self._run, file.path).shut()
        except (_Failed, Unreadable, ProgramMissing) as error:
            return Answer(Outcome.UNKNOWN, "Failed", str(error))

    async def unfence(self, order: Order) -> Answer:
        """See `Mechanism`."""
        if wrong := self.problems(order):
            return Answer(Outcome.UNKNOWN, "BadParameter", "; ".join(wrong))
        try:
            with Hidden(keyring(order)) as file:
                return await _Session(order, self._run, file.path).open()
        except (_Failed, Unreadable, ProgramMissing) as error:
            return Answer(Outcome.UNKNOWN, "Failed", str(error))


def mechanism() -> Mechanism:
    """For the registry."""
    return CephBlocklist()


def keyring(order: Order) -> str:
    """As the program reads it."""
    return f"[client.{order.parameters['user']}]\n\tkey = {order.secrets['key'].strip()}\n"


class _Session:
    """One call for one order."""

    def __init__(self, order: Order, run: Run, keyring: str) -> None:
        self._addresses = [str(each.network_address) for each in client_of(order).networks]
        self._deadline = Deadline(order.deadline)
        self._run = run
        monitors = ",".join(listed(order.parameters["monitors"]))
        name = f"client.{order.parameters['user']}"
        self._program = (
            "ceph",
            "-c",
            "/dev/null",
            "-m",
            monitors,
            "--name",
            name,
            "--keyring",
            keyring,
            "--format",
            "json",
        )

    async def look(self) -> Look:
        entries = ceph_answers.blocklist(await self._asked("osd", "blocklist", "ls"))
        soon = datetime.now(UTC) + LEAST
        missing = [each for each in self._addresses if entries.get(each, soon) <= soon]
        if missing:
            return Look(State.OPEN, "NotListed", f"the blocklist does not have {', '.join(missing)}")
        return Look(State.SHUT, "Listed", f"the blocklist has {', '.join(self._addresses)}")

    async def shut(self) -> Answer:
        before, ordered = await self.look(), moment()
        entries = ceph_answers.blocklist(await self._asked("osd", "blocklist", "ls"))
        for each in self._addresses:
            if each in entries and entries[each] <= datetime.now(UTC) + LEAST:
                await self._asked("osd", "blocklist", "rm", _written(each))  # Ceph prolongs none
            await self._asked("osd", "blocklist", "add", _written(each), str(LASTS_S))
        after = await self.look()
        if after.state is not State.SHUT:
            return Answer(Outcome.UNKNOWN, after.code, after.message, before=before.state)
        found = ceph_answers.osd_map(await self._asked("osd", "dump"))
        if behind := await self._behind(found):
            names = ", ".join(f"osd.{each}" for each in behind[:5])
            message = f"it is on the blocklist, and {names} did not say in time that they go by it"
            return Answer(Outcome.UNKNOWN, "MapNotEverywhere", message, before=before.state)
        evidence = {
            "source": "ceph-blocklist",
            "addresses": " ".join(self._addresses),
            "epoch": str(found.epoch),
            "daemons": str(len(found.up)),
            "orderedAt": ordered,
            "readAt": moment(),
        }
        return Answer(Outcome.FENCED, after.code, after.message, evidence, before.state)

    async def open(self) -> Answer:
        entries = ceph_answers.blocklist(await self._asked("osd", "blocklist", "ls"))
        for each in self._addresses:
            if each in entries:
                await self._asked("osd", "blocklist", "rm", _written(each))
        after = await self.look()
        if after.state is not State.OPEN:
            return Answer(Outcome.UNKNOWN, after.code, after.message)
        return Answer(Outcome.UNFENCED, after.code, after.message, {"readAt": moment()})

    async def _behind(self, found: ceph_answers.OsdMap) -> list[int]:
        """The daemons that have not said within the order's time that they go by the map."""
        left: list[int] = list(found.up)
        while left:
            ready: set[int] = set()
            for at in range(0, len(left), AT_ONCE):
                asked = left[at : at + AT_ONCE]
                said = await asyncio.gather(*[self._epoch_of(each) for each in asked])
                ready |= {each for each, epoch in zip(asked, said, strict=True) if epoch >= found.epoch}
            left = [each for each in left if each not in ready]
            if left and not await self._deadline.pause(LOOK_S):
                return left
        return []

    async def _epoch_of(self, daemon: int) -> int:
        """0 where it does not say."""
        try:
            return ceph_answers.newest_map(await self._asked("tell", f"osd.{daemon}", "status"))
        except (_Failed, Unreadable):
            return 0

    async def _asked(self, *words: str) -> str:
        ended = await self._run((*self._program, *words), deadline=self._deadline.left(), keep=LISTING_BYTES)
        if ended.status != 0:
            lines = [line for line in ended.errors.splitlines() if line.strip()]
            said = f": {lines[-1][:200]}" if lines else ""
            raise _Failed(f"ceph {' '.join(words[:3])}: {ended.words()}{said}; it may have been done")
        return ended.output


def _written(address: str) -> str:
    """As Ceph reads an address of all ports."""
    return f"[{address}]:0/0" if ":" in address else f"{address}:0/0"

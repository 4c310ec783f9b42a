"""Takes a machine's registration at disks away, by persistent reservations: what SCSI and NVMe share.

FENCED means that for each disk, read afterwards: the machine is not registered, a reservation is held under
which who is not registered cannot write, and PREEMPT AND ABORT, which ends the commands of the preempted, was
answered for each key, in one call; that is written down at the disk, for the calls that follow. That alone is
no fence, as the machine may register again: it is FENCED only where `registers` says `never`, or else UNKNOWN
(MayRegisterAgain), a rung beside a list of who is let in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from mooring.fence import parameters, programs
from mooring.fence.interface import Answer, Look, Order, Outcome, Parameter, Scope, State
from mooring.fence.moments import moment
from mooring.fence.programs import Deadline, Ended, ProgramMissing, Run
from mooring.fence.storage import reservations, reserved
from mooring.fence.storage.clients import listed
from mooring.fence.storage.reservations import Unreadable
from mooring.fence.storage.reserved import Failed, ReservedDisk, ReservedForOne, WrongTarget

MOST = 64
"""Disks of one order."""
PARAMETERS: Mapping[str, Parameter] = {
    "devices": Parameter("Paths of the disks on the controller's machine, with commas", required=True),
    "keys": Parameter(
        "Keys under which the machine registers, as 0xa1, with commas", required=True, per_node=True
    ),
    "registers": Parameter(
        "never: no machine registers again once it was preempted; else UNKNOWN is the answer"
    ),
}


class Registrations(ABC):
    """See `Mechanism`."""

    kind: str
    scope = Scope.STORAGE
    summary: str
    parameters: Mapping[str, Parameter] = PARAMETERS
    needs: ClassVar[Mapping[str, str]]
    """Programs, each with its Debian package."""

    def __init__(self, run: Run = programs.run) -> None:
        self._run = run

    @abstractmethod
    def disk(self, device: str, order: Order, run: reserved.Run) -> ReservedDisk:
        """The one at that path."""

    def problems(self, order: Order) -> list[str]:
        """See `Mechanism`."""
        given = order.parameters
        found = [*programs.missing(self.needs), *parameters.problems(self.parameters, order)]
        found += [] if order.token else ["the order has no token"]
        devices = listed(given.get("devices", ""))
        found += [
            f"devices: {each!r} is no path of a device" for each in devices if not each.startswith("/dev/")
        ]
        found += [f"devices has more than {MOST}"] if len(devices) > MOST else []
        found += [] if given.get("registers", "never") == "never" else ["registers is `never`, or not given"]
        for each in listed(given.get("keys", "")):
            try:
                reservations.key(each)
            except ValueError as error:
                found.append(f"keys: {error}")
        return found

    async def look(self, order: Order) -> Look:
        """See `Mechanism`."""
        if wrong := self.problems(order):
            return Look(State.UNKNOWN, "BadParameter", "; ".join(wrong))
        try:
            return await _Session(self, order, self._run).look()
        except WrongTarget as error:
            return Look(State.UNKNOWN, "WrongTarget", str(error))
        except (Failed, Unreadable, ProgramMissing) as error:
            return Look(State.UNKNOWN, "Failed", str(error))

    async def fence(self, order: Order) -> Answer:
        """See `Mechanism`."""
        if wrong := self.problems(order):
            return Answer(Outcome.NOT_FENCED, "BadParameter", "; ".join(wrong))
        session = _Session(self, order, self._run)
        nothing = Outcome.NOT_FENCED
        try:
            return await session.shut()
        except ProgramMissing as error:
            return Answer(Outcome.UNKNOWN if session.ordered else nothing, "NotInstalled", str(error))
        except WrongTarget as error:
            return Answer(Outcome.UNKNOWN if session.ordered else nothing, "WrongTarget", str(error))
        except (Failed, Unreadable) as error:
            return Answer(Outcome.UNKNOWN, "Failed", str(error))

    async def unfence(self, order: Order) -> Answer:
        """See `Mechanism`. The machine can then register again by itself; the fence's own key goes."""
        if wrong := self.problems(order):
            return Answer(Outcome.UNKNOWN, "BadParameter", "; ".join(wrong))
        try:
            return await _Session(self, order, self._run).open()
        except (Failed, Unreadable, ProgramMissing) as error:
            return Answer(Outcome.UNKNOWN, "Failed", str(error))


class _Session:
    """One call for one order. `ordered`: something may have been changed."""

    def __init__(self, mechanism: Registrations, order: Order, run: Run) -> None:
        self._kind = mechanism.kind
        self._disks = [
            mechanism.disk(each, order, self._once) for each in listed(order.parameters["devices"])
        ]
        self._keys = {reservations.key(each) for each in listed(order.parameters["keys"])}
        self._barred = order.parameters.get("registers") == "never"
        self._own = reservations.own_key(order.target.node, order.token)
        self._deadline = Deadline(order.deadline)
        self._run = run
        self.ordered = False

    async def look(self) -> Look:
        for disk in self._disks:
            there, held = await disk.registered(self._keys)
            if there:
                keys = ", ".join(map(hex, sorted(there)))
                return Look(State.OPEN, "Registered", f"{disk.device}: {keys} is registered")
            if held.type <= 0:
                message = f"{disk.device}: no reservation keeps the unregistered from writing"
                return Look(State.OPEN, "NotReserved", message)
        return Look(State.SHUT, "Shut", f"its keys are registered at none of {', '.join(self._devices)}")

    async def shut(self) -> Answer:
        before, when = await self.look(), moment()
        not_ended: tuple[str, str] | None = None
        for disk in self._disks:
            there, _ = await disk.registered(self._keys)
            self.ordered = True
            try:
                ended = await disk.shut_out(self._own, there, self._keys)
            except ReservedForOne as error:
                return Answer(Outcome.UNKNOWN, "ReservedForOne", str(error), before=before.state)
            not_ended = not_ended if ended else disk.not_ended
        after = await self.look()
        if after.state is not State.SHUT:
            return Answer(Outcome.UNKNOWN, after.code, after.message, before=before.state)
        if not_ended:
            return Answer(Outcome.UNKNOWN, *not_ended, before=before.state)
        if not self._barred:
            message = "its keys are gone, but it may register again: shut it out by the target's list, too"
            return Answer(Outcome.UNKNOWN, "MayRegisterAgain", message, before=before.state)
        evidence = {
            "source": self._kind,
            "devices": " ".join(self._devices),
            "preempted": " ".join(map(hex, sorted(self._keys))),
            "ownKey": hex(self._own),
            "orderedAt": when,
            "readAt": moment(),
        }
        return Answer(Outcome.FENCED, after.code, after.message, evidence, before.state)

    async def open(self) -> Answer:
        for disk in self._disks:
            if not await disk.give_back(self._own):
                message = f"{disk.device}: the fence's key is still registered"
                return Answer(Outcome.UNKNOWN, "Registered", message)
        return Answer(Outcome.UNFENCED, "Open", "the fence's key is registered nowhere", {"readAt": moment()})

    @property
    def _devices(self) -> list[str]:
        return [disk.device for disk in self._disks]

    async def _once(self, *words: str) -> Ended:
        return await self._run(words, deadline=self._deadline.left())

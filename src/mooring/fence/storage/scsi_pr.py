"""Takes a machine's registration at disks away, by SCSI-3 persistent reservations (sg_persist).

FENCED means that for each disk, read afterwards: none of the machine's keys is registered, a reservation is
held under which who is not registered cannot write, and PREEMPT AND ABORT, which ends the commands of the
preempted, was carried out for each key. That alone is no fence, as the machine may register again: it is
FENCED only where `registers` says `never`, or else UNKNOWN (MayRegisterAgain), a rung beside a list of who is
let in. multipathd must not register for it either (no `reservation_key` in its configuration).

A target without APTPL (tgt) forgets reservations when it loses power, which `look` then finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from mooring.fence import parameters, programs
from mooring.fence.interface import Answer, Look, Mechanism, Order, Outcome, Parameter, Scope, State
from mooring.fence.programs import Deadline, Ended, ProgramMissing, Run
from mooring.fence.storage import reservations
from mooring.fence.storage.clients import listed
from mooring.fence.storage.reservations import OUR_TYPE, Reservation, Unreadable

MOST = 64
"""Disks of one order."""


class _Failed(Exception):
    """A disk did not answer as it should."""


class ScsiPr:
    """See `Mechanism`."""

    kind = "scsi-pr"
    scope = Scope.STORAGE
    summary = "Takes a machine's registration at SCSI disks away (persistent reservations)"
    parameters: Mapping[str, Parameter] = {
        "devices": Parameter("Paths of the disks on the controller's machine, with commas", required=True),
        "keys": Parameter(
            "Keys under which the machine registers, as 0xa1, with commas", required=True, per_node=True
        ),
        "registers": Parameter(
            "never: no machine registers again once it was preempted; else UNKNOWN is the answer"
        ),
    }

    def __init__(self, run: Run = programs.run) -> None:
        self._run = run

    def problems(self, order: Order) -> list[str]:
        """See `Mechanism`."""
        given = order.parameters
        found = [*programs.missing({"sg_persist": "sg3-utils"}), *parameters.problems(self.parameters, order)]
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
            return await _Session(order, self._run).look()
        except (_Failed, Unreadable, ProgramMissing) as error:
            return Look(State.UNKNOWN, "Failed", str(error))

    async def fence(self, order: Order) -> Answer:
        """See `Mechanism`."""
        if wrong := self.problems(order):
            return Answer(Outcome.NOT_FENCED, "BadParameter", "; ".join(wrong))
        try:
            return await _Session(order, self._run).shut()
        except ProgramMissing as error:
            return Answer(Outcome.NOT_FENCED, "NotInstalled", str(error))
        except (_Failed, Unreadable) as error:
            return Answer(Outcome.UNKNOWN, "Failed", str(error))

    async def unfence(self, order: Order) -> Answer:
        """See `Mechanism`. The machine can then register again by itself; the fence's own key goes."""
        if wrong := self.problems(order):
            return Answer(Outcome.UNKNOWN, "BadParameter", "; ".join(wrong))
        try:
            return await _Session(order, self._run).open()
        except (_Failed, Unreadable, ProgramMissing) as error:
            return Answer(Outcome.UNKNOWN, "Failed", str(error))


def mechanism() -> Mechanism:
    """For the registry."""
    return ScsiPr()


class _Session:
    """One call for one order."""

    def __init__(self, order: Order, run: Run) -> None:
        self._devices = listed(order.parameters["devices"])
        self._keys = {reservations.key(each) for each in listed(order.parameters["keys"])}
        self._barred = order.parameters.get("registers") == "never"
        self._own = reservations.own_key(order.target.node, order.token)
        self._deadline = Deadline(order.deadline)
        self._run = run

    async def look(self) -> Look:
        for device in self._devices:
            found, held = await self._read(device)
            if there := found & self._keys:
                keys = ", ".join(map(hex, sorted(there)))
                return Look(State.OPEN, "Registered", f"{device}: {keys} is registered")
            if held.type <= 0:
                return Look(
                    State.OPEN, "NotReserved", f"{device}: no reservation keeps the unregistered from writing"
                )
        return Look(State.SHUT, "Shut", f"its keys are registered at none of {', '.join(self._devices)}")

    async def shut(self) -> Answer:
        before, ordered = await self.look(), _now()
        aborted = True
        for device in self._devices:
            found, held = await self._read(device)
            if held.type < 0:
                message = (
                    f"{device} is reserved for one machine alone ({hex(held.holder)}): it is left as it is"
                )
                return Answer(Outcome.UNKNOWN, "ReservedForOne", message, before=before.state)
            aborted &= await self._preempt(device, found, held)
        after = await self.look()
        if after.state is not State.SHUT:
            return Answer(Outcome.UNKNOWN, after.code, after.message, before=before.state)
        if not aborted:
            message = "the disk does not abort the commands of the preempted: one may still be carried out"
            return Answer(Outcome.UNKNOWN, "PreemptedOnly", message, before=before.state)
        if not self._barred:
            message = "its keys are gone, but it may register again: shut it out by the target's list, too"
            return Answer(Outcome.UNKNOWN, "MayRegisterAgain", message, before=before.state)
        evidence = {
            "source": "scsi-pr",
            "devices": " ".join(self._devices),
            "preempted": " ".join(map(hex, sorted(self._keys))),
            "ownKey": hex(self._own),
            "orderedAt": ordered,
            "readAt": _now(),
        }
        return Answer(Outcome.FENCED, after.code, after.message, evidence, before.state)

    async def _preempt(self, device: str, found: set[int], held: Reservation) -> bool:
        """Whether the commands of all that were preempted are ended."""
        own = f"--param-rk={hex(self._own)}"
        if self._own not in found:
            await self._out(device, "--register-ignore", f"--param-sark={hex(self._own)}")
        kind = held.type or OUR_TYPE
        if not held.type:
            await self._out(device, "--reserve", own, f"--prout-type={OUR_TYPE}")
        aborted = True
        for key in sorted(found & self._keys):
            words = (own, f"--param-sark={hex(key)}", f"--prout-type={kind}")
            if (await self._do(device, "--out", "--preempt-abort", *words)).status != 0:
                await self._out(device, "--preempt", *words)
                aborted = False
        return aborted

    async def open(self) -> Answer:
        for device in self._devices:
            found, _ = await self._read(device)
            if self._own in found:
                await self._out(device, "--register", f"--param-rk={hex(self._own)}", "--param-sark=0")
            if self._own in (await self._read(device))[0]:
                return Answer(Outcome.UNKNOWN, "Registered", f"{device}: the fence's key is still registered")
        return Answer(Outcome.UNFENCED, "Open", "the fence's key is registered nowhere", {"readAt": _now()})

    async def _read(self, device: str) -> tuple[set[int], Reservation]:
        found = reservations.keys(await self._in(device, "--read-keys"))
        return found, reservations.reservation(await self._in(device, "--read-reservation"))

    async def _in(self, device: str, what: str) -> str:
        ended = await self._do(device, "--in", what)
        if ended.status != 0:
            raise _Failed(f"{device}: sg_persist {what}: {_said(ended)}")
        return ended.output

    async def _out(self, device: str, what: str, *words: str) -> None:
        ended = await self._do(device, "--out", what, *words)
        if ended.status != 0:
            raise _Failed(f"{device}: sg_persist {what}: {_said(ended)}; it may have been done")

    async def _do(self, device: str, *words: str) -> Ended:
        # A disk that was just connected, or preempted, says so once (unit attention), and does nothing else.
        ended, again = await self._once(device, words), 0
        while ended.status == UNIT_ATTENTION and again < AGAIN:
            ended, again = await self._once(device, words), again + 1
        return ended

    async def _once(self, device: str, words: Sequence[str]) -> Ended:
        return await self._run(["sg_persist", *words, device], deadline=self._deadline.left())


AGAIN = 2
UNIT_ATTENTION = 6
"""sg_persist's exit status (sg3_utils(8))."""


def _said(ended: Ended) -> str:
    lines = [line for line in (ended.errors or ended.output).splitlines() if line.strip()]
    return f"{ended.words()}{': ' + lines[0][:200] if lines else ''}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")

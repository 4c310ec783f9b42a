"""Fence mechanisms over the simulated machines' true power: a BMC, which tells whose it is, and a power
strip, which tells nothing. And such as shut a node out of targets of the storage: one that does it, and one
that tells of the same by another way.

A device is no part of the controller: what was ordered may take effect after the controller has given the
answer up, or has died. What it does wrong about one node is its `Manner`; what is true, the machines know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from enum import Enum
from random import Random
from typing import Any, Protocol

from mooring.fence.interface import Answer, Look, Order, Outcome, Parameter, Scope, Sessions, State, Volume
from mooring.simulation.engine.trace import Trace
from mooring.simulation.parts.storage_counts import Counts
from mooring.simulation.parts.storage_targets import TARGETS, Targets

KINDS = {"bmc": True, "strip": False}
"""Each device, and whether it tells whose it is."""
STORAGE_KINDS: Mapping[str, tuple[str, ...]] = {
    "storage": TARGETS,
    "portal": TARGETS,
    "storage-a": TARGETS[:1],
    "portal-a": TARGETS[:1],
}
"""Each device of scope Storage, and the targets that it shuts a node out of. None tells whose it is."""
TAKES_S = (0.05, 2.0)
"""From a request to the device and back, each way."""
FOR_EVER_S = 3600.0
LATEST_S = 12.0
"""So late, at the most, does one that is late tell what a node has moved: it is not waited for as long."""


class Manner(Enum):
    """What a device does about one node."""

    HONEST = "honest"
    LATE = "late"  # it does later what it was asked for, and says until then what is true
    LOST = "lost"  # the order does not arrive, and there is no answer
    UNANSWERED = "unanswered"  # it does it, and there is no answer
    TWICE = "twice"  # it does it, and once more later
    NOTHING = "nothing"  # it does nothing, and says what is true
    LIES = "lies"  # it does nothing, and says that the machine is off
    STALE = "stale"  # it does it, and says what was true a while ago
    SWAPPED = "swapped"  # its cables are those of another machine
    RECOUNTS = "recounts"  # it has lost count of what the node has read and written, time and again


UNTRUTHFUL = (Manner.LIES, Manner.STALE, Manner.SWAPPED)
"""What one source does at a time: two that are wrong at once about one node no rule can survive."""


class Truth(Protocol):
    """What is true of a node, as one device can tell and change it: whether it is on, or let in."""

    def is_on(self, node: str) -> bool: ...

    def was_on(self, node: str, seconds: float) -> bool:
        """Whether it was on so long ago."""
        ...

    def switch(self, node: str, on: bool) -> None: ...


class Power:
    """The truth: what is on, and since when. `switch` really does it."""

    def __init__(self, is_on: Callable[[str], bool], switch: Callable[[str, bool], None]) -> None:
        self._is_on, self._switch = is_on, switch
        self._history: dict[str, list[tuple[float, bool]]] = {}

    def is_on(self, node: str) -> bool:
        return self._is_on(node)

    def switch(self, node: str, on: bool) -> None:
        self._switch(node, on)

    def note(self, node: str, on: bool) -> None:
        """It has changed."""
        self._history.setdefault(node, [(0.0, not on)]).append((asyncio.get_running_loop().time(), on))

    def was_on(self, node: str, seconds: float) -> bool:
        """Whether it was on so long ago."""
        then = asyncio.get_running_loop().time() - seconds
        states = [on for at, on in self._history.get(node, ()) if at <= then]
        return states[-1] if states else self.is_on(node) if node not in self._history else True


class Doors:
    """The truth of targets of the storage: a node is "on" as long as it gets into one of them."""

    def __init__(self, targets: Targets, names: Sequence[str]) -> None:
        self._targets, self.names = targets, names

    def is_on(self, node: str) -> bool:
        return not self._targets.shuts_out(node, self.names)

    def was_on(self, node: str, seconds: float) -> bool:
        return not self._targets.shut_out_before(node, self.names, seconds)

    def switch(self, node: str, on: bool) -> None:
        """Lets a node in by hand, or shuts it out."""
        (self._targets.let_in if on else self._targets.shut)(node, self.names)

    def let_in(self, order: Order) -> None:
        """Lets a node in for a fence."""
        self._targets.let_in(order.target.node, self.names, boot=order.target.boot_id)


class FenceDevice:
    """One device for all nodes: a mechanism (`mooring.fence.interface.Mechanism`)."""

    scope = Scope.POWER
    on, off = "on", "off"
    """In words."""
    parameters: Mapping[str, Parameter] = {}

    def __init__(
        self,
        kind: str,
        power: Truth,
        neighbour: Callable[[str], str],
        trace: Trace,
        random: Random,
        world: Context,
    ) -> None:
        self.kind, self.summary = kind, f"the simulated {kind}"
        self._power, self._neighbour, self._trace, self._random, self._world = (
            power,
            neighbour,
            trace,
            random,
            world,
        )
        self.manners: dict[str, tuple[Manner, float]] = {}
        """Node -> what it does about it, and the seconds that this takes."""

    def problems(self, order: Order) -> list[str]:
        return []

    async def look(self, order: Order) -> Look:
        await self._travel()
        node = order.target.node
        manner, _ = self._manner(node)
        if manner in (Manner.LOST, Manner.UNANSWERED):
            await asyncio.sleep(FOR_EVER_S)
        read = self._read(node)
        await self._travel()
        return read

    async def fence(self, order: Order) -> Answer:
        node, sent = order.target.node, round(asyncio.get_running_loop().time(), 3)
        before = await self.look_or_nothing(order)
        if wrong := self._wrong(order, before):
            return wrong
        ordered = {"node": node, "boot": order.target.boot_id, "token": order.token, **self._reach()}
        self._trace(self.kind, "truth.ordered", **ordered, sent=sent)
        manner, seconds = self._manner(node)
        self._carry_out(node, manner, seconds)
        if manner in (Manner.LOST, Manner.UNANSWERED):
            await asyncio.sleep(FOR_EVER_S)
        await self._travel()
        after = self._read(node)
        await self._travel()
        if after.state is State.SHUT:
            return Answer(Outcome.FENCED, "Off", f"it is {self.off}", {"read": self.off}, before.state)
        return Answer(Outcome.UNKNOWN, "StillOn", f"it is {self.on} still", {"read": self.on}, before.state)

    def _reach(self) -> Mapping[str, Any]:
        """What the trace is told of an order beside whom it strikes."""
        return {}

    async def unfence(self, order: Order) -> Answer:
        node = order.target.node
        await self._travel()
        manner, _ = self._manner(node)
        if manner is not Manner.HONEST:
            return Answer(Outcome.UNKNOWN, "NoAnswer", "it does not answer")
        self._power.switch(node, True)
        await self._travel()
        return Answer(Outcome.UNFENCED, "On", "it is on", {"read": "on"})

    async def look_or_nothing(self, order: Order) -> Look:
        """What it finds before the order: no answer keeps no order from being sent."""
        manner, _ = self._manner(order.target.node)
        if manner in (Manner.LOST, Manner.UNANSWERED):
            return Look(State.UNKNOWN, "NoAnswer", "it does not answer")
        return await self.look(order)

    def _wrong(self, order: Order, before: Look) -> Answer | None:
        told = before.identity.get("systemUUID", "")
        if told and order.target.system_uuid and told != order.target.system_uuid:
            return Answer(Outcome.NOT_FENCED, "WrongTarget", f"it is that of {told}", before=before.state)
        return None

    def _carry_out(self, node: str, manner: Manner, seconds: float) -> None:
        if manner in (Manner.NOTHING, Manner.LIES, Manner.LOST):
            return
        struck = self._struck(node, manner)
        if manner is Manner.LATE:
            self._later(seconds, struck)
            return
        self._power.switch(struck, False)
        if manner is Manner.TWICE:
            self._later(seconds, struck)

    def _later(self, seconds: float, node: str) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(seconds, self._power.switch, node, False, context=self._world)

    def _read(self, node: str) -> Look:
        manner, seconds = self._manner(node)
        struck = self._struck(node, manner)
        on = self._power.was_on(node, seconds) if manner is Manner.STALE else self._power.is_on(struck)
        state = State.OPEN if on and manner is not Manner.LIES else State.SHUT
        identity = {"systemUUID": uuid_of(struck)} if KINDS.get(self.kind) else {}
        return Look(state, "Read", f"it is {self.on if state is State.OPEN else self.off}", identity)

    def _struck(self, node: str, manner: Manner) -> str:
        return self._neighbour(node) if manner is Manner.SWAPPED else node

    def _manner(self, node: str) -> tuple[Manner, float]:
        return self.manners.get(node, (Manner.HONEST, 0.0))

    async def _travel(self) -> None:
        await asyncio.sleep(self._random.uniform(*TAKES_S))


class StorageDevice(FenceDevice):
    """One that shuts nodes out of targets of the storage (`mooring.fence.interface.SessionMechanism`)."""

    scope = Scope.STORAGE
    on, off = "let in", "shut out"

    def __init__(self, kind: str, doors: Doors, counts: Counts, *more: Any) -> None:
        super().__init__(kind, doors, *more)
        self._doors, self._counts = doors, counts

    def covers(self, order: Order, volume: Volume) -> bool:
        """By the target that serves the volume."""
        return volume.server in self._doors.names

    async def sessions(self, order: Order) -> Sessions:
        """Of a node that a target refuses it has none."""
        node, boot = order.target.node, order.target.boot_id
        self._trace(self.kind, "truth.asked-of", node=node, boot=boot)
        found, (manner, seconds) = await self.look(order), self._manner(node)
        if manner is Manner.LATE:
            await asyncio.sleep(min(seconds, LATEST_S))
        moved = self._moved(self._struck(node, manner), manner)
        self._trace(self.kind, "truth.told", node=node, boot=boot, moved=sum(moved.values()), _moved=moved)
        return Sessions(found.state, found.message, moved)

    def _moved(self, node: str, manner: Manner) -> Mapping[str, int]:
        now = asyncio.get_running_loop().time()
        if manner is Manner.RECOUNTS and self._random.random() < 0.5:
            self._counts.forget(node, now)
        return self._counts.moved(node, self._doors.names, now)

    async def unfence(self, order: Order) -> Answer:
        await self._travel()
        manner, _ = self._manner(order.target.node)
        if manner not in (Manner.HONEST, Manner.UNANSWERED, Manner.RECOUNTS):
            return Answer(Outcome.UNKNOWN, "NoAnswer", "it does not answer")
        self._doors.let_in(order)
        if manner is Manner.UNANSWERED:
            await asyncio.sleep(FOR_EVER_S)
        await self._travel()
        return Answer(Outcome.UNFENCED, "LetIn", "it is let in", {"read": self.on})

    def _reach(self) -> Mapping[str, Any]:
        return {"targets": ",".join(self._doors.names)}


def uuid_of(node: str) -> str:
    """What the firmware of the machine tells."""
    return f"uuid-{node}"

"""A fence mechanism over played machines: what is true of them, what it says, and how it may go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from mooring.fence.interface import Answer, Look, Order, Outcome, Parameter, Scope, State


class Manner(Enum):
    """How the device behaves."""

    HONEST = "honest"
    SILENT = "silent"  # does nothing, does not answer
    LOST_ANSWER = "lost answer"  # does it, and does not answer
    REFUSES = "refuses"
    LIES = "lies"  # does nothing, says that it has, and goes on saying so
    RAISES = "raises"  # does it, and its code fails


@dataclass
class Machines:
    """What is true. `orders`: the tokens of the orders that took effect, in turn."""

    off: set[str] = field(default_factory=set[str])
    orders: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


@dataclass
class PlayedMechanism:
    """`identity` by node: what the device says of whom it would switch off."""

    machines: Machines
    manner: Manner = Manner.HONEST
    kind: str = "played"
    scope: Scope = Scope.POWER
    summary: str = "a device of a test"
    parameters: Mapping[str, Parameter] = field(default_factory=dict[str, Parameter])
    takes_s: float = 0.5
    claimed: set[str] = field(default_factory=set[str])
    given: list[Order] = field(default_factory=list[Order])
    wrong: list[str] = field(default_factory=list[str])
    looks: int = 0

    def problems(self, order: Order) -> list[str]:
        return list(self.wrong)

    async def look(self, order: Order) -> Look:
        self.looks += 1
        await asyncio.sleep(self.takes_s)
        if self.manner is Manner.SILENT:
            return Look(State.UNKNOWN, "NoAnswer", "the device does not answer")
        node = order.target.node
        off = node in self.machines.off or node in self.claimed
        return Look(
            State.SHUT if off else State.OPEN,
            "Read",
            f"it is {'off' if off else 'on'}",
            {"guid": f"g-{node}"},
        )

    async def fence(self, order: Order) -> Answer:
        self.given.append(order)
        node, before = order.target.node, await self.look(order)
        if self.manner is Manner.SILENT:
            await asyncio.sleep(1e5)
        if self.manner is Manner.REFUSES:
            return Answer(Outcome.NOT_FENCED, "Refused", "the device refuses", before=before.state)
        if self.manner is Manner.LIES:
            self.claimed.add(node)
        else:
            self.machines.off.add(node)
            self.machines.orders.append((node, order.token))
        await asyncio.sleep(self.takes_s)
        if self.manner is Manner.LOST_ANSWER:
            await asyncio.sleep(1e5)
        if self.manner is Manner.RAISES:
            raise RuntimeError("a fault of the mechanism's own")
        return Answer(Outcome.FENCED, "Off", "it is off", {"read": "off"}, before.state)

    async def unfence(self, order: Order) -> Answer:
        await asyncio.sleep(self.takes_s)
        self.machines.off.discard(order.target.node)
        return Answer(Outcome.UNFENCED, "On", "it is on", {"read": "on"})

"""What `mooring node …` can order of a node's machine, as data: each order's options, and what it does.

An order is validated whole before anything is done. It knows nothing of the socket (`control`) and of the
command line; what a kind of machine cannot do, its machine says (`NotPossible`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines.interface import Cut, Direction, Far, Links, Quality

LONGEST_DELAY_S = 60.0


class Machine(Protocol):
    """What an order needs of a machine (`NodeMachine`)."""

    name: str
    on: bool

    @property
    def links(self) -> Links: ...

    async def start(self) -> None: ...
    async def stop(self) -> bool: ...
    async def lose_power(self) -> None: ...


Parser = Callable[[Any], Any]
"""What was said for an option → its value. Raises ValueError with a sentence."""


@dataclass(frozen=True)
class Order:
    """`run` takes the machine and the parsed options by name, and returns a message for the user; it raises
    ClusterError. `needs_power`: True if the machine must be on, False if it must be off, None for either."""

    run: Callable[..., Awaitable[str]]
    needs_power: bool | None = None
    options: Mapping[str, Parser] = field(default_factory=dict[str, Parser])
    """Options that are not said are not given to `run`."""


async def obey(
    machines: Mapping[str, Machine], command: str, node: str, options: Mapping[str, Any] | None = None
) -> str:
    """Carries an order out. Raises ClusterError: an unknown node, order or option, or what went wrong."""
    machine = machines.get(node)
    if machine is None:
        raise ClusterError(f"no node {node!r} here: there are {', '.join(machines)}")
    order = ORDERS.get(command)
    if order is None:
        raise ClusterError(f"unknown command {command!r}: there are {', '.join(ORDERS)}")
    given = parse(command, order, options or {})
    if order.needs_power is not None and machine.on != order.needs_power:
        raise ClusterError(f"{node} is {'on' if machine.on else 'off'}")
    return await order.run(machine, **given)


def parse(command: str, order: Order, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as values. Raises ClusterError, which names the option."""
    given: dict[str, Any] = {}
    for name, said in options.items():
        parser = order.options.get(name)
        if parser is None:
            known = ", ".join(order.options) or "none"
            raise ClusterError(f"{command}: unknown option {name!r}: there are {known}")
        try:
            given[name] = parser(said)
        except ValueError as error:
            raise ClusterError(f"{command}: {name} {said!r}: {error}") from None
    return given


def one_of(values: type[StrEnum]) -> Parser:
    """A parser of an enumeration's words."""

    def parse(said: Any) -> StrEnum:
        if said not in set(values):
            raise ValueError(f"it is one of {', '.join(values)}")
        return values(said)

    return parse


def number(low: float, high: float) -> Parser:
    """A parser of numbers from `low` to `high`."""

    def parse(said: Any) -> float:
        if isinstance(said, bool) or not isinstance(said, int | float) or not low <= said <= high:
            raise ValueError(f"it is a number from {low:g} to {high:g}")
        return float(said)

    return parse


async def _start(machine: Machine) -> str:
    await machine.start()
    return f"{machine.name} boots"


async def _stop(machine: Machine) -> str:
    if await machine.stop():
        return f"{machine.name} has shut down"
    return f"{machine.name} did not shut down in time; its power was cut"


async def _kill(machine: Machine) -> str:
    await machine.lose_power()
    return f"{machine.name} has lost power"


async def _cut(machine: Machine, far: Far = Far.ALL, direction: Direction = Direction.BOTH) -> str:
    await machine.links.cut(Cut(far, direction))
    return await _links(machine)


async def _heal(machine: Machine) -> str:
    await machine.links.heal()
    return await _links(machine)


async def _worsen(machine: Machine, delay: float = 0, loss: float = 0) -> str:
    await machine.links.worsen(Quality(delay, loss))
    return await _links(machine)


async def _links(machine: Machine) -> str:
    wrong = await machine.links.state()
    return f"{machine.name}: {', '.join(wrong) or 'its links are whole'}"


ORDERS: dict[str, Order] = {
    "start": Order(_start, needs_power=False),
    "stop": Order(_stop, needs_power=True),
    "kill": Order(_kill, needs_power=True),
    "cut": Order(_cut, options={"far": one_of(Far), "direction": one_of(Direction)}),
    "heal": Order(_heal),
    "worsen": Order(_worsen, options={"delay": number(0, LONGEST_DELAY_S), "loss": number(0, 1)}),
}
"""By the word of the command."""

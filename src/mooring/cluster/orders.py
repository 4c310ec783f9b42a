"""What `mooring node …` can order of a node's machine, as data: each order's options, and what it does.

An order is validated whole before anything is done. It knows nothing of the socket (`control`) and of the
command line; what a kind of machine cannot do, its machine says (`NotPossible`).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from mooring.cluster import control
from mooring.cluster.layout import ClusterError
from mooring.cluster.machines.interface import Cut, Direction, Far, Quality
from mooring.cluster.machines.node_machine import NodeMachine

LONGEST_DELAY_S = 60.0
MOST_SKEW_S = 10 * 365 * 86400.0


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
    machines: Mapping[str, NodeMachine], command: str, node: str, options: Mapping[str, Any] | None = None
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


def text(longest: int) -> Parser:
    """A parser of texts of at most that many characters."""

    def parse(said: Any) -> str:
        if not isinstance(said, str) or len(said) > longest:
            raise ValueError(f"it is a text of at most {longest} characters")
        return said

    return parse


async def _start(machine: NodeMachine) -> str:
    await machine.start()
    return f"{machine.name} boots"


async def _stop(machine: NodeMachine) -> str:
    if await machine.stop():
        return f"{machine.name} has shut down"
    return f"{machine.name} did not shut down in time; its power was cut"


async def _kill(machine: NodeMachine) -> str:
    await machine.lose_power()
    return f"{machine.name} has lost power"


async def _cut(machine: NodeMachine, far: Far = Far.ALL, direction: Direction = Direction.BOTH) -> str:
    await machine.links.cut(Cut(far, direction))
    return await _links(machine)


async def _heal(machine: NodeMachine) -> str:
    await machine.heal()
    return await _links(machine)


async def _reset(machine: NodeMachine) -> str:
    await machine.reset()
    return f"{machine.name} has lost power, and boots"


async def _panic(machine: NodeMachine) -> str:
    await machine.panic()
    return f"the kernel of {machine.name} has stopped; `mooring node start {machine.name}` boots it again"


async def _freeze(machine: NodeMachine) -> str:
    await machine.machine.freeze()
    return f"{machine.name} stands still until `mooring node thaw {machine.name}`"


async def _thaw(machine: NodeMachine) -> str:
    await machine.machine.thaw()
    return f"{machine.name} goes on"


async def _hang(machine: NodeMachine) -> str:
    await machine.machine.hang()
    return f"I/O of {machine.name} on its disks does not return until `mooring node heal {machine.name}`"


async def _skew(machine: NodeMachine, seconds: float = 0) -> str:
    await machine.machine.skew(seconds)
    return f"the clock of {machine.name} is {seconds:+g} s against this host's"


async def _run(machine: NodeMachine, script: str = "") -> str:
    """The message is JSON: the script's exit status and output."""
    status, output = await machine.machine.run(script)
    return json.dumps({"status": status, "output": output})


async def _worsen(machine: NodeMachine, delay: float = 0, loss: float = 0) -> str:
    await machine.links.worsen(Quality(delay, loss))
    return await _links(machine)


async def _links(machine: NodeMachine) -> str:
    wrong = await machine.troubles()
    return f"{machine.name}: {', '.join(wrong) or 'nothing is wrong with it'}"


ORDERS: dict[str, Order] = {
    "start": Order(_start, needs_power=False),
    "stop": Order(_stop, needs_power=True),
    "kill": Order(_kill, needs_power=True),
    "cut": Order(_cut, options={"far": one_of(Far), "direction": one_of(Direction)}),
    "heal": Order(_heal),
    "reset": Order(_reset, needs_power=True),
    "panic": Order(_panic, needs_power=True),
    "freeze": Order(_freeze, needs_power=True),
    "thaw": Order(_thaw, needs_power=True),
    "hang": Order(_hang, needs_power=True),
    "skew": Order(_skew, needs_power=True, options={"seconds": number(-MOST_SKEW_S, MOST_SKEW_S)}),
    "run": Order(_run, needs_power=True, options={"script": text(control.LONGEST_TEXT)}),
    "worsen": Order(_worsen, options={"delay": number(0, LONGEST_DELAY_S), "loss": number(0, 1)}),
}
"""By the word of the command."""

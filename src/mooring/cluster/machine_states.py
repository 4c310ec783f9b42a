"""What `mooring status` shows of the machines: kind, power as it is and as the BMC says, what is wrong on
purpose.

The running `mooring up` answers it (`SAID` at the control socket), as it alone knows its machines.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from mooring.cluster import control
from mooring.cluster.layout import ClusterError
from mooring.cluster.machines.node_machine import NodeMachine
from mooring.cluster.tables import Section

SAID = "machines"
"""The command at the control socket; its message is JSON."""
HEADER = ("MACHINE", "KIND", "POWER", "BMC SAYS", "WRONG ON PURPOSE")
LOOK_S = 3.0
"""So long may it take to look at one machine, in seconds: it may be frozen, its BMC silent."""


async def said(machines: Mapping[str, NodeMachine], bmc: Callable[[str], Awaitable[str]] | None) -> str:
    """The rows, as JSON. `bmc` is what the BMC of a machine answers to the question for its power."""
    return json.dumps(await asyncio.gather(*(_row(name, machine, bmc) for name, machine in machines.items())))


async def _row(
    name: str, machine: NodeMachine, bmc: Callable[[str], Awaitable[str]] | None
) -> tuple[str, ...]:
    says = await _within(bmc(name), "(silent)") if bmc is not None else "-"
    wrong = await _within(_wrong(machine), "(does not answer)")
    return (name, machine.machine.kind, machine.power.value, says, wrong)


async def _wrong(machine: NodeMachine) -> str:
    return ", ".join(await machine.troubles()) or "-"


async def _within(answer: Awaitable[str], otherwise: str) -> str:
    try:
        async with asyncio.timeout(LOOK_S):
            return await answer
    except TimeoutError:
        return otherwise
    except Exception as error:  # a row of a table must not take the others with it
        return f"({error})"


async def section(socket: Path) -> list[Section]:
    """The table, from the `mooring up` that runs; none if none does."""
    with contextlib.suppress(ClusterError):
        rows = json.loads(await control.say(socket, SAID, ""))
        return [Section(HEADER, [tuple(map(str, row)) for row in rows])]
    return []

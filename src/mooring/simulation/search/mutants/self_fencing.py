"""Mutants of nodes that are reset by their own watchdog, and of what is taken for the evidence of it."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

import asyncio
from typing import Any

from mooring.controllers.fencing import host_agent
from mooring.node.self_fence.keeper import SelfFence
from mooring.simulation.search.mutants import scenarios
from mooring.simulation.search.mutants.mutant import Mutant, Patch


def _by_being_alive(original: Any) -> Any:
    async def run(self: Any) -> None:
        while True:
            await asyncio.sleep(5)
            if self._armed is not None:
                await self._watchdog.feed()

    return run


def _one_time(original: Any) -> Any:
    return lambda told: told.timeout_seconds


def _any_silence(original: Any) -> Any:
    """As soon as the detectors say that it is lost."""
    return lambda told: 0.0


MUTANTS: dict[str, Mutant] = {
    "W1": Mutant(
        "the watchdog is fed by the agent's being alive, whatever the API server answers",
        "medik8s/self-node-remediation: a node that its peers call healthy is not reset; #354",
        ("S18",),
        scenarios.SELF_RESETTING,
        (Patch(SelfFence, "run", _by_being_alive),),
    ),
    "W2": Mutant(
        "the controller waits for the watchdog's time alone, as if it had been fed when the last renewal was sent",
        "medik8s/self-node-remediation: timeAssumedRebooted is computed from the watchdog's time",
        ("S18",),
        scenarios.SELF_RESETTING,
        (Patch(host_agent, "silence_needed", _one_time),),
    ),
    "W3": Mutant(
        "a silence counts as a reset, however short it is",
        "medik8s/self-node-remediation: a reboot is assumed, never acknowledged",
        ("S18",),
        scenarios.SELF_RESETTING,
        (Patch(host_agent, "silence_needed", _any_silence),),
    ),
}

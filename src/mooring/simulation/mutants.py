"""Known bugs, put back in by name: a run must find each. They live here alone; production code knows nothing of them.

A mutant replaces one decision or one check of the production code while it is in force. The names are those of
the bugs in Kubernetes' history that have the same fault (`docs/safety.md`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from mooring.controllers.attachdetach import decide as attachdetach
from mooring.controllers.attacher.controller import AttacherController
from mooring.kube.objects import VolumeAttachment
from mooring.simulation.run import play
from mooring.simulation.scenario import Scenario


@dataclass(frozen=True)
class Mutant:
    """`apply` puts the bug in for as long as its context is entered."""

    fault: str
    apply: Callable[[], AbstractContextManager[Any]]


def _always(*args: Any) -> bool:
    return True


async def _detach_anyhow(self: Any, record: VolumeAttachment) -> None:
    finalizers = [each for each in record.metadata.finalizers if "attacher" not in each and "mooring" not in each]
    await self.client.revise(record, {"metadata": {"finalizers": finalizers or None}})


MUTANTS: dict[str, Mutant] = {
    "B13": Mutant(
        "a volume is detached although its node says that it uses it",
        lambda: patch.object(attachdetach, "_has_let_go", _always),
    ),
    "B56": Mutant(
        "whatever the storage answers to a detach counts as detached",
        lambda: patch.object(AttacherController, "_detach", _detach_anyhow),
    ),
}


@dataclass(frozen=True)
class Verdict:
    """By which invariants a mutant was found, and in how many seeds; 0: it was not."""

    name: str
    fault: str
    invariants: tuple[str, ...]
    seeds: int


def hunt(name: str, seeds: range, scenario: Scenario) -> Verdict:
    """Plays seeds with the mutant until one violates something."""
    mutant = MUTANTS[name]
    for number, seed in enumerate(seeds, 1):
        with mutant.apply():
            outcome = play(seed, scenario)
        if not outcome.ok:
            return Verdict(name, mutant.fault, tuple(outcome.invariants), number)
    return Verdict(name, mutant.fault, (), 0)

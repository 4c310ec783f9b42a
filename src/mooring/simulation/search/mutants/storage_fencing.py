"""Mutants of fences of the storage, which shut a node out of volumes while its processes run on."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mooring.controllers.fencing import (
    covering,
    deciding_nodes,
    letting_in,
    releasing,
    storage_view,
    unfencing,
    volume_fences,
)
from mooring.fence.interface import Scope
from mooring.simulation.search.mutants import scenarios
from mooring.simulation.search.mutants.mutant import Mutant, Patch, always


def _as_power(original: Any) -> Any:
    async def release(client: Any, fence: Any, proof: Any, *given: Any) -> int:
        return await original(client, fence, replace(proof, scope=Scope.POWER), *given)

    return release


def _all_volumes(original: Any) -> Any:
    async def shut(client: Any, fence: Any, proof: Any) -> dict[str, str]:
        records = await releasing.records_of(client, fence.status.target)
        return {each.name: each.spec.source.persistent_volume_name or "" for each in records}

    return shut


def _logged_in(original: Any) -> Any:
    def grew(before: Any, now: Any) -> bool:
        return any(each not in before for each in now)

    return grew


MUTANTS: dict[str, Mutant] = {
    "T2": Mutant(
        "what a fence shows is not looked at: a node that is shut out of volumes counts as switched off",
        "fencing (hazard)",
        ("S18",),
        scenarios.SHUT_OUT,
        (Patch(releasing, "release", _as_power),),
    ),
    "T3": Mutant(
        "a fence of the storage releases all volumes that its node has, and what has come since",
        "csi-addons NetworkFence: a node is fenced as a whole, whichever storage has acted",
        ("S17'", "S18"),
        scenarios.SHUT_OUT,
        (Patch(volume_fences, "shut", _all_volumes),),
    ),
    "T5": Mutant(
        "what a storage answers about one of its targets counts for the volumes of another, too",
        "fencing (hazard)",
        ("S17'", "S18"),
        scenarios.SHUT_OUT,
        (Patch(covering, "_covers", always(True)),),
    ),
    "T7": Mutant(
        "what a storage counts is not looked at: a node that reads and writes is fenced",
        "fencing (hazard)",
        ("S17",),
        scenarios.COUNTED,
        (Patch(deciding_nodes, "held_by_storage", always(None)),),
    ),
    "T8": Mutant(
        "what moved while a storage was looked at twice is not compared: only a node that logs in is seen",
        "fencing (hazard)",
        ("S17",),
        scenarios.COUNTED,
        (Patch(storage_view, "_grew", _logged_in),),
    ),
    "T6": Mutant(
        "a node that answers again is let in, whatever it has mounted still and has attached",
        "csi-addons NetworkFence: unfencing asks for nothing",
        ("S18'",),
        scenarios.SHUT_OUT,
        (Patch(letting_in, "what_is_left", always(None)), Patch(unfencing, "what_is_left", always(None))),
    ),
}

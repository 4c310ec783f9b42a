"""Mutants of fences of the storage, which shut a node out of volumes while its processes run on."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mooring.controllers.fencing.steps import Steps
from mooring.simulation.search.mutants import scenarios
from mooring.simulation.search.mutants.mutant import Mutant, Patch


def _opted_in(original: Any) -> Any:
    """What the policy says of pods is not looked at."""

    async def remove_pods(self: Any, fence: Any, policy: Any, proof: Any) -> None:
        if policy is not None:
            policy = replace(policy, spec=replace(policy.spec, storage_releases_pods=True))
        await original(self, fence, policy, proof)

    return remove_pods


MUTANTS: dict[str, Mutant] = {
    "T7": Mutant(
        "pods of StatefulSets are removed from a node that is shut out, although the policy does not say so",
        "fencing (hazard)",
        ("S3", "S1"),
        scenarios.SHUT_OUT,
        (Patch(Steps, "_remove_pods", _opted_in),),
    ),
}

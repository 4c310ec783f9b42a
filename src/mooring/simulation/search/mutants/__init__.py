"""Known bugs, put back in by name: a run must find each. They live here alone; production code knows nothing
of them.

The names are those of the bugs in Kubernetes' history that have the same fault (B01…), of hazards in its
present code (H1…), and of counterexamples against earlier wordings of our own protocol (C1…);
`docs/safety.md` lists them.
"""

from __future__ import annotations

from mooring.simulation.search.mutants import (
    agents,
    attach_detach,
    attacher,
    binding,
    csi,
    ebs,
    fencing,
    forced_release,
    late_effects,
    node,
    pods,
    registration,
    self_fencing,
    stale_state,
    storage_fencing,
    workloads,
)
from mooring.simulation.search.mutants.mutant import Mutant, PatchGone

_ROOMS = (
    *(agents, attach_detach, attacher, binding, csi, ebs, fencing, forced_release, late_effects, node, pods),
    *(registration, stale_state, storage_fencing, self_fencing, workloads),
)


def _all() -> dict[str, Mutant]:
    found: dict[str, Mutant] = {}
    for room in _ROOMS:
        if twice := found.keys() & room.MUTANTS.keys():
            raise ValueError(f"two mutants of one name: {', '.join(sorted(twice))}")
        found |= room.MUTANTS
    return dict(sorted(found.items()))


MUTANTS: dict[str, Mutant] = _all()

__all__ = ["MUTANTS", "WAITING", "Mutant", "PatchGone"]

WAITING: dict[str, str] = {
    "B35": "no rule of ours: with grace period 0 the API server itself removes a pod at once, as Kubernetes' does",
    "B40": "no limit on evictions when many nodes fall silent at once: it spares pods, which no invariant counts",
    "B44": "the cloud's node controller, which deletes Nodes because the cloud says that their machines are gone;"
    " operators who do so: H3a",
    "G7": "secrets in a program's arguments: simulated devices are no programs (tests/fence/test_agents.py)",
}
"""Bugs that are not put back in, and what is missing for it."""

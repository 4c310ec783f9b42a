"""Known bugs, put back in by name: a run must find each. They live here alone; production code knows nothing of them.

The names are those of the bugs in Kubernetes' history that have the same fault (B01…), of hazards in its present code
(H1…), and of counterexamples against earlier wordings of our own protocol (C1…); `docs/safety.md` lists them.
"""

from __future__ import annotations

from mooring.simulation.mutants import (
    agents,
    attacher,
    attaching,
    binding,
    csi,
    ebs,
    forced,
    node,
    pods,
    registering,
    remembered,
)
from mooring.simulation.mutants.mutant import Mutant, PatchGone

MUTANTS: dict[str, Mutant] = dict(
    sorted(
        {
            **agents.MUTANTS,
            **attaching.MUTANTS,
            **attacher.MUTANTS,
            **binding.MUTANTS,
            **csi.MUTANTS,
            **ebs.MUTANTS,
            **forced.MUTANTS,
            **node.MUTANTS,
            **pods.MUTANTS,
            **registering.MUTANTS,
            **remembered.MUTANTS,
        }.items()
    )
)

__all__ = ["MUTANTS", "WAITING", "Mutant", "PatchGone"]

WAITING: dict[str, str] = {
    "B35": "nothing: grace period 0 removes a pod at once, as in Kubernetes; a policy that gives S1 up",
    "B40": "a limit on evictions when many nodes fall silent at once",
    "B44": "a cloud's node life cycle",
}
"""Bugs that are not put back in, and what is missing for it."""

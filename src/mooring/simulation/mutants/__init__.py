"""Known bugs, put back in by name: a run must find each. They live here alone; production code knows nothing of them.

The names are those of the bugs in Kubernetes' history that have the same fault (B01…), of hazards in its present code
(H1…), and of counterexamples against earlier wordings of our own protocol (C1…); `docs/safety.md` lists them.
"""

from __future__ import annotations

from mooring.simulation.mutants import (
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
    "B32": "files in the directories of played mounts",
    "B34": "lists from a replica that is behind, asked for with resourceVersion 0; ours asks for the newest state",
    "B35": "nothing: grace period 0 removes a pod at once, as in Kubernetes; a policy that gives S1 up",
    "B40": "a limit on evictions when many nodes fall silent at once",
    "B41": "single faults one by one: a reply has to be lost in the moment in which a node falls silent",
    "B44": "a cloud's node life cycle",
    "B47": "lists from a replica that is behind",
    "B53": "topology of storage",
    "B59": "garbage collection of a CSINode whose Node is gone",
    "B60": "a guest that still holds a device whose name the cloud gives again",
    "B64": "a scheduler that assumes volumes before they are bound; ours waits for the write",
}
"""Bugs that are not put back in, and what is missing for it."""

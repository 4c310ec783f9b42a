"""Known bugs, put back in by name: a run must find each. They live here alone; production code knows nothing of them.

The names are those of the bugs in Kubernetes' history that have the same fault (B01…), of hazards in its present code
(H1…), and of counterexamples against earlier wordings of our own protocol (C1…); `docs/safety.md` lists them.
"""

from __future__ import annotations

from mooring.simulation.mutants import attacher, attaching, binding, node, pods
from mooring.simulation.mutants.mutant import Mutant, PatchGone

MUTANTS: dict[str, Mutant] = dict(
    sorted({**attaching.MUTANTS, **attacher.MUTANTS, **node.MUTANTS, **pods.MUTANTS, **binding.MUTANTS}.items())
)

__all__ = ["MUTANTS", "WAITING", "Mutant", "PatchGone"]

WAITING: dict[str, str] = {}
"""Bugs of parts that are not there, or not played: and which."""

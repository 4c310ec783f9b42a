"""What claims are to be copies of: whether a copy can be made, and what is kept for one."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.controllers.provisioning.originals import CLONED
from mooring.simulation.checks.invariants.kept_objects import (
    KeptObjects,
    claim_of,
    copied_from,
    restored_from,
)
from mooring.simulation.checks.invariants.objects import StoredObject
from mooring.simulation.engine.trace import Trace


class Sources:
    """Of one trace."""

    def __init__(self, trace: Trace) -> None:
        self._snapshots = KeptObjects.of(trace).snapshots

    def is_there(self, name: str, claim: StoredObject, claims: Mapping[str, StoredObject]) -> bool:
        """Whether a copy can be made: its snapshot is ready, or its original is bound, and stays. Those that
        users have taken away, or that are not taken yet, it waits for."""
        if snapshot := restored_from(claim, name):
            return any(each.key == snapshot and each.status.ready_to_use for each in self._snapshots.values())
        original = claims.get(copied_from(claim, name))
        if original is None or original.status.phase != "Bound":
            return False
        return not original.going or CLONED in original.metadata.finalizers

    def kept(self, claims: Mapping[str, StoredObject]) -> set[str]:
        """The claims that stay until a snapshot is taken of them, or a copy is made."""
        taken = {claim_of(each) for each in self._snapshots.values() if not each.status.ready_to_use}
        waiting = (each for each in claims.items() if each[1].status.phase != "Bound")
        return taken | {copied_from(claim, name) for name, claim in waiting}

"""What must hold at every step, as checkers of the trace. The names are those of docs/invariants.md."""

from __future__ import annotations

from mooring.simulation.checks.invariants import (
    attachments,
    claims,
    locks,
    pod_identity,
    processes,
    workloads,
)
from mooring.simulation.checks.invariants.checker import Checker, Guarded, Violation
from mooring.simulation.engine.trace import Event, Trace

__all__ = ["CHECKERS", "Checks", "Violation", "check"]

CHECKERS: tuple[type[Checker], ...] = (
    pod_identity.OneOfEachIdentity,
    pod_identity.TheOneMeant,
    pod_identity.PhasesGoForward,
    pod_identity.OnePodOnly,
    attachments.OneWriter,
    attachments.NoZombieWrite,
    attachments.MountedMeansAttached,
    attachments.TheRightDevice,
    attachments.NoDetachUnderUse,
    attachments.OneOperation,
    attachments.NoLostRecord,
    locks.UnderItsLock,
    attachments.DetachedFirst,
    attachments.DeletedWhenFree,
    claims.BoundToEachOther,
    claims.OneDiskForEach,
    claims.KeptWhileClaimed,
    claims.ProtectedWhileUsed,
    processes.NothingAcknowledgedIsLost,
    processes.PartsGoOn,
    processes.ReadsItsWrites,
    workloads.CountedOnce,
    workloads.EvictionsAreRemembered,
)


class Checks:
    """All checkers on one trace. What they find is added to `violations` as the trace grows."""

    def __init__(self, trace: Trace) -> None:
        self.violations: list[Violation] = []
        self._checkers: list[Guarded] = [checker(trace, self.found) for checker in CHECKERS]

    def follow(self, checker: Guarded) -> None:
        """Counts what another checker has to look at, too: one that needs more than the trace."""
        self._checkers.append(checker)

    def found(self, invariant: str, message: str, event: Event) -> None:
        """Takes a violation."""
        self.violations.append(Violation(invariant, message, event.time, event.number))

    def guarded(self) -> dict[str, int]:
        """How often each checker had something to look at."""
        return {checker.name: checker.guarded for checker in self._checkers}


def check(trace: Trace) -> list[Violation]:
    """Puts all checkers on a trace."""
    return Checks(trace).violations

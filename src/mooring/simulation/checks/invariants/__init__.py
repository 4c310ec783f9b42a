"""What must hold at every step, as checkers of the trace. The names are those of docs/invariants.md."""

from __future__ import annotations

from mooring.simulation.checks.invariants import (
    attachments,
    attributes,
    claims,
    collecting,
    contents,
    corrections,
    fences,
    forced_releases,
    intents,
    kept_snapshots,
    locks,
    looks,
    lost,
    marks,
    overdue,
    pod_identity,
    processes,
    requests,
    revisions,
    statefulsets,
    storage_fences,
    timers,
    told_errors,
    told_others,
    words,
    workloads,
    writes,
)
from mooring.simulation.checks.invariants.checker import Checker, Guarded, Violation
from mooring.simulation.checks.invariants.deadlines.checker import Deadlines, WorstWait
from mooring.simulation.checks.settings import Settings
from mooring.simulation.engine.trace import Event, Trace

__all__ = ["CHECKERS", "Checks", "Violation", "check"]

CHECKERS: tuple[type[Checker], ...] = (
    Deadlines,  # first: it looks before what it shares with others has learnt of an event
    pod_identity.OneOfEachIdentity,
    pod_identity.NotBesideTheRemoved,
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
    claims.RunsWithItsVolumes,
    processes.NothingAcknowledgedIsLost,
    processes.PartsGoOn,
    processes.ErrorsAreExpected,
    processes.FailuresAreTold,
    processes.ReadsItsWrites,
    workloads.CountedOnce,
    workloads.EvictionsAreRemembered,
    statefulsets.InOrder,
    forced_releases.ReleasedWithRight,
    fences.BlastRadius,
    fences.ReleasedByFences,
    storage_fences.OnlyWhatIsNamed,
    storage_fences.LetInAfterwards,
    timers.GoneWhenEnded,
    timers.UnknownWhenSilent,
    timers.EvictedInTime,
    timers.KilledInTime,
    timers.EvictedForItsVolumes,
    requests.AskedForAReason,
    requests.NotTooOften,
    corrections.NothingMissed,
    corrections.KeepsItsPeriod,
    overdue.NeverOverdue,
    intents.WrittenDownFirst,
    looks.LooksAgain,
    looks.MountsWhatItSaw,
    writes.SaysUponWhat,
    writes.ChangesSomething,
    words.WhatIsSaidIsSo,
    told_errors.ErrorsAreShown,
    collecting.CollectsOnlyWhatIsLeft,
    marks.OthersMarksStay,
    told_others.OthersAreTold,
    revisions.KeepsWhatIsOfUse,
    lost.GoneIndeed,
    contents.ShowsWhatIsSo,
    kept_snapshots.TakenOnceAndAskedFor,
    kept_snapshots.ReadyWhenItIs,
    kept_snapshots.NotLostWhileNeeded,
    kept_snapshots.BeginsAsItsSource,
    attributes.AskedForByItsClaim,
    attributes.SaysWhatItHas,
    attributes.RefusedForAWhile,
)


class Checks:
    """All checkers on one trace. What they find is added to `violations` as the trace grows."""

    def __init__(self, trace: Trace, settings: Settings | None = None) -> None:
        if settings is not None:
            settings.hold_for(trace)
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

    def worst_wait(self) -> WorstWait | None:
        """What came nearest to its deadline."""
        return next((each.worst for each in self._checkers if isinstance(each, Deadlines)), None)


def check(trace: Trace, settings: Settings | None = None) -> list[Violation]:
    """Puts all checkers on a trace. `settings`: the policies that it was made under."""
    return Checks(trace, settings).violations

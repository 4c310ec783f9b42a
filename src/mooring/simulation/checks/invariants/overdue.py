"""The invariant of what is never waited for: looks that are to find nothing, and come again and again."""

from __future__ import annotations

from typing import NamedTuple

from mooring.simulation.checks.faults import STORAGES, Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.forced_releases import Place, place
from mooring.simulation.checks.invariants.objects import (
    ATTACHMENTS,
    VOLUMES,
    StoredObject,
    disk_of,
    object_of,
)
from mooring.simulation.checks.settings import Settings
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.names import DETACHING, VOLUME_NAME

CONTROLLER = "attaching"
LATE_S = 60.0
"""By so much may a look be late: the process begins, gets its Lease, and fills its caches."""
CHECKS_S = 20.0
"""Between two checks whether a look is overdue."""
SWEEP, VERIFICATION = "the full sweep looks at", "the attacher verifies"


class _Subject(NamedTuple):
    """What is looked at: a disk, and, where that matters, the node that has it."""

    look: str
    disk: str
    node: str = ""


class NeverOverdue(Checker):
    """S35': what is done again and again for safety's sake alone is not left out: in each period the full
    sweep looks at what has a VolumeAttachment, and the attacher asks of what is attached whether it is. A
    period begins anew when a fault is over that keeps the process, or what it asks, from that."""

    name = "S35'"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._faults, settings = Faults.of(trace), Settings.of(trace)
        self._periods = {SWEEP: settings.sweeps_s, VERIFICATION: settings.verifies_s}
        self._records: dict[str, StoredObject] = {}
        self._defined: set[str] = set()  # the PersistentVolumes that are there
        self._attached: set[Place] = set()
        self._since: dict[_Subject, float] = {}  # when it was looked at last, or could be for the first time
        self._next = 0.0
        trace.listen("told.swept", self._swept)
        trace.listen("truth.verified", self._verified)
        trace.listen("truth.attached", lambda event: self._attached.add(place(event)))
        trace.listen("truth.detached", self._detached)
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    def _swept(self, event: Event) -> None:
        unique = event.fields["volume"]
        self._looked(_Subject(SWEEP, disk_of(unique).rpartition("/")[2]), event)

    def _verified(self, event: Event) -> None:
        self._looked(_Subject(VERIFICATION, event.fields["volume"], event.fields["node"]), event)

    def _looked(self, subject: _Subject, event: Event) -> None:
        if subject in self._since:
            self._since[subject] = event.time

    def _detached(self, event: Event) -> None:
        self._attached.discard(place(event))
        self._since.pop(_Subject(VERIFICATION, *place(event)), None)

    def _written(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource == ATTACHMENTS:
            record = self._records[name] = object_of(event)
            if not _stays(record):  # also if its mark is taken back before the next check
                self._since.pop(_to_verify(record), None)
        elif resource == VOLUMES:
            self._defined.add(name)
        self._check(event)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == ATTACHMENTS:
            record = self._records.pop(event.fields["name"], None)
            self._since.pop(_Subject(SWEEP, record.unique_disk if record is not None else ""), None)
        elif event.fields["resource"] == VOLUMES:
            self._defined.discard(event.fields["name"])

    def _subjects(self) -> set[_Subject]:
        found: set[_Subject] = set()
        for record in self._records.values():
            if VOLUME_NAME in record.metadata.annotations:  # else it is to be found out which disk it is
                found.add(_Subject(SWEEP, record.unique_disk))
            subject, stays = _to_verify(record), _stays(record)
            if (
                stays
                and (subject.disk, subject.node) in self._attached
                and record.volume_name in self._defined
            ):
                found.add(subject)
        return {each for each in found if self._periods[each.look]}

    def _check(self, event: Event) -> None:
        if event.time < self._next:
            return
        self._next = event.time + CHECKS_S
        self._since = {each: self._since.get(each, event.time) for each in self._subjects()}
        until = {
            SWEEP: self._faults.disturbed_until((CONTROLLER,)),
            VERIFICATION: self._faults.disturbed_until((CONTROLLER, *STORAGES)),
        }
        for subject, since in self._since.items():
            self._judge(subject, event.time - max(since, until[subject.look]), event)

    def _judge(self, subject: _Subject, age: float, event: Event) -> None:
        self.guarded += age > 0
        period_s = self._periods[subject.look]
        if age > period_s + LATE_S:
            where = f" on {subject.node}" if subject.node else ""
            self.wrong(f"{subject.look} {subject.disk}{where} after {age:.0f} s at the soonest", event)
            self._since[subject] = event.time


def _to_verify(record: StoredObject) -> _Subject:
    return _Subject(VERIFICATION, record.unique_disk, record.spec.node_name)


def _stays(record: StoredObject) -> bool:
    """It says that it is attached, and no detach has begun."""
    ends = record.going or DETACHING in record.metadata.annotations
    return record.status.attached and not ends

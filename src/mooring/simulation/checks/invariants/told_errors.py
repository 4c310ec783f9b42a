"""The invariant of errors that people look for: what the storage has refused is said in the record."""

from __future__ import annotations

from typing import NamedTuple

from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.forced_releases import Place, place
from mooring.simulation.checks.invariants.objects import ATTACHMENTS, StoredObject, object_of
from mooring.simulation.engine.trace import Event, Trace

ATTACHER = "attaching"
WRITTEN_S = 0.2
"""So long a write may take without faults; the next try comes half a second after a failure."""
SHOWN_AS = {"attach": "attach_error", "detach": "detach_error"}


class _Failed(NamedTuple):
    """What the storage has not done, by whom and when it was asked, and for which VolumeAttachment."""

    act: str
    by: str
    at: float
    uid: str


class ErrorsAreShown(Checker):
    """S41: when the storage is asked once more for what it has not done, the VolumeAttachment says why it had
    to be."""

    name = "S41"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._faults = Faults.of(trace)
        self._records: dict[Place, StoredObject] = {}
        self._there: set[Place] = set()
        self._failed: dict[Place, _Failed] = {}  # the last request, if it has failed
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.attached", lambda event: self._there.add(place(event)))
        trace.listen("truth.detached", lambda event: self._there.discard(place(event)))
        trace.listen("truth.begin", self._begun)
        trace.listen("truth.end", self._ended)

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == ATTACHMENTS:
            record = object_of(event)
            self._records[record.volume_name, record.spec.node_name] = record

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == ATTACHMENTS:
            record = object_of(event)
            self._records.pop((record.volume_name, record.spec.node_name), None)

    def _ended(self, event: Event) -> None:
        record, act = self._records.get(place(event)), event.fields["act"]
        done = (place(event) in self._there) is (act == "attach")
        if record is not None and not done and act in SHOWN_AS:
            self._failed[place(event)] = _Failed(act, event.fields["by"], event.time, record.metadata.uid)

    def _begun(self, event: Event) -> None:
        record, failed = self._records.get(place(event)), self._failed.pop(place(event), None)
        act, by = event.fields["act"], event.fields["by"]
        if record is None or failed is None or (act, by) != failed[:2] or record.metadata.uid != failed.uid:
            return
        self.guarded += 1
        said: dict[str, str] | None = getattr(record.status, SHOWN_AS[act])
        late = event.time < failed.at + WRITTEN_S or self._faults.disturbed((ATTACHER,), failed.at)
        if by.startswith(f"{ATTACHER} ") and not (said and said.get("message")) and not late:
            volume, node = place(event)
            self.wrong(
                f"the {act} of {volume} on {node} has failed, and its VolumeAttachment does not say why",
                event,
            )

"""The invariant of errors that people look for: what the storage has refused is said where it was asked for."""

from __future__ import annotations

from typing import NamedTuple

from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.objects import ATTACHMENTS, StoredObject, object_of
from mooring.simulation.engine.trace import Event, Trace

ATTACHER = "attaching"
WRITTEN_S = 0.2
"""So long a write may take without faults; the next try comes half a second after a failure at the soonest."""


class _Asked(NamedTuple):
    act: str
    volume: str
    node: str
    by: str


class ErrorsAreShown(Checker):
    """S41: when the storage is asked once more for what it has not done, the VolumeAttachment says why it had
    to be."""

    name = "S41"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._faults = Faults.of(trace)
        self._records: dict[tuple[str, str], StoredObject] = {}
        self._there: set[tuple[str, str]] = set()
        self._failed: dict[_Asked, float] = {}  # when
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.attached", lambda event: self._there.add(_place(event)))
        trace.listen("truth.detached", lambda event: self._there.discard(_place(event)))
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
        asked, done = _asked(event), _place(event) in self._there
        if done is (asked.act == "attach"):
            self._failed.pop(asked, None)
        else:
            self._failed[asked] = event.time

    def _begun(self, event: Event) -> None:
        asked = _asked(event)
        record, failed = self._records.get(_place(event)), self._failed.pop(asked, None)
        if failed is None or record is None or not asked.by.startswith(f"{ATTACHER} "):
            return
        self.guarded += 1
        status = record.status
        said = status.attach_error if asked.act == "attach" else status.detach_error
        late = event.time < failed + WRITTEN_S or self._faults.disturbed((ATTACHER,), failed)
        if not (said or {}).get("message") and not late:
            self.wrong(
                f"{asked.volume} has not been {asked.act}ed on {asked.node}, and its VolumeAttachment does not say why",
                event,
            )


def _place(event: Event) -> tuple[str, str]:
    return event.fields["volume"], event.fields["node"]


def _asked(event: Event) -> _Asked:
    fields = event.fields
    return _Asked(fields["act"], fields["volume"], fields["node"], fields["by"])

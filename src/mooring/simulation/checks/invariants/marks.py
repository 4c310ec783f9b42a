"""The invariant of what other parties put on objects: nothing of ours takes it away."""

from __future__ import annotations

import msgspec

from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.objects import (
    Attached,
    Condition,
    ObjectKey,
    Reference,
    Taint,
    key_of,
)
from mooring.simulation.cluster.other_parties import ATTACHED, GUARD, LISTED, MARK
from mooring.simulation.engine.trace import Event, Trace


class _Metadata(msgspec.Struct, rename="camel", frozen=True):
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[Reference, ...] = ()


class _Spec(msgspec.Struct, frozen=True):
    taints: tuple[Taint, ...] = ()


class _Status(msgspec.Struct, rename="camel", frozen=True):
    conditions: tuple[Condition, ...] = ()
    volumes_attached: tuple[Attached, ...] = ()


class _Object(msgspec.Struct):
    """What may be marked."""

    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    def marks(self) -> set[str]:
        """The marks that it has, in the words of `plan.marked`."""
        there = {
            "label": MARK in self.metadata.labels,
            "annotation": MARK in self.metadata.annotations,
            "finalizer": GUARD in self.metadata.finalizers,
            "taint": any(each.key == MARK for each in self.spec.taints),
            "condition": any(each.type == MARK for each in self.status.conditions),
            LISTED: any(each.name == ATTACHED for each in self.status.volumes_attached),
        }
        owners = {f"owner {each.name}" for each in self.metadata.owner_references}
        return {mark for mark, is_there in there.items() if is_there} | owners


_object = msgspec.json.Decoder(_Object).decode


class OthersMarksStay(Checker):
    """S43: what another party has put on an object stays there: a label, an annotation, a taint, a condition,
    a volume that a Node lists as attached, a finalizer until that party takes it away, and an owner for as
    long as that is there."""

    name = "S43"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._marks: dict[ObjectKey, tuple[str, set[str]]] = {}  # uid, and what was put there
        trace.listen("plan.marked", self._marked)
        trace.listen("plan.unmarked", self._unmarked)
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    def _marked(self, event: Event) -> None:
        uid, marks = self._marks.get(key_of(event), ("", set[str]()))
        marks = marks if uid == event.fields["uid"] else set[str]()
        self._marks[key_of(event)] = event.fields["uid"], marks | {event.fields["mark"]}

    def _unmarked(self, event: Event) -> None:
        uid, marks = self._marks.get(key_of(event), ("", set[str]()))
        if uid == event.fields["uid"]:
            marks.discard(event.fields["mark"])

    def _deleted(self, event: Event) -> None:
        _, marks = self._marks.pop(key_of(event), ("", set[str]()))
        if "finalizer" in marks:  # the write that takes the last one from an object deletes it
            self._taken("finalizer", event)
        if event.fields["resource"] == "configmaps":
            gone = f"owner {event.fields['name'].rpartition('/')[2]}"
            for _, marks in self._marks.values():
                marks.discard(gone)

    def _written(self, event: Event) -> None:
        if (held := self._marks.get(key_of(event))) is None:
            return
        uid, marks = held
        stored = _object(event.fields["_body"])
        if stored.metadata.uid != uid:
            del self._marks[key_of(event)]
            return
        self.guarded += 1
        for mark in sorted(marks - stored.marks()):
            marks.discard(mark)
            self._taken(mark, event)

    def _taken(self, mark: str, event: Event) -> None:
        what = f"{event.fields['resource']} {event.fields['name']}"
        self.wrong(f"another party's {mark} was taken from {what}", event)

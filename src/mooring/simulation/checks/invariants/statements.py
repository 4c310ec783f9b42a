"""Operators' statements that a machine is dead, true or not: a statement gives up guarantees about a
machine."""

from __future__ import annotations

from mooring.controllers.podgc.decide import QUARANTINE_S
from mooring.simulation.checks.invariants.objects import object_of
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.out_of_service import SEEN, TAINT


class Statements:
    """A statement ends when it is taken back, or when the node reports under it. The deletion of a Node
    counts as one of its pods' end (not of its volumes'), when it has lasted, until the name is registered
    anew."""

    def __init__(self, trace: Trace) -> None:
        self._dead: set[str] = set()
        self._absent: dict[str, float] = {}
        trace.listen("plan.declared", self._declared)
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    def __contains__(self, node: object) -> bool:
        return node in self._dead

    def ended(self, node: str, event: Event) -> bool:
        """Whether the pods of the node count as ended, by an operator's word, or because their Node is
        gone."""
        absent = self._absent.get(node)
        return node in self._dead or (absent is not None and event.time - absent >= QUARANTINE_S)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == "nodes":
            self._absent[event.fields["name"]] = event.time

    def _declared(self, event: Event) -> None:
        (self._dead.add if event.fields["out"] else self._dead.discard)(event.fields["node"])

    def _written(self, event: Event) -> None:
        node = event.fields["name"]
        if event.fields["resource"] != "nodes":
            return
        self._absent.pop(node, None)
        if node not in self._dead:
            return
        body = object_of(event)
        taint = next((each for each in body.spec.taints if each.key == TAINT), None)
        if taint is None or body.metadata.annotations.get(SEEN) == (taint.time_added or "true"):
            self._dead.discard(node)


class Removed:
    """The uids of pods whose objects went although something of them may still run: removed by a user's
    force, or while an operator's word about their machine was in force."""

    def __init__(self, trace: Trace) -> None:
        self._uids: set[str] = set()
        self._dead = Statements(trace)
        trace.listen("plan.forced", lambda event: self._uids.add(event.fields["uid"]))
        trace.listen("store.deleted", self._deleted)

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == "pods" and self._dead.ended(object_of(event).spec.node_name, event):
            self._uids.add(object_of(event).metadata.uid)

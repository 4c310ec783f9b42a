"""Operators' statements that a machine is dead, true or not: a statement gives up guarantees about a
machine."""

from __future__ import annotations

import math

from mooring.controllers.podgc.decide import QUARANTINE_S
from mooring.simulation.checks.invariants.node_reports import ON_ITS_WAY_S, NodeReports
from mooring.simulation.checks.invariants.objects import StoredObject, Taint, object_of
from mooring.simulation.checks.invariants.shut_out import ShutOut
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.out_of_service import SEEN, TAINT


class Statements:
    """A statement counts from when the node is Unknown, or absent; it ends when it is taken back, or when the
    node reports under it. The deletion of a Node counts as one of its pods' end (not of its volumes'), when
    it has lasted, until the name is registered anew."""

    def __init__(self, trace: Trace) -> None:
        self._reports = NodeReports.of(trace)
        self._stated: set[str] = set()
        self._dead: set[str] = set()  # of those stated, the ones that have been silent since
        self._until: dict[str, float] = {}  # when such a word ended last
        trace.listen("plan.declared", self._declared)
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    @classmethod
    def of(cls, trace: Trace) -> Statements:
        """The one of that trace: its checkers share it."""
        return trace.shared(cls)

    def __contains__(self, node: object) -> bool:
        return node in self._dead

    def held_lately(self, node: str, now: float) -> bool:
        """Whether a word was in force when what is carried out now may have been asked for."""
        return node in self._dead or now - self._until.get(node, -math.inf) <= ON_ITS_WAY_S

    def ended(self, node: str, event: Event) -> bool:
        """Whether the pods of the node count as ended, by an operator's word, or because their Node is
        gone."""
        return node in self._dead or event.time - self._reports[node].absent_since >= QUARANTINE_S

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == "nodes" and event.fields["name"] in self._stated:
            self._dead.add(event.fields["name"])

    def _declared(self, event: Event) -> None:
        node = event.fields["node"]
        if not event.fields["out"]:
            self._forget(node, event.time)
            return
        self._stated.add(node)
        if self._reports[node].silent_since <= event.time:
            self._dead.add(node)

    def _written(self, event: Event) -> None:
        node = event.fields["name"]
        if event.fields["resource"] != "nodes" or node not in self._stated:
            return
        body = object_of(event)
        taint = next((each for each in body.spec.taints if each.key == TAINT), None)
        if taint is None or self._spent(node, body, taint, event):
            self._forget(node, event.time)
        elif body.ready == "Unknown":
            self._dead.add(node)

    def _spent(self, node: str, body: StoredObject, taint: Taint, event: Event) -> bool:
        """Whether the node has reported under the taint: it says so, or has written its status just now, and
        the taint was there before."""
        report = self._reports[node]
        since = report.taints.get((taint.key, taint.effect, taint.time_added), event.time)
        reports = report.reported_in == event.number and since < event.time
        return reports or body.metadata.annotations.get(SEEN) == (taint.time_added or "true")

    def _forget(self, node: str, now: float) -> None:
        if node in self._dead:
            self._until[node] = now
        self._stated.discard(node)
        self._dead.discard(node)


class Removed:
    """The uids of pods whose objects went although something of them may still run: removed by a user's
    force, while an operator's word about their machine was in force, or, where the policy has it so, while
    the storage shut their node out of all their volumes."""

    def __init__(self, trace: Trace) -> None:
        self._uids: set[str] = set()
        self._dead, self._shut = Statements.of(trace), ShutOut.of(trace)
        trace.listen("plan.forced", lambda event: self._uids.add(event.fields["uid"]))
        trace.listen("store.deleted", self._deleted)

    @classmethod
    def of(cls, trace: Trace) -> Removed:
        """The one of that trace: its checkers share it."""
        return trace.shared(cls)

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] != "pods":
            return
        pod, name = object_of(event), event.fields["name"]
        if self._dead.ended(pod.spec.node_name, event) or self._shut.excuses(name, pod, event.time):
            self._uids.add(pod.metadata.uid)

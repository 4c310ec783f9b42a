"""Invariants of time: nothing that waits for silence, for a grace period or for a quarantine happens before
that is over.

Each is measured by the clock of the run. A late view of the API explains that a controller acts upon a state
that is over, so what was disturbed is not judged; a clock that is wrong explains as much as it is wrong.
"""

from __future__ import annotations

import math
from collections import defaultdict

from mooring.node.pods.ending import MINIMUM_GRACE_S
from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.node_reports import NodeReports
from mooring.simulation.checks.invariants.objects import StoredObject, object_of
from mooring.simulation.checks.invariants.statements import Removed, Statements
from mooring.simulation.checks.settings import Settings
from mooring.simulation.engine.trace import Event, Trace

WATCHING = "watching"
"""The process that looks after nodes."""
ROUNDING_S = 1.5
"""A time in an object has no fractions; a request takes its time."""
EVICTED_BY_TAINT = "DeletionByTaintManager"
LATE_S = 1.0
"""So late may a controller that nothing disturbs know of a change."""
Taints = dict[tuple[str, str, str], float]
"""Since when each has been there."""


class GoneWhenEnded(Checker):
    """S24: a pod leaves the API only when no process of it runs; unless it was removed by a user's force,
    while an operator's word about its machine was in force, or when its Node had been absent for the whole
    quarantine."""

    name = "S24"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._running: defaultdict[str, set[str]] = defaultdict(set)
        self._removed = Removed.of(trace)
        trace.listen("truth.started", lambda e: self._running[e.fields["uid"]].add(_container(e)))
        trace.listen("truth.ended", lambda e: self._running[e.fields["uid"]].discard(_container(e)))
        trace.listen("store.deleted", self._deleted)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] != "pods":
            return
        pod = object_of(event)
        uid = pod.metadata.uid
        self.guarded += bool(pod.spec.node_name)
        if self._running[uid] and uid not in self._removed:
            self.wrong(f"{event.fields['name']} is gone, and runs on {pod.spec.node_name}", event)


def _container(event: Event) -> str:
    return event.fields.get("container", "")


class UnknownWhenSilent(Checker):
    """S25: a node is set Unknown only when it has given no sign of life for the whole grace period: no
    renewal of its Lease, and no status. And a node that nothing keeps from it gives them. A sign that comes
    while the request is under way is too late for it."""

    name = "S25"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._grace_s = Settings.of(trace).grace_period_s
        self._reports = NodeReports.of(trace)
        self._faults = Faults.of(trace)
        self._asked_at: dict[str, float] = {}
        """Node -> its last sign of life when a write of it was asked for."""
        trace.listen("asked.write", self._asked)
        trace.listen("store.written", self._written)

    def _asked(self, event: Event) -> None:
        if event.actor == WATCHING and event.fields["resource"] == "nodes":
            node = event.fields["name"]
            self._asked_at[node] = self._reports[node].sign

    def _written(self, event: Event) -> None:
        if event.fields["resource"] != "nodes":
            return
        node = event.fields["name"]
        report = self._reports[node]
        if report.lost_in != event.number:
            return
        self.guarded += 1
        sign = self._asked_at.get(node, report.sign)
        silent = event.time - sign
        if not self._faults.disturbed((WATCHING, node), sign - self._grace_s):
            self.wrong(f"{node} is Unknown after {silent:.1f} s, and no fault keeps it from answering", event)
        elif silent + ROUNDING_S < self._grace_s and not self._faults.disturbed(
            (WATCHING,), sign - self._grace_s
        ):
            self.wrong(
                f"{event.fields['name']} is Unknown after {silent:.1f} s without a sign of life", event
            )


class EvictedInTime(Checker):
    """S26: a pod is evicted because of a taint only when it has been under it for as long as it tolerates
    it. A taint that was taken off less than a second ago may not be known to be gone."""

    name = "S26"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._reports = NodeReports.of(trace)
        self._faults = Faults.of(trace)
        self._told: set[str] = set()
        self._last: dict[str, Taints] = {}  # node -> as it was written last
        self._gone: dict[str, tuple[Taints, float]] = {}  # node -> as it was before, and until when
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == "nodes":
            self._gone[event.fields["name"]] = self._last.pop(event.fields["name"], {}), event.time

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == "nodes":
            name = event.fields["name"]
            now, before = dict(self._reports[name].taints), self._last.get(name, {})
            if before.keys() - now.keys():
                self._gone[name] = before, event.time
            self._last[name] = now
        if event.fields["resource"] != "pods":
            return
        pod = object_of(event)
        if pod.metadata.uid in self._told or all(c.reason != EVICTED_BY_TAINT for c in pod.status.conditions):
            return
        self._told.add(pod.metadata.uid)
        self.guarded += 1
        left = self._left(pod, event.time)
        since = event.time - max(left, 0.0) - 60.0
        if left > ROUNDING_S + self._faults.skew(WATCHING, since) and not self._faults.disturbed(
            (WATCHING,), since
        ):
            left_s = f"{left:.0f} s" if left < math.inf else "as long as there is no taint"
            self.wrong(f"{event.fields['name']} is evicted, and may stay for {left_s}", event)

    def _left(self, pod: StoredObject, now: float) -> float:
        """For how many seconds more the pod may stay by the taints of its node."""
        gone, until = self._gone.get(pod.spec.node_name, ({}, -math.inf))
        taints = (gone if now - until < LATE_S else {}) | self._reports[pod.spec.node_name].taints
        return min(
            (_tolerated(pod, key) - (now - since) for (key, _, _), since in taints.items()), default=math.inf
        )


def _tolerated(pod: StoredObject, key: str) -> float:
    """For how many seconds a pod tolerates a taint."""
    matching = [each for each in pod.spec.tolerations if each.key in (key, "")]
    if not matching:
        return 0.0
    seconds = [each.toleration_seconds for each in matching if each.toleration_seconds is not None]
    return min(seconds, default=math.inf)


class KilledInTime(Checker):
    """S27: a pod that ends is killed only when its grace period is over, and never sooner than two seconds
    after it was told to end. A pod whose volume was taken from its node is killed at once, and, where nodes
    fence themselves, each pod of one that has sent no renewal of its Lease for its limit that was
    acknowledged."""

    name = "S27"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._told: dict[str, float] = {}  # uid -> when it was told to end
        self._grace: dict[str, float] = {}  # uid -> the shortest grace period that was set
        self._dead = Statements.of(trace)
        self._reports = NodeReports.of(trace)
        self._limit_s = Settings.of(trace).fences_itself_s
        self._sent: dict[tuple[str, int], float] = {}  # node and number of a renewal -> when it was sent
        self._renewed: dict[str, float] = {}  # node -> when its last acknowledged renewal was sent
        trace.listen("asked.renew", self._renew)
        trace.listen("asked.renewed", self._acknowledged)
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.signalled", lambda e: self._told.setdefault(e.fields["uid"], e.time))
        trace.listen("truth.killed", self._killed)

    def _written(self, event: Event) -> None:
        if event.fields["resource"] != "pods":
            return
        metadata = object_of(event).metadata
        if metadata.deletion_grace_period_seconds is not None:
            self._grace[metadata.uid] = float(metadata.deletion_grace_period_seconds)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == "pods":
            self._grace[object_of(event).metadata.uid] = 0.0

    def _renew(self, event: Event) -> None:
        self._sent[event.actor, event.fields["number"]] = event.time

    def _acknowledged(self, event: Event) -> None:
        sent = self._sent.pop((event.actor, event.fields["number"]), event.time)
        self._renewed[event.actor] = max(sent, self._renewed.get(event.actor, sent))

    def _killed(self, event: Event) -> None:
        uid = event.fields["uid"]
        if not event.fields["running"] or uid not in self._grace:
            return
        self.guarded += 1
        told = self._told.get(uid, event.time)
        after, grace = event.time - told, max(self._grace[uid], MINIMUM_GRACE_S)
        if after + 0.01 < grace and not self._taken(event.fields["node"], event.time):
            self.wrong(f"pod {uid} is killed {after:.1f} s after it was told to end, of {grace:.0f} s", event)

    def _taken(self, node: str, now: float) -> bool:
        """Whether volumes may have been taken from the node: it is silent, or was so until just now."""
        report = self._reports[node]
        silent_until = max(report.unknown_until, report.absent_until)
        if self._limit_s and now - self._renewed.get(node, now) >= self._limit_s:
            return True
        return node in self._dead or report.silent_since <= now or silent_until > now - 60.0


class EvictedForItsVolumes(Checker):
    """S40: a pod is ended as evicted only when it has put more into a volume than that may hold."""

    name = "S40"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._filled: set[str] = set()
        trace.listen("truth.filled", lambda event: self._filled.add(event.fields["uid"]))
        trace.listen("store.written", self._written)

    def _written(self, event: Event) -> None:
        if event.fields["resource"] != "pods":
            return
        pod = object_of(event)
        if pod.ended and pod.status.reason == "Evicted":
            self.guarded += 1
            if pod.metadata.uid not in self._filled:
                self.wrong(f"pod {event.fields['name']} is evicted, and nothing of it is too large", event)

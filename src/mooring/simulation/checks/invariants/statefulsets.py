"""Invariants of StatefulSets: the order in which their pods come and go."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from mooring.kube.objects import Pod, StatefulSet
from mooring.kube.percentages import portion
from mooring.kube.revisions import REVISION
from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.engine.trace import Event, Trace

SETS = "statefulsets.apps"
CONTROLLER = "statefulset-controller"
PROCESS = "placing"
"""Where it runs; its caches are late when this is struck."""
LATE_S = 5.0
"""So late a cache is at the most where no fault is in force."""

_pod = msgspec.json.Decoder(Pod).decode
_set = msgspec.json.Decoder(StatefulSet).decode


class _Member(NamedTuple):
    """A pod of a set. `since`, `until`: when it was ready last; `until` is inf while it is. `asked`: the life
    of a controller that has asked for its deletion."""

    pod: Pod
    set: str
    ordinal: int
    since: float
    until: float
    asked: str = ""


class InOrder(Checker):
    """S31: with OrderedReady, a StatefulSet's controller makes a pod only when those of all lower ordinals
    are available, and scales down one pod at a time, the highest first, while those that stay are available.
    No update takes an available pod while as many as maxUnavailable others are not, or, with OrderedReady,
    while any other has not been for long. A pod below the partition is made of the current revision, and is
    not taken by an update."""

    name = "S31"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._faults = Faults.of(trace)
        self._sets: dict[str, StatefulSet] = {}
        self._changed: dict[str, float] = {}  # when the set's limits changed last
        self._divided: dict[str, float] = {}  # when its partition, or its current revision, changed last
        self._members: dict[str, _Member] = {}
        self._orphans: dict[str, str] = {}  # uids of pods that no set owns: what adopts one has not made it
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("asked.write", self._asked)

    # --- what is there

    def _written(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource == SETS:
            new, old = _set(event.fields["_body"]), self._sets.get(name)
            if old is None or _limits(old) != _limits(new):
                self._changed[name] = event.time
            if old is None or _division(old) != _division(new):
                self._divided[name] = event.time
            self._sets[name] = new
        elif resource == "pods":
            self._note(name, _pod(event.fields["_body"]), event)

    def _deleted(self, event: Event) -> None:
        for known in (self._sets,) if event.fields["resource"] == SETS else (self._members, self._orphans):
            known.pop(event.fields["name"], None)

    def _note(self, name: str, pod: Pod, event: Event) -> None:
        owner, ordinal = pod.controller, pod.name.rpartition("-")[2]
        if owner is None or owner.kind != "StatefulSet" or not ordinal.isdecimal():
            self._members.pop(name, None)
            self._orphans[name] = pod.uid
            return
        before = self._members.get(name)
        if before is None or before.pod.uid != pod.uid:
            before = _Member(pod, f"{pod.namespace}/{owner.name}", int(ordinal), math.inf, -math.inf)
            if self._orphans.pop(name, "") != pod.uid:
                self._made(before, event)
        since, until = before.since, before.until
        if not _is_ready(pod):
            until = min(until, event.time)
        elif until != math.inf:
            since, until = event.time, math.inf
        self._members[name] = before._replace(pod=pod, since=since, until=until)

    def _members_of(self, name: str) -> dict[int, _Member]:
        return {each.ordinal: each for each in self._members.values() if each.set == name}

    def _unavailable(self, wanted: Iterable[int], name: str, now: float, asker: str = "") -> list[int]:
        """Those of these ordinals whose pods neither are available nor may be taken for that by a cache.
        What the controller has itself asked to be deleted it knows to go."""
        members, least = self._members_of(name), self._sets[name].spec.min_ready_seconds
        return [each for each in wanted if not self._is_available(members.get(each), least, now, asker)]

    def _is_available(self, member: _Member | None, least: float, now: float, asker: str) -> bool:
        if member is None or (asker and member.asked == asker):
            return False
        clocks = (PROCESS, member.pod.spec.node_name)
        early = LATE_S + sum(abs(self._faults.skew(part, 0.0)) for part in clocks)
        lasted = min(now, member.until) - member.since
        return now - member.until <= LATE_S and lasted >= max(least - early, 0.0)

    def _is_blind(self, event: Event) -> bool:
        return self._faults.disturbed((PROCESS,), event.time - LATE_S)

    # --- what is judged

    def _made(self, member: _Member, event: Event) -> None:
        owner = self._sets.get(member.set)
        if owner is None:
            return
        if self._is_kept(owner, member, event) and not _is_of(member.pod, owner.status.current_revision):
            self.wrong(f"{member.pod.name} is below the partition, and not of the current revision", event)
        if owner.spec.pod_management_policy != "OrderedReady":
            return
        lower = range(_first(owner), member.ordinal)
        self.guarded += bool(lower)
        waits = self._unavailable(lower, member.set, event.time)
        if waits and not self._is_blind(event):
            self.wrong(f"{member.pod.name} is made, and {owner.name}-{waits[0]} is not available", event)

    def _is_kept(self, owner: StatefulSet, member: _Member, event: Event) -> bool:
        """Whether the controller knows that an update leaves the pod of that ordinal as it is."""
        partition, current = _division(owner)
        since = event.time - self._divided[member.set]
        kept = member.ordinal < _first(owner) + partition and current != ""
        return kept and since > LATE_S and not self._is_blind(event)

    def _asked(self, event: Event) -> None:
        fields = event.fields
        if fields["method"] != "DELETE" or fields["resource"] != "pods":
            return
        member = self._members.get(fields["name"])
        if member is None or not fields["life"].endswith(f" {CONTROLLER}"):
            return
        owner = self._sets.get(member.set)
        if owner is not None and not (member.pod.finished or member.pod.deleting or self._is_blind(event)):
            wanted = range(_first(owner), _first(owner) + owner.spec.replicas)
            judge = self._updated if member.ordinal in wanted else self._scaled_down
            judge(owner, member, wanted, event)
        self._members[fields["name"]] = member._replace(asked=fields["life"])

    def _scaled_down(self, owner: StatefulSet, member: _Member, wanted: range, event: Event) -> None:
        if owner.spec.pod_management_policy != "OrderedReady":
            return
        if event.time - self._changed[member.set] <= LATE_S:
            return  # the controller may know the former size
        self.guarded += 1
        others = [each for each in self._members_of(member.set) if each not in wanted]
        if max(others) > member.ordinal:
            self.wrong(f"{member.pod.name} is scaled away before {owner.name}-{max(others)}", event)
        elif waits := self._unavailable(wanted, member.set, event.time, event.fields["life"]):
            self.wrong(
                f"{member.pod.name} is scaled away while {owner.name}-{waits[0]} is not available", event
            )

    def _updated(self, owner: StatefulSet, member: _Member, wanted: range, event: Event) -> None:
        if not _is_ready(member.pod) or event.time - member.since <= LATE_S:
            return  # that makes nothing worse, as far as a cache knows
        if self._is_kept(owner, member, event) and _is_of(member.pod, owner.status.current_revision):
            self.wrong(f"{member.pod.name} is replaced, and is below the partition", event)
            return
        _, most = _limits(owner)
        others = [each for each in wanted if each != member.ordinal]
        down = self._unavailable(others, member.set, event.time, event.fields["life"])
        self.guarded += 1
        if owner.spec.pod_management_policy == "OrderedReady":
            waits = self._unavailable(others, member.set, event.time)  # but for what goes at this moment
            if waits:
                self.wrong(
                    f"{member.pod.name} is replaced while {owner.name}-{waits[0]} is not available", event
                )
                return
        if len(down) >= most and event.time - self._changed[member.set] > LATE_S:
            self.wrong(
                f"{member.pod.name} is replaced while {len(down)} others are not available, of {most} at most",
                event,
            )


def _is_ready(pod: Pod) -> bool:
    ready = any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
    return ready and pod.status.phase == "Running" and not pod.deleting


def _limits(owner: StatefulSet) -> tuple[int, int]:
    """How many pods it should have, and how many of them an update may take at once."""
    given, replicas = owner.spec.update_strategy.rolling_update.max_unavailable, owner.spec.replicas
    return replicas, 1 if given is None else max(portion(given, replicas, up=False), 1)


def _division(owner: StatefulSet) -> tuple[int, str]:
    """How many of its first pods an update leaves as they are, and of which revision they are made."""
    return owner.spec.update_strategy.rolling_update.partition, owner.status.current_revision


def _is_of(pod: Pod, revision: str) -> bool:
    return pod.metadata.labels.get(REVISION) == revision


def _first(owner: StatefulSet) -> int:
    return owner.spec.ordinals.start if owner.spec.ordinals else 0

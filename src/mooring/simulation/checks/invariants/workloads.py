"""Invariants of Jobs and PodDisruptionBudgets: what is counted, and what is spent."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import msgspec

from mooring.kube.objects import Job, Pod, PodDisruptionBudget
from mooring.kube.selectors import label_selector_of
from mooring.kube.times import parse_time
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.engine.event_loop import START
from mooring.simulation.engine.trace import Event, Trace

JOBS = "jobs.batch"
BUDGETS = "poddisruptionbudgets.policy"
FORGOTTEN_S = 120.0
"""So long a budget remembers a pod that was evicted and has not gone."""

_pod = msgspec.json.Decoder(Pod).decode
_job = msgspec.json.Decoder(Job).decode
_budget = msgspec.json.Decoder(PodDisruptionBudget).decode


class CountedOnce(Checker):
    """S21: a Job's status counts no more successes than pods of it have succeeded, and no more failures than
    pods of it have failed or were deleted; and never more of its pods exist that have not ended than may run
    at once, with podReplacementPolicy Failed."""

    name = "S21"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._succeeded: defaultdict[str, set[str]] = defaultdict(set)  # uid of the job -> uids of its pods
        self._failed: defaultdict[str, set[str]] = defaultdict(set)
        self._running: defaultdict[str, set[str]] = defaultdict(set)
        self._most: dict[str, int] = {}
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == "pods":
            self._pod_written(_pod(event.fields["_body"]), event)
        elif event.fields["resource"] == JOBS:
            self._job_written(_job(event.fields["_body"]), event)

    def _pod_written(self, pod: Pod, event: Event) -> None:
        owner = pod.controller
        if owner is None or owner.kind != "Job":
            return
        job = owner.uid
        if pod.status.phase == "Succeeded":
            self._succeeded[job].add(pod.uid)
        elif pod.status.phase == "Failed" or pod.deleting:
            self._failed[job].add(pod.uid)
        new = pod.uid not in self._running[job] and not pod.finished
        (self._running[job].discard if pod.finished else self._running[job].add)(pod.uid)
        if new and len(self._running[job]) > self._most.get(job, len(self._running[job])):
            self.wrong(f"{pod.name} is made while {len(self._running[job]) - 1} of its Job may run", event)

    def _job_written(self, job: Job, event: Event) -> None:
        if job.spec.pod_replacement_policy == "Failed":
            self._most[job.uid] = job.spec.parallelism
        noted, status = job.status.uncounted_terminated_pods, job.status
        succeeded = status.succeeded + len(noted.succeeded)
        failed = status.failed + len(noted.failed)
        self.guarded += bool(succeeded or failed)
        if succeeded > len(self._succeeded[job.uid]) or failed > len(self._failed[job.uid]):
            seen = f"{len(self._succeeded[job.uid])} and {len(self._failed[job.uid])} pods"
            self.wrong(f"{job.name} counts {succeeded} successes and {failed} failures of {seen}", event)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == "pods":
            pod = _pod(event.fields["_body"])
            if pod.controller is not None:
                self._running[pod.controller.uid].discard(pod.uid)


class _Eviction(NamedTuple):
    """`uid`: of the pod that had the name then; "" if it was being deleted already."""

    when: str
    uid: str


class EvictionsAreRemembered(Checker):
    """S22: an eviction that was granted stays in the budget's status until the pod is being deleted or gone,
    is none of the budget's any more, or two minutes have passed."""

    name = "S22"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._spent: dict[str, dict[str, _Eviction]] = {}  # budget -> pod -> its eviction
        self._alive: dict[str, Pod] = {}  # by name: those that are not being deleted
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == "pods":
            pod = _pod(event.fields["_body"])
            if pod.deleting:
                self._alive.pop(_name(event), None)
            else:
                self._alive[_name(event)] = pod
        elif event.fields["resource"] == BUDGETS:
            self._budget_written(_budget(event.fields["_body"]), event)

    def _budget_written(self, budget: PodDisruptionBudget, event: Event) -> None:
        before = self._spent.get(budget.uid, {})
        now = {
            pod: before[pod] if pod in before and before[pod].when == when else self._evicted(pod, when)
            for pod, when in budget.status.disrupted_pods.items()
        }
        self._spent[budget.uid] = now
        self.guarded += bool(before)
        for pod, eviction in before.items():
            age = event.time - (parse_time(eviction.when) - START).total_seconds()
            if pod not in now and age < FORGOTTEN_S and self._is_of(budget, pod, eviction.uid):
                self.wrong(f"{budget.name} forgets after {age:.0f} s that {pod} was evicted", event)

    def _evicted(self, pod: str, when: str) -> _Eviction:
        return _Eviction(when, self._alive[pod].uid if pod in self._alive else "")

    def _is_of(self, budget: PodDisruptionBudget, name: str, uid: str) -> bool:
        """Whether it is the very pod still, and the budget's."""
        pod = self._alive.get(name)
        selector = label_selector_of(budget.spec.selector)
        return pod is not None and pod.uid == uid and selector.matches(pod.metadata.labels)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == "pods":
            self._alive.pop(_name(event), None)


def _name(event: Event) -> str:
    return event.fields["name"].rpartition("/")[2]

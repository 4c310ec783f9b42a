"""What to do about the pods of a job. Pure.

A pod's finalizer is removed only when the stored status has a note of how the pod ended, or when the pod is
given up: then it will not count, and it is deleted. Pods of a failed job are deleted once the status says
that it has failed.
Rules: upstream's job controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import Enum

import msgspec

from mooring.controllers.job.backoff import Backoff
from mooring.controllers.job.indexes import first_missing, index_of
from mooring.controllers.job.outcome import deadline_in, failure, target
from mooring.controllers.job.view import View, finished, tracked
from mooring.kube.decision import Decision
from mooring.kube.objects import Job, Pod
from mooring.kube.readiness import ready_since
from mooring.kube.reason import Reason

JOB_CONTROLLER = "kubernetes.io/job-controller"
MOST_AT_ONCE = 500
"""Pods created or given up in one step; the rest follows when their watch events come."""
_PHASES = {"Pending": 0, "Unknown": 1}


class Action(Enum):
    """What to do about one pod."""

    CREATE = "Create"
    DELETE = "Delete"
    UNTRACK = "Untrack"  # remove the tracking finalizer


class PodDecision(Decision[Action], frozen=True, gc=False):
    """`pod`: the one that is meant; None for CREATE, where `index` may name a completion index."""

    pod: Pod | None = None
    index: int | None = None


class Plan(msgspec.Struct, frozen=True, gc=False):
    """What to do, in this order, and in how many seconds to look again (None: when something changes)."""

    decisions: tuple[PodDecision, ...] = ()
    wait_s: float | None = None


_MISSING = Reason("TooFew", "there are fewer pods than wanted")
_COUNTED = Reason("Counted", "the job's status has a note of how it ended")
_OVER = Reason("JobOver", "the job has finished, or is being deleted")
_ENDED = Reason("JobEnds", "the job has met the criterion of its end")
_SURPLUS = Reason("TooMany", "there are more pods than wanted")
_GIVEN_UP = Reason("GivenUp", "it does not count any more, and still runs")
_SUSPENDED = Reason("Suspended", "the job is suspended")


def managed_here(job: Job) -> bool:
    """Whether the job is this controller's to manage."""
    return job.spec.managed_by in (None, JOB_CONTROLLER)


def decide(view: View, backoff: Backoff, now: datetime) -> Plan:
    """Returns what to do about the pods. `backoff`: with the failures that the view shows."""
    job = view.job
    if finished(job) or job.deleting:
        return Plan(tuple(_untrack(pod, _OVER) for pod in view.pods if tracked(pod)))
    kept = [_untrack(pod, _COUNTED) for pod in view.stored]
    kept += [_delete(pod, _GIVEN_UP) for pod in view.given_up]
    if target(job) is not None:
        return Plan((*kept, *(_delete(pod, _ENDED) for pod in view.active)))
    if failure(view, now) is not None:
        return Plan(tuple(kept))
    if job.spec.suspend:
        return Plan((*kept, *_give_up(view.active, _SUSPENDED)))
    waits = [deadline_in(job, now)]
    if surplus := _surplus(view)[:MOST_AT_ONCE]:
        kept += _give_up(surplus, _SURPLUS)
    elif (missing := min(_wanted(view) - _taken(view), MOST_AT_ONCE)) > 0:
        if (left := backoff.remaining(now)) > 0:
            waits.append(left)
        else:
            kept += _created(view, missing)
    return Plan(tuple(kept), min((each for each in waits if each is not None), default=None))


def _wanted(view: View) -> int:
    """How many pods should be active."""
    spec = view.job.spec
    if spec.completions is None:
        return len(view.active) if view.succeeded else spec.parallelism
    return max(min(spec.completions - view.succeeded, spec.parallelism), 0)


def _taken(view: View) -> int:
    """How many pods take the place of a new one: with the policy Failed also those that may still run."""
    return len(view.active) + (len(view.terminating) if view.only_failed_are_replaced else 0)


def _created(view: View, number: int) -> list[PodDecision]:
    if not view.indexed:
        return [PodDecision(Action.CREATE, _MISSING)] * number
    occupied = [*view.active, *(view.terminating if view.only_failed_are_replaced else ())]
    used = view.succeeded_indexes.union(index for pod in occupied if (index := index_of(pod)) is not None)
    missing = first_missing(used, view.job.spec.completions or 0, number)
    return [PodDecision(Action.CREATE, _MISSING, index=index) for index in missing]


def _surplus(view: View) -> list[Pod]:
    """The pods to give up: of an index that is none of the job's or that another pod has, then those that can
    be spared most easily."""
    kept, surplus = _one_for_each_index(view) if view.indexed else (list(view.active), [])
    number = len(view.active) - _wanted(view) - len(surplus)
    return [*surplus, *_least_needed(kept)[: max(number, 0)]]


def _one_for_each_index(view: View) -> tuple[list[Pod], list[Pod]]:
    kept: dict[int, Pod] = {}
    surplus: list[Pod] = []
    for pod in reversed(_least_needed(view.active)):
        index = index_of(pod)
        if index is None or index in kept or not view.valid(pod) or index in view.succeeded_indexes:
            surplus.append(pod)
        else:
            kept[index] = pod
    return list(kept.values()), surplus


def _least_needed(pods: Sequence[Pod]) -> list[Pod]:
    """The pods in the order in which they are given up: not placed, not running, not ready, young."""
    newest_first = sorted(
        pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.name), reverse=True
    )
    return sorted(newest_first, key=_need)


def _need(pod: Pod) -> tuple[bool, int, bool]:
    return bool(pod.spec.node_name), _PHASES.get(pod.status.phase, 2), ready_since(pod) is not None


def _give_up(pods: Sequence[Pod], reason: Reason) -> list[PodDecision]:
    return [each for pod in pods for each in (_untrack(pod, reason), _delete(pod, reason))]


def _untrack(pod: Pod, reason: Reason) -> PodDecision:
    return PodDecision(Action.UNTRACK, reason, pod)


def _delete(pod: Pod, reason: Reason) -> PodDecision:
    return PodDecision(Action.DELETE, reason, pod)

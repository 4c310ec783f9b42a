"""The status of a job. Pure.

Of the pods that the stored status notes, those whose finalizer is gone are added to the counters; those that
have ended since are noted. Both are one write, which must be refused if the job was written meanwhile: then
no pod is counted twice.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from mooring.controllers.job.indexes import index_of, text_of
from mooring.controllers.job.outcome import (
    ENDS,
    REACHED,
    RESUMED,
    SUSPENDED,
    failure,
    succeeded,
    target,
    with_condition,
)
from mooring.controllers.job.view import View, finished, tracked
from mooring.kube.objects import JobStatus, Pod, UncountedTerminatedPods
from mooring.kube.readiness import ready_since
from mooring.kube.reason import Reason
from mooring.kube.times import format_time

MOST_UNCOUNTED = 500
"""Uids noted at once, so that the status stays small; the rest follows."""

replace = msgspec.structs.replace


def next_status(view: View, now: datetime) -> JobStatus:
    """Returns the status that should be stored now."""
    job = view.job
    if finished(job) or job.deleting:
        return job.status
    status = _counted(view)
    ready = sum(ready_since(pod) is not None for pod in view.active)
    status = replace(status, active=len(view.active), ready=ready, terminating=len(view.terminating))
    if status.start_time is None and not job.spec.suspend:
        status = replace(status, start_time=format_time(now))
    if target(job) is not None:
        return _ended(view, status, now)
    if (reason := failure(view, now)) is not None:
        return replace(
            status, conditions=with_condition(status.conditions, "FailureTarget", "True", reason, now)
        )
    if succeeded(view):
        return replace(
            status, conditions=with_condition(status.conditions, "SuccessCriteriaMet", "True", REACHED, now)
        )
    return _suspended(view, status, now)


def _counted(view: View) -> JobStatus:
    status = view.job.status
    waiting = {pod.uid for pod in view.pods if tracked(pod)}
    held = status.uncounted_terminated_pods
    room = MOST_UNCOUNTED - len(held.succeeded) - len(held.failed)
    new_failed = [pod.uid for pod in view.newly_failed[: max(room, 0)]]
    succeeded = [] if view.indexed else view.newly_succeeded[: max(room - len(new_failed), 0)]
    still_succeeded = tuple(uid for uid in held.succeeded if uid in waiting)
    still_failed = tuple(uid for uid in held.failed if uid in waiting)
    noted = UncountedTerminatedPods(
        succeeded=(*still_succeeded, *(pod.uid for pod in succeeded)), failed=(*still_failed, *new_failed)
    )
    status = replace(
        status,
        uncounted_terminated_pods=noted,
        succeeded=status.succeeded + len(held.succeeded) - len(still_succeeded),
        failed=status.failed + len(held.failed) - len(still_failed),
    )
    return _with_indexes(view, status) if view.indexed else status


def _with_indexes(view: View, status: JobStatus) -> JobStatus:
    """Indexes are noted as such: one that succeeds twice is one."""
    indexes = {
        index for pod in _noted_by_index(view) if (index := index_of(pod)) is not None
    } | view.completed
    return replace(status, completed_indexes=text_of(indexes), succeeded=len(indexes))


def _noted_by_index(view: View) -> list[Pod]:
    return view.newly_succeeded[:MOST_UNCOUNTED]


def _ended(view: View, status: JobStatus, now: datetime) -> JobStatus:
    """With the end, when every pod has ended and is counted."""
    criterion = target(view.job)
    assert criterion is not None
    noted = status.uncounted_terminated_pods
    if noted.succeeded or noted.failed or any(tracked(pod) or not pod.finished for pod in view.pods):
        return status
    end = ENDS[criterion.type]
    reason = Reason(criterion.reason, criterion.message)
    status = replace(status, conditions=with_condition(status.conditions, end, "True", reason, now))
    return replace(status, completion_time=format_time(now)) if end == "Complete" else status


def _suspended(view: View, status: JobStatus, now: datetime) -> JobStatus:
    """A job that is resumed starts anew: its deadline does not run while it is suspended."""
    suspend = view.job.spec.suspend
    reason = SUSPENDED if suspend else RESUMED
    conditions = with_condition(status.conditions, "Suspended", str(suspend), reason, now)
    if conditions == status.conditions:
        return status
    return replace(status, conditions=conditions, start_time=None if suspend else format_time(now))


def patch_of(status: JobStatus) -> dict[str, Any]:
    """The status as a merge patch: what it lacks is removed."""
    body: dict[str, Any] = msgspec.to_builtins(status)
    uncounted: dict[str, Any] = body.get("uncountedTerminatedPods") or {}
    body["uncountedTerminatedPods"] = {each: uncounted.get(each) for each in ("succeeded", "failed")}
    numbers = {each: body.get(each, 0) for each in ("active", "ready", "terminating", "succeeded", "failed")}
    texts = {each: body.get(each) for each in ("startTime", "completionTime", "completedIndexes")}
    return {**body, **numbers, **texts}

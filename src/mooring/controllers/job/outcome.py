"""Whether a job has failed or succeeded, and how its status says so. Pure.

First the criterion (FailureTarget, SuccessCriteriaMet), on which pods are deleted; then, when no pod runs and
all are counted, the end (Failed, Complete). Reasons and messages: upstream's job controller.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from mooring.controllers.job.view import View, condition_of
from mooring.kube.objects import Job, JobCondition
from mooring.kube.reason import Reason
from mooring.kube.times import format_time, parse_time

BACKOFF_LIMIT = Reason("BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE = Reason("DeadlineExceeded", "Job was active longer than specified deadline")
REACHED = Reason("CompletionsReached", "Reached expected number of succeeded pods")
SUSPENDED = Reason("JobSuspended", "Job suspended")
RESUMED = Reason("JobResumed", "Job resumed")
ENDS = {"FailureTarget": "Failed", "SuccessCriteriaMet": "Complete"}
"""The criterion -> the end that it leads to."""


def target(job: Job) -> JobCondition | None:
    """The criterion that is stored: the job only waits for its pods to end."""
    return condition_of(job, *ENDS)


def failure(view: View, now: datetime) -> Reason | None:
    """Why the job fails; None if it does not."""
    if view.failures > view.job.spec.backoff_limit or _too_many_restarts(view):
        return BACKOFF_LIMIT
    left = deadline_in(view.job, now)
    return DEADLINE if left is not None and left <= 0 else None


def _too_many_restarts(view: View) -> bool:
    """With OnFailure, the restarts of containers are the retries."""
    spec = view.job.spec
    template: dict[str, Any] = spec.template.get("spec") or {}
    if template.get("restartPolicy") != "OnFailure":
        return False
    alive = (pod for pod in view.pods if pod.status.phase in ("Running", "Pending"))
    restarts = sum(
        status.restart_count
        for pod in alive
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    return restarts >= max(spec.backoff_limit, 1)


def deadline_in(job: Job, now: datetime) -> float | None:
    """Seconds until activeDeadlineSeconds have passed; None if they do not pass."""
    limit = job.spec.active_deadline_seconds
    if limit is None or job.spec.suspend or job.status.start_time is None:
        return None
    return _left(limit, job.status.start_time, now)


def succeeded(view: View) -> bool:
    """Whether the job has succeeded as often as it should, and no pod of it counts any more."""
    completions = view.job.spec.completions
    enough = view.succeeded > 0 if completions is None else view.succeeded >= completions
    return enough and not view.active


def expires_in(job: Job, now: datetime) -> float | None:
    """Seconds until a finished job is deleted; None if it stays."""
    ttl, end = job.spec.ttl_seconds_after_finished, condition_of(job, "Complete", "Failed")
    if ttl is None or end is None or end.last_transition_time is None or job.deleting:
        return None
    return _left(ttl, end.last_transition_time, now)


def _left(seconds: int, since: str, now: datetime) -> float:
    """Counted in seconds: the moment itself may be none that a date can say."""
    return seconds - (now - parse_time(since)).total_seconds()


def with_condition(
    conditions: Iterable[JobCondition], kind: str, status: str, reason: Reason, now: datetime
) -> tuple[JobCondition, ...]:
    """The conditions with this one. One that is missing is not added to say False."""
    held = tuple(conditions)
    old = next((each for each in held if each.type == kind), None)
    stamp = format_time(now)
    new = JobCondition(
        type=kind,
        status=status,
        reason=reason.code,
        message=reason.message,
        last_probe_time=stamp,
        last_transition_time=stamp,
    )
    if old is None:
        return held if status == "False" else (*held, new)
    if (old.status, old.reason, old.message) == (status, *reason):
        return held
    return tuple(new if each is old else each for each in held)

"""The group batch: Jobs."""

from __future__ import annotations

from typing import Any

from mooring.kube.objects.meta import LabelSelector, Object, Resource, Struct


class JobSpec(Struct, frozen=True):
    """`completions` None: any success ends the job. Times in seconds."""

    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    pod_replacement_policy: str = "TerminatingOrFailed"
    managed_by: str | None = None
    selector: LabelSelector | None = None
    template: dict[str, Any] = {}


class UncountedTerminatedPods(Struct, frozen=True):
    """The uids of pods that have ended and that the counters do not contain yet."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobCondition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None


class JobStatus(Struct, frozen=True):
    """`completed_indexes`: the indexes that have succeeded, such as "0,2-5"."""

    conditions: tuple[JobCondition, ...] = ()
    start_time: str | None = None
    completion_time: str | None = None
    active: int = 0
    ready: int = 0
    terminating: int = 0
    succeeded: int = 0
    failed: int = 0
    completed_indexes: str = ""
    uncounted_terminated_pods: UncountedTerminatedPods = UncountedTerminatedPods()


class Job(Object, frozen=True):
    RESOURCE = Resource("batch", "v1", "jobs", "Job")
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

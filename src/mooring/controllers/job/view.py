"""What the pods of a job are at one moment, beside what its stored status says of them. Pure.

A pod is counted in steps, so that a controller that ends between any two writes counts it exactly once: its
uid is noted in `status.uncountedTerminatedPods` (an index in `completedIndexes`), then its tracking finalizer
is removed, then the note becomes a number of the counter. A pod with the finalizer and without a note is not
counted yet; one without the finalizer is counted, or was given up.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from mooring.controllers.job.indexes import index_of, parse
from mooring.kube.objects import Job, JobCondition, Pod

TRACKING = "batch.kubernetes.io/job-tracking"
"""The finalizer that keeps an ended pod until it is counted."""


def tracked(pod: Pod) -> bool:
    """Whether the pod has the tracking finalizer."""
    return TRACKING in pod.metadata.finalizers


def condition_of(job: Job, *kinds: str) -> JobCondition | None:
    """The condition of one of these types that is True."""
    return next(
        (each for each in job.status.conditions if each.type in kinds and each.status == "True"), None
    )


def finished(job: Job) -> bool:
    """Whether the job is Complete or Failed: nothing changes any more."""
    return condition_of(job, "Complete", "Failed") is not None


class View:
    """`pods`: those that the job owns."""

    def __init__(self, job: Job, pods: Sequence[Pod]) -> None:
        self.job = job
        self.pods = pods
        self.indexed = job.spec.completion_mode == "Indexed"
        self.only_failed_are_replaced = job.spec.pod_replacement_policy == "Failed"
        uncounted = job.status.uncounted_terminated_pods
        self.noted = frozenset((*uncounted.succeeded, *uncounted.failed))
        self.completed = (
            parse(job.status.completed_indexes, job.spec.completions or 0)
            if self.indexed
            else frozenset[int]()
        )

    @cached_property
    def active(self) -> list[Pod]:
        """Pods that have not ended, are not being deleted, and count."""
        return [pod for pod in self.pods if not pod.finished and not pod.deleting and tracked(pod)]

    @cached_property
    def given_up(self) -> list[Pod]:
        """Pods whose finalizer was removed so that they do not count, and that are not deleted yet."""
        return [pod for pod in self.pods if not pod.finished and not pod.deleting and not tracked(pod)]

    @cached_property
    def terminating(self) -> list[Pod]:
        """Pods that are being deleted and may still run."""
        return [pod for pod in self.pods if pod.deleting and not pod.finished]

    def failed(self, pod: Pod) -> bool:
        """Whether the pod counts as a failure: unless the policy is Failed, also one that is deleted."""
        if pod.status.phase == "Failed":
            return True
        return not self.only_failed_are_replaced and pod.deleting and pod.status.phase != "Succeeded"

    def valid(self, pod: Pod) -> bool:
        """Whether the pod can count at all: in an Indexed job it has one of the job's indexes."""
        if not self.indexed:
            return True
        index = index_of(pod)
        return index is not None and index < (self.job.spec.completions or 0)

    @cached_property
    def newly_succeeded(self) -> list[Pod]:
        """Pods that have succeeded and of which no note is stored yet."""
        return [
            pod
            for pod in self._to_note
            if pod.status.phase == "Succeeded" and not (self.indexed and index_of(pod) in self.completed)
        ]

    @cached_property
    def newly_failed(self) -> list[Pod]:
        """Pods that have failed and of which no note is stored yet."""
        return [pod for pod in self._to_note if self.failed(pod)]

    @cached_property
    def _to_note(self) -> list[Pod]:
        return [pod for pod in self.pods if tracked(pod) and pod.uid not in self.noted and self.valid(pod)]

    @cached_property
    def stored(self) -> list[Pod]:
        """Pods that have ended and of which nothing is left to note: their finalizer can go."""
        new = {pod.uid for pod in (*self.newly_succeeded, *self.newly_failed)}
        ended = (pod for pod in self.pods if pod.status.phase == "Succeeded" or self.failed(pod))
        return [pod for pod in ended if tracked(pod) and pod.uid not in new]

    @cached_property
    def succeeded_indexes(self) -> frozenset[int]:
        """The indexes that have succeeded, noted or not."""
        return self.completed.union(
            index for pod in self.newly_succeeded if (index := index_of(pod)) is not None
        )

    @cached_property
    def succeeded(self) -> int:
        """How often the job has succeeded, noted or not."""
        if self.indexed:
            return len(self.succeeded_indexes)
        status = self.job.status
        noted = len(status.uncounted_terminated_pods.succeeded)
        return status.succeeded + noted + len(self.newly_succeeded)

    @cached_property
    def failures(self) -> int:
        """How many of its pods have failed, noted or not."""
        status = self.job.status
        return status.failed + len(status.uncounted_terminated_pods.failed) + len(self.newly_failed)

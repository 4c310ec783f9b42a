"""The Job controller. A key is a Job, or a pod that a Job has left behind.

Each step reads the job live, then its pods, and writes the job's status with the version that it read. So a
stale cache counts no pod twice: a pod that has its tracking finalizer after the job was read is in no counter
of that job.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, groupby
from random import Random
from typing import NamedTuple, assert_never

from mooring.controllers.job.backoff import Backoff
from mooring.controllers.job.decide import Action, PodDecision, decide, managed_here
from mooring.controllers.job.outcome import expires_in
from mooring.controllers.job.pod_body import pod_body, pod_name
from mooring.controllers.job.status import next_status, patch_of
from mooring.controllers.job.view import TRACKING, View, condition_of, finished, tracked
from mooring.kube.adoption import Adopter, orphaned_in
from mooring.kube.batches import one_by_one
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import AlreadyExists, ApiError, NotFound
from mooring.kube.informer import Indexer
from mooring.kube.objects import Job, JobStatus, Pod
from mooring.kube.owners import controller_uid
from mooring.kube.readiness import ready_since
from mooring.kube.selectors import label_selector_of
from mooring.kube.times import Now


class Key(NamedTuple):
    """`kind`: Job, or Pod for one that no Job owns and that has the tracking finalizer."""

    kind: str
    key: str


class JobController(Controller[Key]):
    """Upstream's job controller, and its ttl-after-finished controller."""

    name = "job-controller"

    def __init__(self, client: Client, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._jobs = self.watch(
            Job, lambda job: [Key("Job", job.key)], indexers={"namespace": lambda job: [job.namespace]}
        )
        indexers: dict[str, Indexer[Pod]] = {"owner": controller_uid, "orphan": orphaned_in, "job": _job_of}
        self._pods = self.watch(Pod, self._touched, matters=_counts, indexers=indexers)
        self._adopter = Adopter(client, self._pods, TRACKING)
        self._backoffs: dict[str, Backoff] = {}  # by the uid of the job
        self._jobs.add_handler(self._forget)

    async def reconcile(self, key: Key) -> None:
        """Takes one job a step further, or lets a pod go that is no job's."""
        if key.kind == "Pod":
            await self._let_go(self._pods.get(key.key))
            return
        namespace, _, name = key.key.partition("/")
        if self._jobs.get(key.key) is None and not self._pods.by_index("job", key.key):
            return
        job = await self.client.find(Job, name, namespace)
        await one_by_one((self._let_others_go, self._take_further), lambda part: part(key, job))

    async def _take_further(self, _: Key, job: Job | None) -> None:
        if job is None:
            return
        if finished(job):
            await self._expire(job)
        if managed_here(job):
            await self._step(job)

    async def _step(self, job: Job) -> None:
        pods = {pod.uid: pod for pod in await self._owned(job)}
        view = View(job, list(pods.values()))
        backoff = self._backoff(view)
        plan = decide(view, backoff, self.now())
        if plan.wait_s is not None:
            self.look_again(Key("Job", job.key), plan.wait_s)
        try:
            await one_by_one(_by_pod(plan.decisions), lambda each: self._carry_out_all(job, each, pods))
        finally:
            await self._update_status(View(job, list(pods.values())), backoff)

    async def _owned(self, job: Job) -> list[Pod]:
        """The job's pods, read live, after adoption."""
        selector = label_selector_of(job.spec.selector)
        live = (await self.client.list(Pod, job.namespace, label_selector=str(selector))).items
        cached = self._pods.by_index("owner", job.uid)
        unmatched = [pod for pod in cached if not selector.matches(pod.metadata.labels)]
        if finished(job):
            return [pod for pod in live if pod.controller is not None and pod.controller.uid == job.uid]
        return await self._adopter.settle(job, selector, [*live, *unmatched])

    def _backoff(self, view: View) -> Backoff:
        held = self._backoffs.get(view.job.uid)
        if held is not None:
            found = held.after(view.newly_succeeded, view.newly_failed)
        else:
            ended = [pod for pod in view.pods if pod.status.phase == "Succeeded"]
            found = Backoff().after(ended, (pod for pod in view.pods if view.failed(pod)))
        return found.seen_at(self.now())

    async def _carry_out_all(self, job: Job, decisions: Sequence[PodDecision], pods: dict[str, Pod]) -> None:
        for decision in decisions:
            await self._carry_out(job, decision, pods)

    async def _carry_out(self, job: Job, decision: PodDecision, pods: dict[str, Pod]) -> None:
        pod = decision.pod
        match decision.action:
            case Action.CREATE:
                pod = await self._create(job, decision.index, pods)
                pods[pod.uid] = pod
            case Action.DELETE:
                assert pod is not None, f"{decision.action} without a pod"
                await self._delete(job, pod)
                await self._see_again(pod, pods)
            case Action.UNTRACK:
                assert pod is not None, f"{decision.action} without a pod"
                await self._untrack(pod)
                await self._see_again(pod, pods)
            case _:
                assert_never(decision.action)

    async def _see_again(self, pod: Pod, pods: dict[str, Pod]) -> None:
        found = await self.client.find(Pod, pod.name, pod.namespace)
        if found is None or found.uid != pod.uid:
            del pods[pod.uid]
        else:
            pods[pod.uid] = found

    async def _create(self, job: Job, index: int | None, pods: dict[str, Pod]) -> Pod:
        """Creates the pod of the next attempt. Its name depends on what job and pods say, so that
        a request without an answer, or one that arrives twice, makes no second pod."""
        view = View(job, list(pods.values()))
        used = {pod.name for pod in pods.values()}
        names = (pod_name(job, index, attempt) for attempt in count(view.succeeded + view.failures))
        for name in (each for each in names if each not in used):
            try:
                return await self._create_named(job, index, name)
            except AlreadyExists:
                found = await self.client.find(Pod, name, job.namespace)
                if found is None or (found.controller is not None and found.controller.uid == job.uid):
                    raise  # this very attempt: the next step sees it
        raise AssertionError("there is always a further name")

    async def _create_named(self, job: Job, index: int | None, name: str) -> Pod:
        try:
            created = await self.client.create(Pod, pod_body(job, index, name), job.namespace)
        except AlreadyExists:
            raise
        except ApiError as error:
            self.recorder.event(job, "Warning", "FailedCreate", f"Error creating: {error}")
            raise
        self._pods.accept(created)
        self.recorder.event(job, "Normal", "SuccessfulCreate", f"Created pod: {created.name}")
        return created

    async def _delete(self, job: Job, pod: Pod) -> None:
        try:
            await self.client.delete(Pod, pod.name, pod.namespace, uid=pod.uid)
        except NotFound:
            return
        except ApiError as error:
            self.recorder.event(job, "Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        self.recorder.event(job, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")

    async def _untrack(self, pod: Pod) -> None:
        finalizers = [each for each in pod.metadata.finalizers if each != TRACKING]
        try:
            self._pods.accept(await self.client.revise(pod, {"metadata": {"finalizers": finalizers}}))
        except NotFound:
            self.log.debug("pod is gone", pod=pod.key)

    async def _update_status(self, view: View, backoff: Backoff) -> None:
        job, wanted = view.job, next_status(view, self.now())
        if wanted != job.status:
            body = {"status": patch_of(wanted)}
            written = await self.client.revise(job, body, subresource="status")
            self._jobs.accept(written)
            self._tell(job, wanted)
        known = self._jobs.get(job.key)
        if finished(job) or known is None or known.uid != job.uid:
            self._backoffs.pop(job.uid, None)
        else:
            self._backoffs[job.uid] = backoff

    def _forget(self, old: Job | None, new: Job | None) -> None:
        if old is not None and new is None:
            self._backoffs.pop(old.uid, None)

    def _tell(self, job: Job, wanted: JobStatus) -> None:
        """Records what of the status is news, with upstream's reasons."""
        before = {each.type: each.status for each in job.status.conditions}
        for each in wanted.conditions:
            if before.get(each.type) == each.status:
                continue
            if each.type == "Suspended":
                reason = "Suspended" if each.status == "True" else "Resumed"
                self.recorder.event(job, "Normal", reason, each.message)
            elif each.type == "Complete":
                self._tell_complete(job, wanted)
            elif each.type == "Failed":
                self.recorder.event(job, "Warning", each.reason, each.message)

    def _tell_complete(self, job: Job, wanted: JobStatus) -> None:
        if job.spec.completions is not None and wanted.succeeded > job.spec.completions:
            message = "Too many succeeded pods running after completion count reached"
            self.recorder.event(job, "Warning", "TooManySucceededPods", message)
        self.recorder.event(job, "Normal", "Completed", "Job completed")

    async def _expire(self, job: Job) -> None:
        """Deletes a finished job, which was just read, when its time has come."""
        left = expires_in(job, self.now())
        if left is None:
            return
        if left > 0:
            self.look_again(Key("Job", job.key), left)
            return
        await self.client.delete(
            Job,
            job.name,
            job.namespace,
            uid=job.uid,
            resource_version=job.metadata.resource_version,
            propagation_policy="Foreground",
        )
        self.log.info("deleted a finished job", job=job.key, ttl_s=job.spec.ttl_seconds_after_finished)

    async def _let_others_go(self, key: Key, job: Job | None) -> None:
        """Pods of a job of this name that is gone are kept by nothing, and keep nothing of its successor."""
        others = [
            pod
            for pod in self._pods.by_index("job", key.key)
            if pod.controller is not None and (job is None or pod.controller.uid != job.uid) and tracked(pod)
        ]
        await one_by_one(others, self._untrack)

    async def _let_go(self, pod: Pod | None) -> None:
        """A tracked pod that was orphaned, and that no job adopts."""
        if pod is None or pod.controller is not None or not tracked(pod) or self._candidates(pod):
            return
        await self._untrack(pod)

    def _candidates(self, pod: Pod) -> Sequence[Job]:
        """The jobs that may adopt the pod."""
        jobs = self._jobs.by_index("namespace", pod.namespace)
        labels = pod.metadata.labels
        return [
            each
            for each in jobs
            if not each.deleting
            and condition_of(each, "Complete", "Failed") is None
            and label_selector_of(each.spec.selector).matches(labels)
        ]

    def _touched(self, pod: Pod) -> list[Key]:
        if pod.controller is not None:
            return [Key("Job", each) for each in _job_of(pod)]
        lost = [Key("Pod", pod.key)] if tracked(pod) else []
        return [*lost, *(Key("Job", each.key) for each in self._candidates(pod))]


def _by_pod(decisions: Sequence[PodDecision]) -> list[list[PodDecision]]:
    """What is refused of one pod keeps no other waiting, and the rest of its own. Creations are all alike."""
    groups = groupby(decisions, lambda each: each.pod.uid if each.pod is not None else "")
    return [list(group) for _, group in groups]


def _job_of(pod: Pod) -> list[str]:
    """For an index: the key of the Job that owns the pod."""
    owner = pod.controller
    return [f"{pod.namespace}/{owner.name}"] if owner is not None and owner.kind == Job.RESOURCE.kind else []


def _counts(pod: Pod) -> object:
    """What of a pod a job depends on."""
    restarts = sum(
        each.restart_count for each in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    metadata = pod.metadata
    about = (metadata.labels, metadata.owner_references, metadata.finalizers, pod.deleting)
    return about, pod.status.phase, ready_since(pod) is not None, restarts

"""The StatefulSet controller. A key is a StatefulSet.

Creates claims before the pod that uses them; waits for a pod's object to be gone before its identity is given anew.
"""

from __future__ import annotations

from random import Random
from typing import Any

from mooring.controllers.statefulset.decide import REVISION, Act, Step, decide, healthy, ordinal_of
from mooring.controllers.statefulset.pods import claim_bodies, pod_body, revision_body, revision_name
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import AlreadyExists, ApiError
from mooring.kube.objects import ControllerRevision, PersistentVolumeClaim, Pod, StatefulSet
from mooring.kube.times import Now


class StatefulSetController(Controller):
    """Upstream's statefulset controller: identity first, availability second."""

    name = "statefulset-controller"

    def __init__(self, client: Client, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._sets = self.watch(StatefulSet, lambda stateful_set: [stateful_set.key])
        self._pods = self.watch(Pod, _owners, indexers={"owner": _owner_uids})
        self._claims = self.watch(PersistentVolumeClaim)
        self._revisions = self.watch(ControllerRevision, indexers={"owner": _owner_uids})

    async def reconcile(self, key: str) -> None:
        """Takes one set a step further."""
        stateful_set = self._sets.get(key)
        if stateful_set is None:
            return
        revision = await self._revision(stateful_set)
        pods = self._pods_of(stateful_set)
        for step in decide(stateful_set, pods, revision):
            self.log.info(step.act.value, set=key, ordinal=step.ordinal, reason=step.reason.message)
            await self._take(stateful_set, step, pods, revision)
        await self._update_status(stateful_set, revision)

    def _pods_of(self, stateful_set: StatefulSet) -> dict[int, Pod]:
        pods = {ordinal_of(stateful_set, pod): pod for pod in self._pods.by_index("owner", stateful_set.uid)}
        return {ordinal: pod for ordinal, pod in pods.items() if ordinal is not None}

    async def _revision(self, stateful_set: StatefulSet) -> str:
        name = revision_name(stateful_set)
        if self._revisions.get(f"{stateful_set.namespace}/{name}") is None and not stateful_set.deleting:
            held = self._revisions.by_index("owner", stateful_set.uid)
            number = 1 + max((each.revision for each in held), default=0)
            try:
                body = revision_body(stateful_set, number)
                self._revisions.accept(await self.client.create(ControllerRevision, body, stateful_set.namespace))
            except AlreadyExists:
                self.log.debug("revision exists", revision=name)
        return name

    async def _take(self, stateful_set: StatefulSet, step: Step, pods: dict[int, Pod], revision: str) -> None:
        try:
            if step.act is Act.CREATE:
                await self._create(stateful_set, step.ordinal, revision)
            else:
                pod = pods[step.ordinal]
                await self.client.delete(Pod, pod.name, pod.namespace, uid=pod.uid)
                self.recorder.event(
                    stateful_set, "Normal", "SuccessfulDelete", f"delete Pod {pod.name}: {step.reason.message}"
                )
        except ApiError as error:
            what = f"{step.act.value.lower()} Pod {stateful_set.name}-{step.ordinal}"
            self.recorder.event(stateful_set, "Warning", f"Failed{step.act.value}", f"{what} failed: {error}")
            raise

    async def _create(self, stateful_set: StatefulSet, ordinal: int, revision: str) -> None:
        for body in claim_bodies(stateful_set, ordinal):
            await self._ensure_claim(stateful_set, body)
        try:
            created = await self.client.create(Pod, pod_body(stateful_set, ordinal, revision), stateful_set.namespace)
        except AlreadyExists:
            # The cache is late, or somebody else's pod has the name: its change brings us back.
            self.queue.add_after(stateful_set.key, 1.0)
            return
        self._pods.accept(created)
        message = f"create Pod {created.name} in StatefulSet {stateful_set.name} successful"
        self.recorder.event(stateful_set, "Normal", "SuccessfulCreate", message)

    async def _ensure_claim(self, stateful_set: StatefulSet, body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        if self._claims.get(f"{stateful_set.namespace}/{name}") is not None:
            return
        try:
            created = await self.client.create(PersistentVolumeClaim, body, stateful_set.namespace)
        except AlreadyExists:
            return
        self._claims.accept(created)
        self.recorder.event(stateful_set, "Normal", "SuccessfulCreate", f"create Claim {name} successful")

    async def _update_status(self, stateful_set: StatefulSet, revision: str) -> None:
        pods = list(self._pods_of(stateful_set).values())
        updated = sum(pod.metadata.labels.get(REVISION) == revision for pod in pods)
        ready = sum(healthy(pod) for pod in pods)
        done = updated == len(pods) == stateful_set.spec.replicas
        current = revision if done or not stateful_set.status.current_revision else stateful_set.status.current_revision
        wanted: dict[str, Any] = {
            "observedGeneration": stateful_set.metadata.generation,
            "replicas": len(pods),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "currentReplicas": sum(pod.metadata.labels.get(REVISION) == current for pod in pods),
            "updatedReplicas": updated,
            "currentRevision": current,
            "updateRevision": revision,
            "collisionCount": 0,
        }
        status = stateful_set.status
        held = {
            "observedGeneration": status.observed_generation,
            "replicas": status.replicas,
            "readyReplicas": status.ready_replicas,
            "availableReplicas": status.available_replicas,
            "currentReplicas": status.current_replicas,
            "updatedReplicas": status.updated_replicas,
            "currentRevision": status.current_revision,
            "updateRevision": status.update_revision,
            "collisionCount": status.collision_count,
        }
        if wanted != held:
            answer = await self.client.revise(stateful_set, {"status": wanted}, subresource="status", any_version=True)
            self._sets.accept(answer)


def _owners(pod: Pod) -> list[str]:
    owner = pod.controller
    return [f"{pod.namespace}/{owner.name}"] if owner is not None and owner.kind == "StatefulSet" else []


def _owner_uids(owned: Pod | ControllerRevision) -> list[str]:
    owner = owned.controller
    return [owner.uid] if owner is not None else []

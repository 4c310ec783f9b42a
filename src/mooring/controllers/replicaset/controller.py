"""The controllers of ReplicaSets and ReplicationControllers. A key is one of these objects."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar, assert_never

from mooring.controllers.replicaset.decide import Action, Owner, PodDecision, counts, decide, selector_of
from mooring.controllers.replicaset.short_lived import ShortLived
from mooring.kube.adoption import Adopter, orphaned_in
from mooring.kube.batches import one_by_one
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import ApiError
from mooring.kube.objects import Pod, ReplicaSet, ReplicationController
from mooring.kube.owners import controller_uid, owner_reference
from mooring.kube.readiness import available_at
from mooring.kube.times import Now


class ReplicaSetController(Controller[str]):
    """Upstream's replicaset controller."""

    name = "replicaset-controller"
    kind: ClassVar[type[Owner]] = ReplicaSet

    def __init__(self, client: Client, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._owners = self.watch(self.kind, lambda owner: [owner.key], indexers={"namespace": _namespace})
        self._pods = self.watch(Pod, self._touched, indexers={"owner": controller_uid, "orphan": orphaned_in})
        self._adopter = Adopter(client, self._pods)
        self._short_lived = ShortLived()

    async def reconcile(self, key: str) -> None:
        """Adopts, releases, creates and deletes pods, then updates the status."""
        owner = self._owners.get(key)
        if owner is None:
            self._short_lived.forget(key)
            return
        pods = (*self._pods.by_index("owner", owner.uid), *self._pods.by_index("orphan", owner.namespace))
        try:
            await self._adopter.settle(owner, selector_of(owner), filter(counts, pods))
            # As they are now: to adopt takes time.
            ours = [pod for pod in self._pods.by_index("owner", owner.uid) if counts(pod)]
            self._short_lived.look(key, ours, asyncio.get_running_loop().time())
            await self._carry_out(owner, decide(owner, ours))
        finally:
            await self._update_status(owner)

    async def _carry_out(self, owner: Owner, decisions: Sequence[PodDecision]) -> None:
        """What is refused of one deletion keeps no other pod; creations are all alike."""
        rest = self._short_lived.left(owner.key, asyncio.get_running_loop().time())
        if rest > 0:
            self.queue.add_after(owner.key, rest)
        surplus = list[Pod]()
        for decision in decisions:
            match decision.action:
                case Action.CREATE if rest > 0:
                    pass
                case Action.CREATE:
                    await self._create(owner)
                case Action.DELETE:
                    surplus.append(_pod_of(decision))
                case _:
                    assert_never(decision.action)
        await one_by_one(surplus, lambda pod: self._delete_surplus(owner, pod))

    async def _delete_surplus(self, owner: Owner, pod: Pod) -> None:
        if self._has_surplus(owner):
            await self._delete(owner, pod)

    def _has_surplus(self, owner: Owner) -> bool:
        """Whether there are more pods than wanted still: the deletion before may have taken seconds."""
        now = self._owners.get(owner.key)
        there = sum(map(counts, self._pods.by_index("owner", owner.uid)))
        return now is not None and now.uid == owner.uid and there > now.spec.replicas

    async def _create(self, owner: Owner) -> None:
        template = copy.deepcopy(owner.spec.template)
        metadata: dict[str, Any] = template.get("metadata") or {}
        kept = {key: metadata[key] for key in ("labels", "annotations", "finalizers") if metadata.get(key)}
        metadata = {**kept, "generateName": f"{owner.name}-", "ownerReferences": [owner_reference(owner)]}
        body = {"metadata": metadata, "spec": template.get("spec") or {}}
        try:
            created = await self.client.create(Pod, body, owner.namespace)
        except ApiError as error:
            self.recorder.event(owner, "Warning", "FailedCreate", f"Error creating: {error}")
            raise
        self._pods.accept(created)
        self._short_lived.made(owner.key, created.uid, asyncio.get_running_loop().time())
        self.recorder.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {created.name}")

    async def _delete(self, owner: Owner, pod: Pod) -> None:
        self._short_lived.deleted(owner.key, pod.uid)
        try:
            await self.client.delete(Pod, pod.name, pod.namespace, uid=pod.uid)
        except ApiError as error:
            self.recorder.event(owner, "Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        self.recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")
        ending = await self.client.find(Pod, pod.name, pod.namespace)
        if ending is not None:
            self._pods.accept(
                ending
            )  # otherwise the next decision would count it, and might choose another pod

    async def _update_status(self, owner: Owner) -> None:
        wanted = self._status(owner, self._pods.by_index("owner", owner.uid))
        status = owner.status
        held = {
            "replicas": status.replicas,
            "fullyLabeledReplicas": status.fully_labeled_replicas,
            "readyReplicas": status.ready_replicas,
            "availableReplicas": status.available_replicas,
            "observedGeneration": status.observed_generation,
        }
        if wanted != held:
            answer = await self.client.revise(
                owner, {"status": wanted}, subresource="status", any_version=True
            )
            self._owners.accept(answer)

    def _status(self, owner: Owner, pods: Sequence[Pod]) -> dict[str, int]:
        active = [pod for pod in pods if not pod.deleting and not pod.finished]
        metadata: dict[str, Any] = owner.spec.template.get("metadata") or {}
        labels: dict[str, str] = metadata.get("labels") or {}
        moments = [
            each for pod in active if (each := available_at(pod, owner.spec.min_ready_seconds)) is not None
        ]
        now = self.now()
        if waiting := [moment for moment in moments if moment > now]:
            self.look_again(owner.key, (min(waiting) - now).total_seconds())
        return {
            "replicas": len(active),
            "fullyLabeledReplicas": sum(labels.items() <= pod.metadata.labels.items() for pod in active),
            "readyReplicas": len(moments),
            "availableReplicas": len(moments) - len(waiting),
            "observedGeneration": owner.metadata.generation,
        }

    def _touched(self, pod: Pod) -> list[str]:
        owner = pod.controller
        if owner is not None:
            return [f"{pod.namespace}/{owner.name}"] if owner.kind == self.kind.RESOURCE.kind else []
        candidates = self._owners.by_index("namespace", pod.namespace)
        return [each.key for each in candidates if selector_of(each).matches(pod.metadata.labels)]


class ReplicationControllerController(ReplicaSetController):
    """Upstream's replication controller: the same for an older kind."""

    name = "replication-controller"
    kind = ReplicationController


def _pod_of(decision: PodDecision) -> Pod:
    assert decision.pod is not None, f"{decision.action} without a pod"
    return decision.pod


def _namespace(owner: Owner) -> list[str]:
    return [owner.namespace]

"""The Deployment controller. A key is a Deployment; its pods are left to its ReplicaSets."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Any

from mooring.controllers.replicaset.rollout import (
    DESIRED,
    HASH,
    MAX,
    REVISION,
    bounds,
    first_replicas,
    next_replicas,
    number_of,
    same_template,
)
from mooring.controllers.replicaset.rollout_status import as_written, conditions, counts
from mooring.kube.adoption import Adopter, orphaned_in
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import AlreadyExists
from mooring.kube.objects import Deployment, Pod, ReplicaSet
from mooring.kube.owners import controller_uid, derived_name, owner_reference, template_hash
from mooring.kube.selectors import label_selector_of
from mooring.kube.times import Now, parse_time

_NOT_COPIED = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    DESIRED,
    MAX,
)


class DeploymentController(Controller[str]):
    """Upstream's deployment controller."""

    name = "deployment-controller"

    def __init__(self, client: Client, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._deployments = self.watch(
            Deployment, lambda each: [each.key], indexers={"namespace": lambda each: [each.namespace]}
        )
        self._sets = self.watch(
            ReplicaSet, self._touched, indexers={"owner": controller_uid, "orphan": orphaned_in}
        )
        self._adopter = Adopter(client, self._sets)
        self._pods = self.watch(Pod, self._deployment_of, matters=_alive, indexers={"owner": controller_uid})

    async def reconcile(self, key: str) -> None:
        """Takes one rollout a step further."""
        deployment = self._deployments.get(key)
        if deployment is None:
            return
        sets = (
            *self._sets.by_index("owner", deployment.uid),
            *self._sets.by_index("orphan", deployment.namespace),
        )
        await self._adopter.settle(deployment, label_selector_of(deployment.spec.selector), sets)
        if not deployment.deleting:
            await self._roll(deployment)
        await self._update_status(deployment)

    async def _roll(self, deployment: Deployment) -> None:
        new, old = self._split(deployment)
        if new is None and not deployment.spec.paused:
            await self._create(deployment, old)
        elif new is not None:
            await self._up_to_date(deployment, new, old)
        new, old = self._split(deployment)  # as they are now: either write takes time
        steps = next_replicas(deployment, new, old, self._old_pods(old))
        for each in (*old, *([new] if new is not None else [])):
            await self._scale(deployment, each, steps.get(each.name, each.spec.replicas))
        if not deployment.spec.paused:
            await self._delete_old_sets(deployment, old)

    def _split(self, deployment: Deployment) -> tuple[ReplicaSet | None, list[ReplicaSet]]:
        """Returns the ReplicaSet of the present template (the oldest, if there are several),
        and all others."""
        sets = sorted(
            self._sets.by_index("owner", deployment.uid),
            key=lambda each: (each.metadata.creation_timestamp or "", each.name),
        )
        new = next((each for each in sets if same_template(deployment, each)), None)
        return new, [each for each in sets if each is not new]

    def _old_pods(self, old: Sequence[ReplicaSet]) -> int:
        return sum(not pod.finished for each in old for pod in self._pods.by_index("owner", each.uid))

    async def _create(self, deployment: Deployment, old: Sequence[ReplicaSet]) -> None:
        for salt in range(10):
            body = self._body(deployment, old, template_hash(deployment.spec.template, salt))
            try:
                created = await self.client.create(ReplicaSet, body, deployment.namespace)
            except AlreadyExists:
                name = body["metadata"]["name"]
                found = await self.client.find(ReplicaSet, name, deployment.namespace)
                if (
                    found is not None
                    and controller_uid(found) == [deployment.uid]
                    and same_template(deployment, found)
                ):
                    self._sets.accept(found)
                    return
                continue  # another owner's: try another name
            self._sets.accept(created)
            message = f"Scaled up replica set {created.name} from 0 to {created.spec.replicas}"
            if created.spec.replicas:
                self.recorder.event(deployment, "Normal", "ScalingReplicaSet", message)
            return
        self.queue.add_backoff(deployment.key)

    def _body(self, deployment: Deployment, old: Sequence[ReplicaSet], digest: str) -> dict[str, Any]:
        template = copy.deepcopy(deployment.spec.template)
        metadata: dict[str, Any] = {**(template.get("metadata") or {})}
        metadata["labels"] = {**(metadata.get("labels") or {}), HASH: digest}
        selector = deployment.spec.selector
        expressions = [
            {"key": e.key, "operator": e.operator, "values": e.values} for e in selector.match_expressions
        ]
        replicas = first_replicas(deployment, old, self._old_pods(old))
        return {
            "metadata": {
                "name": derived_name(deployment.name, f"-{digest}"),
                "namespace": deployment.namespace,
                "labels": metadata["labels"],
                "annotations": self._annotations(deployment, old),
                "ownerReferences": [owner_reference(deployment)],
            },
            "spec": {
                "replicas": replicas,
                "minReadySeconds": deployment.spec.min_ready_seconds,
                "selector": {
                    "matchLabels": {**selector.match_labels, HASH: digest},
                    "matchExpressions": expressions,
                },
                "template": {**template, "metadata": metadata},
            },
        }

    def _annotations(self, deployment: Deployment, old: Sequence[ReplicaSet]) -> dict[str, str]:
        own = {key: text for key, text in deployment.metadata.annotations.items() if key not in _NOT_COPIED}
        revision = 1 + max((number_of(each, REVISION) for each in old), default=0)
        return {**own, REVISION: str(revision), **_sizes(deployment)}

    async def _up_to_date(self, deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> None:
        """Updates the annotations of the present ReplicaSet: a template that is rolled back
        to becomes the newest revision."""
        wanted = {k: v for k, v in self._annotations(deployment, old).items() if k not in (DESIRED, MAX)}
        held = new.metadata.annotations
        if number_of(new, REVISION) >= int(wanted[REVISION]):
            wanted.pop(REVISION)
        body: dict[str, Any] = {}
        if not wanted.items() <= held.items():
            body["metadata"] = {"annotations": wanted}
        if new.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
            body["spec"] = {"minReadySeconds": deployment.spec.min_ready_seconds}
        if body:
            await self._revise(new, body)

    async def _scale(self, deployment: Deployment, replica_set: ReplicaSet, replicas: int) -> None:
        before = replica_set.spec.replicas
        sizes = _sizes(deployment)
        annotated = sizes.items() <= replica_set.metadata.annotations.items()
        if replicas == before and (annotated or not before):
            return
        await self._revise(replica_set, {"metadata": {"annotations": sizes}, "spec": {"replicas": replicas}})
        if replicas != before:
            how = f"Scaled {'up' if replicas > before else 'down'} replica set {replica_set.name}"
            self.recorder.event(
                deployment, "Normal", "ScalingReplicaSet", f"{how} from {before} to {replicas}"
            )

    async def _revise(self, replica_set: ReplicaSet, body: dict[str, Any]) -> None:
        self._sets.accept(await self.client.revise(replica_set, body))

    async def _delete_old_sets(self, deployment: Deployment, old: Sequence[ReplicaSet]) -> None:
        """Deletes old ReplicaSets without pods beyond `revisionHistoryLimit`, the oldest revision first."""
        idle = [s for s in old if not s.spec.replicas and not s.status.replicas and not s.deleting]
        idle = [s for s in idle if s.status.observed_generation >= s.metadata.generation]
        surplus = len(old) - deployment.spec.revision_history_limit
        for each in sorted(idle, key=lambda s: number_of(s, REVISION))[: max(surplus, 0)]:
            await self.client.delete(ReplicaSet, each.name, each.namespace, uid=each.uid)

    async def _update_status(self, deployment: Deployment) -> None:
        new, old = self._split(deployment)
        wanted: dict[str, Any] = counts(deployment, new, old)
        wanted["conditions"] = conditions(deployment, new, old, self.now())
        if wanted != _held(deployment):
            answer = await self.client.revise(
                deployment, {"status": wanted}, subresource="status", any_version=True
            )
            self._deployments.accept(answer)
        self._look_again_at_deadline(deployment, wanted["conditions"])
        revision = new.metadata.annotations.get(REVISION) if new is not None else None
        if revision is not None and deployment.metadata.annotations.get(REVISION) != revision:
            note = {"metadata": {"annotations": {REVISION: revision}}}
            self._deployments.accept(await self.client.revise(deployment, note, any_version=True))

    def _look_again_at_deadline(self, deployment: Deployment, shown: Sequence[dict[str, Any]]) -> None:
        """Looks again at the progress deadline."""
        deadline = deployment.spec.progress_deadline_seconds
        progressing = next((c for c in shown if c["type"] == "Progressing"), None)
        if deadline is None or progressing is None or progressing["reason"] != "ReplicaSetUpdated":
            return
        due = parse_time(progressing["lastUpdateTime"]) + timedelta(seconds=deadline)
        self.look_again(deployment.key, max((due - self.now()).total_seconds(), 1.0))

    def _touched(self, replica_set: ReplicaSet) -> list[str]:
        if replica_set.controller is not None:
            return _owner_key(replica_set)
        candidates = self._deployments.by_index("namespace", replica_set.namespace)
        labels = replica_set.metadata.labels
        return [each.key for each in candidates if label_selector_of(each.spec.selector).matches(labels)]

    def _deployment_of(self, pod: Pod) -> list[str]:
        owner = pod.controller
        if owner is None or owner.kind != "ReplicaSet":
            return []
        replica_set = self._sets.get(f"{pod.namespace}/{owner.name}")
        return _owner_key(replica_set) if replica_set is not None else []


def _alive(pod: Pod) -> bool:
    return not pod.finished


def _sizes(deployment: Deployment) -> dict[str, str]:
    return {DESIRED: str(deployment.spec.replicas), MAX: str(bounds(deployment).most)}


def _held(deployment: Deployment) -> dict[str, Any]:
    status = deployment.status
    return {
        "observedGeneration": status.observed_generation,
        "replicas": status.replicas,
        "updatedReplicas": status.updated_replicas,
        "readyReplicas": status.ready_replicas,
        "availableReplicas": status.available_replicas,
        "unavailableReplicas": status.unavailable_replicas,
        "conditions": [as_written(each) for each in status.conditions],
    }


def _owner_key(replica_set: ReplicaSet) -> list[str]:
    owner = replica_set.controller
    return (
        [f"{replica_set.namespace}/{owner.name}"] if owner is not None and owner.kind == "Deployment" else []
    )

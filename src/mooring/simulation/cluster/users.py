"""What users and operators of a simulated cluster do. One small function for each kind of action in a plan.

Operators' words about a machine (`plan.declared`, `plan.node-deleted`) and removals by force (`plan.forced`)
are told to the trace: they give up guarantees, and the checkers accept just that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from mooring.controllers.fencing.names import TAINT_VALUE as BY_FENCE
from mooring.kube.errors import KubeError, NotFound
from mooring.kube.objects import (
    ControllerRevision,
    DaemonSet,
    Deployment,
    Job,
    Namespace,
    Node,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
    VolumeAttachment,
)
from mooring.kube.objects.fencing import NodeFence
from mooring.kube.quantity import format_bytes, parse_bytes
from mooring.kube.times import format_time
from mooring.simulation.cluster.cluster import AS_LONG_AS_IT_TAKES, SimulatedCluster
from mooring.simulation.cluster.late_volumes import LateVolumes
from mooring.simulation.cluster.plan import PlanStep
from mooring.simulation.cluster.workloads import (
    BROKEN,
    BY_HAND,
    DAEMONS,
    DEPLOYMENTS,
    EDITION,
    GUARDED,
    JOBS,
    NAMED,
    NAMESPACE,
    RECYCLED,
    STATIC,
    TENANTS,
    bodies,
    maker_of,
    named_disk,
    scarce,
    static_disks,
    volume_again,
    volume_body,
)
from mooring.simulation.engine.randomness import stream
from mooring.volumes.claims import claims_of
from mooring.volumes.errors import StorageFull
from mooring.volumes.names import NODE_UID
from mooring.volumes.node_fences import Phase, node_uid_of
from mooring.volumes.out_of_service import EFFECT, TAINT
from mooring.volumes.statements import Statement, annotation

GIB = 1 << 30
AGAIN_S, SOON_S, AT_ONCE_S = 60.0, 5.0, 0.5
"""A user who deletes something that is wanted creates it anew after this time."""
VOLUME_LATER_S = (0.0, 5.0, 30.0, 60.0)
"""So long after a claim the volume is made that one of the two names."""
UNDEFINED_S = 840.0
"""So long before the end of a run no user takes away the definition of what may be attached."""
RIVAL_S, RIVAL_LATER_S = 0.2, 5.0
"""How often a rival writes at first, and after a minute."""
KEEPS_FIRST = 2
"""`how` of an update that leaves the first pod as it is."""
ROLLS_BACK = 1
"""`how` of an update back to a template of before."""
STOPPED_S = 8.0
"""A user who stops a workload starts it again after one to three times so long."""


def is_of(made: Object, owner: Object) -> bool:
    """Whether it was made by the controller of that very owner."""
    return made.controller is not None and made.controller.uid == owner.uid


def rolling_from(ordinal: int) -> dict[str, Any]:
    """The strategy of a StatefulSet whose pods from this one on are updated (its partition)."""
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": ordinal}}


class Users:
    """All that people do through the API."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self._made = 0

    async def create_workloads(self) -> None:
        for name, replicas in self.cluster.scenario.sets.items():
            kind = self.cluster.scenario.workloads.get(name, "disk")
            if kind in NAMED:
                await self._make_named(name)
            elif kind in STATIC:
                for disk in static_disks(name, replicas, few=scarce(kind)):
                    self.cluster.array.create(disk)
            await self._create(LateVolumes(self.cluster, name).left_out(self._bodies(name)))

    def _bodies(self, name: str) -> list[tuple[type[Object], dict[str, Any], str]]:
        """All that a workload is made of."""
        given = self.cluster.scenario
        history = given.histories.get(name)
        return bodies(self._kind(name), name, given.sets[name], given.evict_after_s, history)

    async def _make_named(self, name: str) -> None:
        """The volume that a claim names, or that names it, before the claim or up to a minute later."""
        disk = named_disk(name)
        self.cluster.array.create(disk)
        later_s = stream(self.cluster.seed, f"volume of {name}").choice(VOLUME_LATER_S)
        if later_s:
            self.cluster.user.start(self._make_later(disk, later_s))
        else:
            await self.create_volume(disk)

    async def _make_later(self, disk: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.create_volume(disk)

    async def tidy_up(self) -> None:
        """Where volumes are scarce: workloads are as large as they should be, what is left over of larger
        ones goes, and what has had a claim is made anew, so that there are enough."""
        for name, replicas in self.cluster.scenario.sets.items():
            if not scarce(self._kind(name)):
                continue
            step = PlanStep(0, "scale", name, float(replicas), 2)
            await self.scale(step)
            self.cluster.user.start(self._delete_left_over(step))
            self.cluster.user.start(self._replace_released(step))

    async def _replace_released(self, step: PlanStep) -> None:
        """What has had a claim, or (its binder learnt late that users had deleted that) gets and loses one
        yet. For ever."""
        replaced: set[str] = set()
        while True:
            with suppress(KubeError):
                for volume in (await self.api.list(PersistentVolume)).items:
                    had = volume.status.phase == "Released" and not volume.deleting
                    if had and maker_of(volume.name) == step.on and volume.uid not in replaced:
                        replaced.add(volume.uid)
                        self.replace_volume(volume.name, step)
            await asyncio.sleep(SOON_S)

    async def _delete_left_over(self, step: PlanStep) -> None:
        """The claims of a larger set, when their pods are gone: what is deleted before may be made anew."""
        left, kept = True, int(step.value)
        while left:
            await asyncio.sleep(SOON_S)
            pods = (await self.api.list(Pod, NAMESPACE)).items
            left = any(_is_beyond(pod, f"{step.on}-", kept) for pod in pods)
        for claim in (await self.api.list(PersistentVolumeClaim, NAMESPACE)).items:
            if _is_beyond(claim, f"data-{step.on}-", kept):
                await self.delete_claim_named(claim.name, step)

    async def _create(self, wanted: Iterable[tuple[type[Object], dict[str, Any], str]]) -> None:
        for kind, body, namespace in wanted:
            await self.cluster.make(kind, body, namespace)

    def _kind(self, name: str) -> str:
        return self.cluster.scenario.workloads.get(name, "disk")

    def _owner(self, name: str) -> type[Object]:
        kind = self._kind(name)
        owners = {"once": Pod, **dict.fromkeys(JOBS, Job), **dict.fromkeys(DAEMONS, DaemonSet)}
        return Deployment if kind in DEPLOYMENTS else owners.get(kind, StatefulSet)

    async def workload(self, name: str) -> Object | None:
        """What makes the pods; None if it is gone."""
        return await self.api.find(self._owner(name), name, self.namespace(name))

    def namespace(self, name: str) -> str:
        """Where a workload is."""
        return name if self._kind(name) in TENANTS else NAMESPACE

    async def pod(self, step: PlanStep) -> Pod | None:
        """One of a workload's pods."""
        found = (await self.api.list(Pod, self.namespace(step.on), label_selector=f"app={step.on}")).items
        pods = sorted(found, key=lambda pod: pod.name)
        return pods[step.how % len(pods)] if pods else None

    # --- workloads

    async def scale(self, step: PlanStep) -> None:
        if self._owner(step.on) in (Deployment, StatefulSet):
            owner, patch = self._owner(step.on), {"spec": {"replicas": int(step.value)}}
            await self.cluster.as_user(lambda: self.api.patch(owner, step.on, patch, self.namespace(step.on)))

    async def restart_set(self, step: PlanStep) -> None:
        """Scales it to nothing and back."""
        replicas = float(self.cluster.scenario.sets[step.on])
        for value in (0.0, replicas):
            await self.scale(msgspec.structs.replace(step, value=value))
            await asyncio.sleep(STOPPED_S * (step.how + 1) if not value else 0)

    async def update_set(self, step: PlanStep) -> None:
        """A new template: its pods are of another edition. `how` 2: but for the first pod of a StatefulSet,
        which stays of the one before (a partition), unless that has a mistake. `how` 1: of a workload that
        keeps few templates, one of before again, if there is one."""
        owner, namespace = self._owner(step.on), self.namespace(step.on)

        async def update() -> None:
            edition: str | None = f"{step.at:.3f}"
            if step.how == ROLLS_BACK and step.on in self.cluster.scenario.histories:
                edition = await self._former_edition(step.on, edition)
            spec: dict[str, Any] = {"template": {"metadata": {"annotations": {EDITION: edition}}}}
            if step.how == KEEPS_FIRST and owner is StatefulSet and not await self._has_mistake(step.on):
                spec["updateStrategy"] = rolling_from(1)
            await self.api.patch(owner, step.on, {"spec": spec}, namespace)

        await self.cluster.as_user(update)

    async def _former_edition(self, name: str, default: str) -> str | None:
        """The edition of the newest template of before, if that and the present one have no mistake."""
        found = await self.api.get(self._owner(name), name, self.namespace(name))
        kept = [
            (each.revision, each.data["spec"]["template"]["metadata"].get("annotations", {}))
            for each in (await self.api.list(ControllerRevision, self.namespace(name))).items
            if is_of(each, found)
        ]
        newest, *former = sorted(kept, key=lambda each: -each[0]) or [(0, {})]
        if not former or BROKEN in newest[1] | former[0][1]:
            return default
        return former[0][1].get(EDITION)

    async def _has_mistake(self, name: str) -> bool:
        """Whether a StatefulSet's template has a mistake, or what a partition would keep: the template of
        before, a pod."""
        found = await self.api.get(StatefulSet, name, self.namespace(name))
        kept = await self.api.find(ControllerRevision, found.status.current_revision, found.namespace)
        templates = [found.spec.template, *([kept.data["spec"]["template"]] if kept is not None else [])]
        pods = (await self.api.list(Pod, found.namespace)).items
        annotations = [each["metadata"].get("annotations", {}) for each in templates]
        annotations += [each.metadata.annotations for each in pods if is_of(each, found)]
        return any(BROKEN in each for each in annotations)

    async def delete_pod(self, step: PlanStep) -> None:
        async def delete() -> None:
            pod = await self.pod(step)
            if pod is not None:
                await self.api.delete(Pod, pod.name, pod.namespace)

        await self.cluster.as_user(delete)

    async def force_delete_pod(self, step: PlanStep) -> None:
        async def delete() -> None:
            pod = await self.pod(step)
            if pod is not None:
                self.cluster.trace("user", "plan.forced", pod=pod.name, uid=pod.uid)
                await self.api.delete(Pod, pod.name, pod.namespace, uid=pod.uid, grace_period_seconds=0)

        await self.cluster.as_user(delete)

    async def force_delete_pods_of(self, node: str) -> None:
        """All that are shown on a node, by force, whether or not the machine is off."""

        async def delete() -> None:
            for pod in (await self.api.list(Pod)).items:
                if pod.spec.node_name == node:
                    self.cluster.trace("user", "plan.forced", pod=pod.name, uid=pod.uid)
                    with suppress(NotFound):
                        await self.api.delete(
                            Pod, pod.name, pod.namespace, uid=pod.uid, grace_period_seconds=0
                        )

        await self.cluster.as_user(delete)

    async def delete_set(self, step: PlanStep) -> None:
        """And create it anew a minute later; a StatefulSet (how 1) at once, while what went with it still
        goes."""
        owner = self._owner(step.on)
        if owner is not Pod:
            policy = "Background" if owner is Job else None  # without a policy the server orphans its pods
            await self.cluster.as_user(
                lambda: self.api.delete(owner, step.on, self.namespace(step.on), propagation_policy=policy)
            )
            at_once = owner is StatefulSet and step.how == 1
            await asyncio.sleep(AT_ONCE_S if at_once else AGAIN_S)
            await self._create([each for each in self._bodies(step.on) if each[0] is owner])

    async def delete_pod_on(self, step: PlanStep) -> None:
        await self._delete_on(step, self.delete_pod)

    async def force_delete_pod_on(self, step: PlanStep) -> None:
        await self._delete_on(step, self.force_delete_pod)

    async def _delete_on(self, step: PlanStep, delete: Callable[[PlanStep], Awaitable[None]]) -> None:
        """One of the pods on a node, or of all pods where the step does not name a node."""
        pods = (await self.api.list(Pod)).items
        there = [pod for pod in pods if step.on in (pod.spec.node_name, *self.cluster.processes)]
        if there:
            pod = sorted(there, key=lambda pod: pod.name)[step.how % len(there)]
            ours = sorted(each.name for each in pods if _set_of(each) == _set_of(pod))
            await delete(PlanStep(step.at, step.what, _set_of(pod), how=ours.index(pod.name)))

    async def delete_namespace(self, step: PlanStep) -> None:
        """With all that is in it; as soon as it is gone everything is made anew."""
        await self.cluster.as_user(lambda: self.api.delete(Namespace, step.on))
        for kind, body, namespace in self._bodies(step.on):
            await self.create_when_gone(kind, body, namespace)

    # --- claims and volumes

    async def delete_claim(self, step: PlanStep) -> None:
        """With its pod, so that it goes, or (how odd) without. In place of a volume made by hand another is
        made, or (how 2) the same again, for the same disk."""
        if self._kind(step.on) in JOBS:
            return  # the pods of a Job that have ended hold its claim: the next one would wait for good
        pod = await self.pod(step)
        for name in [key.partition("/")[2] for key in claims_of(pod)] if pod is not None else []:
            await self.delete_claim_named(name, step)
        if step.how % 2 == 0:
            await self.delete_pod(step)
        if self._kind(step.on) in DEPLOYMENTS:
            await asyncio.sleep(AGAIN_S)
            for kind, body, namespace in self._bodies(step.on):
                if kind is PersistentVolumeClaim:
                    await self.create_when_gone(kind, body, namespace)

    async def delete_claim_named(self, name: str, step: PlanStep) -> None:
        """One of a workload's claims, whatever pods there are."""
        claim = await self.api.find(PersistentVolumeClaim, name, self.namespace(step.on))
        await self.cluster.as_user(
            lambda: self.api.delete(PersistentVolumeClaim, name, self.namespace(step.on))
        )
        if claim is not None:
            self.replace_volume(claim.spec.volume_name, step)

    def replace_volume(self, volume: str, step: PlanStep) -> None:
        """Begins to make another volume in the place of one that was made by hand, and is not emptied for the
        next claim: whatever workload has had it."""
        if self._kind(maker_of(volume)) in STATIC - RECYCLED:
            again = step.how == 2 or self._kind(maker_of(volume)) in NAMED
            make = self._make_again if again else self._make_another
            self.cluster.user.start(make(volume))

    async def _make_another(self, volume: str) -> None:
        """In its place; of the old one nothing is left but the disk."""
        await self._wait_until_detached(volume)
        await self.cluster.as_user(lambda: self.api.delete(PersistentVolume, volume))
        self._made += 1
        another = f"{volume.partition('.')[0]}.{self._made}"
        await self._make_disk(another)
        await self.cluster.make(PersistentVolume, volume_body(another))

    async def _make_disk(self, disk: str) -> None:
        """As soon as the storage has room for it."""
        for _ in range(AS_LONG_AS_IT_TAKES):
            try:
                self.cluster.array.create(disk)
                return
            except StorageFull:
                await asyncio.sleep(2)

    async def _wait_until_detached(self, volume: str) -> None:
        """Near the end of a run: what nothing defines any more may stay attached for `UNDEFINED_S`."""
        if not self.cluster.trace.counts.get("truth.put-off"):
            return  # no request of it can be outstanding for so long
        while asyncio.get_running_loop().time() + UNDEFINED_S > self.cluster.scenario.end_s:
            try:
                records = (await self.api.list(VolumeAttachment)).items
            except KubeError:
                records = None
            if records is not None and not any(
                each.spec.source.persistent_volume_name == volume for each in records
            ):
                return
            await asyncio.sleep(2)

    async def _make_again(self, volume: str) -> None:
        """A minute later, when the old one is gone: under its name, for its disk."""
        await self._wait_until_detached(volume)
        await self.cluster.as_user(lambda: self.api.delete(PersistentVolume, volume))
        await asyncio.sleep(AGAIN_S)
        await self.create_volume(volume)

    async def create_volume(self, volume: str) -> None:
        """One that was made by hand, and has been deleted: as it was."""
        await self.create_when_gone(PersistentVolume, volume_again(self._kind(maker_of(volume)), volume))

    async def create_when_gone(self, kind: type[Object], body: dict[str, Any], namespace: str = "") -> None:
        """When its name is free: what users have to delete for that, they delete. What is there after a
        request that had no answer is what that has made."""
        former, asked = set[str](), False
        for _ in range(AS_LONG_AS_IT_TAKES):
            with suppress(KubeError):
                found = await self.api.find(kind, body["metadata"]["name"], namespace)
                if found is None:
                    asked = True
                    await self.api.create(kind, body, namespace)
                    return
                if asked and found.uid not in former:
                    return
                former.add(found.uid)
                await self._make_way(found)
            await asyncio.sleep(SOON_S)

    async def _make_way(self, found: Object) -> None:
        """Deletes what keeps the name, and no controller would."""
        if isinstance(found, PersistentVolume):
            await self._delete_released(found)
        elif isinstance(found, PersistentVolumeClaim) and found.deleting:
            await self._delete_ended(found)

    async def _delete_released(self, volume: PersistentVolume) -> None:
        """One that has lost its claim, as another user has made it meanwhile."""
        if volume.status.phase == "Released" and not volume.deleting:
            await self.api.delete(PersistentVolume, volume.name, uid=volume.uid)

    async def _delete_ended(self, claim: PersistentVolumeClaim) -> None:
        """The pods of a claim that have ended: they, too, hold it (upstream: `podUsesPVC` of pvcprotection),
        and a ReplicaSet leaves its own for good."""
        for pod in (await self.api.list(Pod, claim.namespace)).items:
            if pod.finished and not pod.deleting and claim.key in claims_of(pod):
                await self.api.delete(Pod, pod.name, pod.namespace, uid=pod.uid)

    async def grow_claim(self, step: PlanStep) -> None:
        """The claims of a pod ask for one, two or three times as much again."""

        async def grow(name: str) -> None:
            claim = await self.api.get(PersistentVolumeClaim, name, NAMESPACE)
            size = parse_bytes(claim.spec.resources.requests["storage"]) + (step.how + 1) * GIB
            request = {"spec": {"resources": {"requests": {"storage": format_bytes(size)}}}}
            await self.api.revise(claim, request)

        pod = await self.pod(step)
        for name in [key.partition("/")[2] for key in claims_of(pod)] if pod is not None else []:
            await self.cluster.as_user(lambda n=name: grow(n))

    async def delete_volume(self, step: PlanStep) -> None:
        """The PersistentVolume of a claim that is in use: it has to stay as long as that."""
        pod = await self.pod(step)
        for name in [key.partition("/")[2] for key in claims_of(pod)] if pod is not None else []:
            claim = await self.api.find(PersistentVolumeClaim, name, self.namespace(step.on))
            if claim is not None and claim.spec.volume_name and self._kind(step.on) not in STATIC:
                volume = claim.spec.volume_name
                found = await self.api.find(PersistentVolume, volume)
                if found is None or is_kept(found):
                    continue  # its disk is the user's own affair (`delete-released`)
                await self.cluster.as_user(lambda v=volume: self.api.delete(PersistentVolume, v))

    # --- nodes

    async def drain(self, step: PlanStep) -> None:
        async def drain() -> None:
            await self.api.patch(Node, step.on, {"spec": {"unschedulable": True}})
            for pod in (await self.api.list(Pod, field_selector=f"spec.nodeName={step.on}")).items:
                if self._kind(pod.metadata.labels.get("app", "")) in GUARDED:
                    self.cluster.user.start(self._evict(pod))
                else:
                    await self.api.delete(Pod, pod.name, pod.namespace, uid=pod.uid)

        await self.cluster.as_user(drain)

    async def _evict(self, pod: Pod) -> None:
        """Asks again until the budget lets the pod go, as `kubectl drain` does."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }

        async def evict() -> None:
            await self.api.create_raw(Pod, body, name=pod.name, namespace=pod.namespace, sub="eviction")

        await self.cluster.as_user(evict)

    async def uncordon(self, step: PlanStep) -> None:
        await self.cluster.as_user(lambda: self.api.patch(Node, step.on, {"spec": {"unschedulable": None}}))

    async def take_back(self, node: str) -> None:
        """The node may have pods again. One whose Node is being deleted, and waits, is drained, as is said of
        it: its agent registers it anew."""
        found = await self.api.find(Node, node)
        back = self.drain if found is not None and found.deleting else self.uncordon
        await back(PlanStep(0, "", node))

    async def delete_node(self, step: PlanStep) -> None:
        """The Node object only: whatever runs there goes on, and its agent registers it anew. A user who
        deletes the Node of a machine that never comes back also states that it is dead."""
        self.cluster.trace("user", "plan.node-deleted", node=step.on)
        await self.cluster.as_user(lambda: self.api.delete(Node, step.on))
        if step.on in self.cluster.lost:
            self.cluster.silent.discard(step.on)
            await self.confirm_dead(step.on)

    async def is_shown_to_answer(self, node: str) -> bool:
        found = await self.api.find(Node, node)
        return found is not None and found.ready == "True"

    async def declare(self, node: str, out: bool) -> None:
        """Sets or removes the out-of-service taint."""
        await self.cluster.as_user(lambda: self._declare(node, out))

    async def confirm_dead(self, node: str) -> None:
        """As a careful operator does it, while the machine is off: of a node that does not answer by the
        taint, of one that is gone by a statement on its VolumeAttachments and fences."""
        for _ in range(AS_LONG_AS_IT_TAKES):
            if node in self.cluster.powered or await self._confirmed(node):
                return
            await asyncio.sleep(10)

    async def _confirmed(self, node: str) -> bool:
        try:
            found = await self.api.find(Node, node)
            if found is None:
                await self._state_dead(node)
            elif found.ready == "Unknown":
                await self._declare(node, True)
            return found is None or found.ready == "Unknown"
        except KubeError:
            return False

    async def _state_dead(self, node: str) -> None:
        self.cluster.trace("user", "plan.declared", node=node, out=True)
        records = (await self.api.list(VolumeAttachment)).items
        fences = (await self.api.list(NodeFence)).items if self.cluster.scenario.fencing else ()
        uids = [
            *((each, each.metadata.annotations.get(NODE_UID, "")) for each in records),
            *((each, node_uid_of(each)) for each in fences if each.status.phase not in Phase.OVER),
        ]
        for each, uid in uids:
            if each.spec.node_name == node:
                patch = {"metadata": {"annotations": annotation(Statement(uid, absent=True))}}
                await self.api.revise(each, patch, any_version=True)

    async def _declare(self, node: str, out: bool) -> None:
        found = await self.api.get(Node, node)
        others = [
            {"key": t.key, "effect": t.effect, "value": t.value}
            for t in found.spec.taints
            if t.key != TAINT or (not out and t.value == BY_FENCE)
        ]
        if not out and len(others) == len(found.spec.taints):
            return
        added = format_time(self.cluster.user.now())
        taint = [{"key": TAINT, "value": "nodeshutdown", "effect": EFFECT, "timeAdded": added}] if out else []
        self.cluster.trace("user", "plan.declared", node=node, out=out)
        await self.api.revise(found, {"spec": {"taints": [*others, *taint]}})


async def insist(work: Callable[[], Awaitable[None]], tries: int = AS_LONG_AS_IT_TAKES) -> None:
    """Tries until it is done, or what it is about is gone."""
    for _ in range(tries):
        try:
            await work()
        except NotFound:
            return
        except KubeError:
            await asyncio.sleep(2)
        else:
            return


def is_kept(volume: PersistentVolume) -> bool:
    """Whether a volume that was made for a claim stays when that is gone."""
    spec = volume.spec
    return spec.persistent_volume_reclaim_policy == "Retain" and spec.storage_class_name not in BY_HAND


def _set_of(pod: Pod) -> str:
    return pod.metadata.labels.get("app", "")


async def rival(cluster: SimulatedCluster, kinds: Sequence[type[Object]], seconds: float) -> None:
    """Another client that writes to all objects of these kinds again and again, so that other writers have
    conflicts."""
    until, number = asyncio.get_running_loop().time() + seconds, 0
    while asyncio.get_running_loop().time() < until:
        number += 1
        for kind in kinds:
            for each in (await cluster.api.list(kind)).items:
                patch = {"metadata": {"annotations": {"example.com/rival": str(number)}}}
                await cluster.as_user(
                    lambda k=kind, e=each, p=patch: cluster.api.patch(k, e.name, p, e.namespace)
                )
        await asyncio.sleep(min(RIVAL_S * 1.1**number, RIVAL_LATER_S))


def _is_beyond(each: Object, prefix: str, replicas: int) -> bool:
    """Whether it is of a larger StatefulSet than one with so many pods."""
    number = each.name.removeprefix(prefix)
    return number.isdigit() and int(number) >= replicas

"""The scheduler: chooses a node for each pod, and for the claims that wait for their first consumer.

A key is a pod. For claims that wait, the choice is written on the claim (or, where an existing volume fits,
on that volume), and the pod is bound once its claims are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import assert_never

from mooring.controllers.scheduling.company import (
    Company,
    asks_for_namespaces,
    keeps_others_away,
    needs_company,
)
from mooring.controllers.scheduling.decide import Action, Choice, Load, PodVolume, choose, missing_claim
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.objects import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Namespace,
    Node,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttachment,
)
from mooring.kube.reason import Reason
from mooring.kube.rests import Rests
from mooring.kube.times import Now, format_time
from mooring.volumes.claims import claims_of
from mooring.volumes.free_volumes import FreeVolumes
from mooring.volumes.limits import Attachable, attachable, attachable_inline, attachable_to_be
from mooring.volumes.matching import SELECTED_NODE
from mooring.volumes.migration import driver_of

SCHEDULER_NAME = "default-scheduler"
NO_NAMESPACES: Mapping[str, Namespace] = {}


class SchedulingController(Controller[str]):
    """Binds pods to nodes."""

    name = SCHEDULER_NAME
    workers = 1  # each choice must see the effect of the one before it

    def __init__(self, client: Client, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._placed: dict[str, tuple[str, str]] = {}
        """Pods, by key, whose claims are being bound for a node: the pod's uid, and the node. For other pods
        they are there already, although no object says so yet. After a restart each is chosen anew, for the
        node that its claims say."""
        self._pods = self.watch(
            Pod,
            self._touched_by_pod,
            indexers={
                "unscheduled": lambda pod: ["yes"] if _waits(pod) else [],
                "node": lambda pod: [pod.spec.node_name] if not pod.finished else [],
                "claim": claims_of,
                "needs-company": lambda pod: ["yes"] if _waits(pod) and needs_company(pod) else [],
                "keeps-others-away": lambda pod: ["yes"] if _runs(pod) and keeps_others_away(pod) else [],
            },
        )
        self._nodes = self.watch(
            Node,
            lambda _: self._waiting(),
            matters=lambda node: (node.ready, node.spec, node.metadata.labels, node.status.allocatable),
        )
        self._csi_nodes = self.watch(CSINode, lambda _: self._waiting())
        self._attachments = self.watch(
            VolumeAttachment, self._when_detached, indexers={"node": lambda each: [each.spec.node_name]}
        )
        self._claims = self.watch(PersistentVolumeClaim, self._users_of_claim)
        self._selections: Rests[str] = Rests()  # of claims, by their uids
        self._claims.add_handler(self._claim_changed)
        self._csi_nodes.add_handler(lambda old, new: self._selections.end_all())
        self._volumes = self.watch(PersistentVolume, lambda _: self._waiting())
        self._free = FreeVolumes()
        self._volumes.add_handler(self._free.update)
        self._classes = self.watch(StorageClass, lambda _: self._waiting())
        self._csi_drivers = self.watch(CSIDriver, lambda _: self._waiting())
        self._capacities = self.watch(
            CSIStorageCapacity,
            lambda _: self._waiting(),
            indexers={"class": lambda each: [each.storage_class_name]},
        )

    def _waiting(self) -> list[str]:
        return [pod.key for pod in self._pods.by_index("unscheduled", "yes")]

    def _touched_by_pod(self, pod: Pod) -> Iterable[str]:
        if _waits(pod):
            yield pod.key
        if pod.spec.node_name:  # its place may be what others wait for
            yield from (each.key for each in self._pods.by_index("needs-company", "yes"))
        gone = not self._pods.knows(pod)  # another one may have its name
        if (
            gone or pod.deleting or pod.finished
        ):  # a ReadWriteOncePod claim, a disk or a place may be free now
            yield from self._waiting()

    def _when_detached(self, attachment: VolumeAttachment) -> list[str]:
        """Marks the pods that wait when a place on a node becomes free: the record is gone."""
        gone = self._attachments.get(attachment.name) is None
        return self._waiting() if gone else []

    def _users_of_claim(self, claim: PersistentVolumeClaim) -> list[str]:
        return [pod.key for pod in self._pods.by_index("claim", claim.key) if _waits(pod)]

    def concerned(self, key: str) -> list[tuple[Object | None, str]]:
        return [(self._pods.get(key), "FailedScheduling")]

    async def reconcile(self, key: str) -> None:
        """Chooses a node for one pod and writes the choice."""
        pod = self._pods.get(key)
        if pod is None or not _waits(pod):
            self._leave(key)
            return
        choice, volumes = self.choice(pod, await self._namespaces(pod))
        match choice.action:
            case Action.WAIT:
                self._leave(key)
                await self._unschedulable(pod, choice.reason)
            case Action.BIND:
                assert choice.node is not None, f"pod {pod.key} is to be bound without a node"
                await self._place(pod, volumes, choice.node, choice)
            case _:
                assert_never(choice.action)

    async def _namespaces(self, pod: Pod) -> Mapping[str, Namespace]:
        """Read live, and only where their labels matter: few pods ask for them."""
        others = self._pods.by_index("keeps-others-away", "yes")
        if not any(asks_for_namespaces(each) for each in (pod, *others)):
            return {}
        return {each.name: each for each in (await self.client.list(Namespace)).items}

    def _company(self, pod: Pod, namespaces: Mapping[str, Namespace]) -> Company:
        pods = self._pods.items() if needs_company(pod) else self._pods.by_index("keeps-others-away", "yes")
        names = [(other, other.spec.node_name) for other in pods if _runs(other)]
        names += [(other, name) for other, name in self._being_placed() if other.key != pod.key]
        places = ((other, self._nodes.get(name)) for other, name in names)
        return Company([(other, node) for other, node in places if node is not None], namespaces)

    def _being_placed(self) -> Iterable[tuple[Pod, str]]:
        for key, (uid, node) in self._placed.items():
            pod = self._pods.get(key)
            if pod is not None and pod.uid == uid and _waits(pod):
                yield pod, node

    def _leave(self, key: str) -> None:
        """The pod is on no node, or on one that its object names: what waits for its place is looked at."""
        if self._placed.pop(key, None) is not None:
            for each in self._pods.by_index("needs-company", "yes"):
                self.queue.add(each.key)

    def choice(
        self, pod: Pod, namespaces: Mapping[str, Namespace] = NO_NAMESPACES
    ) -> tuple[Choice, list[PodVolume]]:
        """What would be decided about a pod now, and the claims that it was decided by."""
        problem, volumes = self._pod_volumes(pod)
        if problem is not None:
            return problem, volumes
        company = self._company(pod, namespaces)
        chosen = choose(pod, volumes, self._nodes.items(), self._free, self._load, self._drivers(), company)
        return chosen, volumes

    async def _place(self, pod: Pod, volumes: Sequence[PodVolume], node: Node, choice: Choice) -> None:
        """Binds the pod if its claims are bound; else has its claims bound first."""
        if not all(each.bound for each in volumes):
            self._placed[pod.key] = pod.uid, node.name
            unbound = (each.claim.uid for each in volumes if not each.bound)
            if (rest := self._selections.left(unbound, asyncio.get_running_loop().time())) > 0:
                self.queue.add_after(pod.key, rest)
                return
            if await self._still_waits(pod):
                await self._choose_for_claims(volumes, node, choice.matches)
        elif await self._as_cached(volumes):
            await self._bind(pod, node, choice.reason)

    def _drivers(self) -> set[str]:
        """Returns the CSI drivers that are registered on at least one node."""
        return {each.name for node in self._csi_nodes.items() for each in node.spec.drivers}

    def _load(self, node: str) -> Load:
        pods = self._pods.by_index("node", node)

        def volumes() -> set[Attachable]:
            claims = (self._claims.get(key) for pod in pods for key in claims_of(pod))
            places = {self._place_of(claim) for claim in claims if claim is not None}
            inline = {place for pod in pods for place in attachable_inline(pod)}
            attached = {self._place_of_attachment(each) for each in self._attachments.by_index("node", node)}
            return {place for place in places | attached if place is not None} | inline

        return Load(len(pods), volumes, self._csi_nodes.get(node), lambda: pods)

    def _place_of(self, claim: PersistentVolumeClaim) -> Attachable | None:
        """Returns the place that a claim's volume takes on a node, also one that is yet to be made."""
        volume = self._volumes.get(claim.spec.volume_name or "")
        if volume is not None:
            return attachable(volume)
        return attachable_to_be(claim, self._classes.get(claim.storage_class))

    def _place_of_attachment(self, attachment: VolumeAttachment) -> Attachable | None:
        """Returns the place that an attachment takes, also if no pod uses it any more."""
        source = attachment.spec.source
        volume = self._volumes.get(source.persistent_volume_name or "")
        return attachable(volume) if volume is not None else None

    def _room(self, storage_class: StorageClass | None) -> tuple[CSIStorageCapacity, ...] | None:
        """Returns what the class's driver says it has; None if it does not say so."""
        driver = (
            self._csi_drivers.get(driver_of(storage_class.provisioner)) if storage_class is not None else None
        )
        if storage_class is None or driver is None or not driver.spec.storage_capacity:
            return None
        return tuple(self._capacities.by_index("class", storage_class.name))

    def _pod_volumes(self, pod: Pod) -> tuple[Choice | None, list[PodVolume]]:
        """Returns why the pod waits if a claim does not exist, and its claims."""
        found: list[PodVolume] = []
        for key in claims_of(pod):
            claim = self._claims.get(key)
            if claim is None:
                return missing_claim(key), found
            users = self._pods.by_index("claim", key)
            others = tuple(u.key for u in users if u.uid != pod.uid and u.spec.node_name and not u.finished)
            storage_class = self._classes.get(claim.storage_class)
            volume = self._volumes.get(claim.spec.volume_name or "")
            found.append(PodVolume(claim, volume, storage_class, others, self._room(storage_class)))
        return None, found

    async def _still_waits(self, pod: Pod) -> bool:
        """Whether the pod, read live, is the same and still needs a node: for one that is gone a volume would
        be made where its successor, which may want to be elsewhere, can never use it."""
        live = await self._pods.read_live(pod.name, pod.namespace)
        return live is not None and live.uid == pod.uid and _waits(live)

    async def _as_cached(self, volumes: Iterable[PodVolume]) -> bool:
        """Whether the claims are still the ones that the choice was made for. A claim that was
        deleted and created again is another one: it waits for a node to be chosen, and for a pod that
        has a node already none would be."""
        found = True
        for each in volumes:
            live = await self.client.find(PersistentVolumeClaim, each.claim.name, each.claim.namespace)
            if live is not None:
                self._claims.accept(live)
            found = found and live is not None and live.uid == each.claim.uid and not live.deleting
        return found

    async def _bind(self, pod: Pod, node: Node, reason: Reason) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node.name},
        }
        await self.client.create_raw(Pod, body, name=pod.name, namespace=pod.namespace, sub="binding")
        self.log.info("Scheduled", pod=pod.key, node=node.name)
        self.recorder.event(pod, "Normal", *reason)
        self._pods.accept(await self.client.get(Pod, pod.name, pod.namespace))

    async def _choose_for_claims(
        self, volumes: Iterable[PodVolume], node: Node, matches: Mapping[str, PersistentVolume]
    ) -> None:
        for each in volumes:
            if each.bound or SELECTED_NODE in each.claim.metadata.annotations:
                continue
            fitting = matches.get(each.claim.key)
            if fitting is not None:
                await self._reserve(fitting, each.claim)
            else:
                await self._select(each.claim, node)

    async def _reserve(self, pv: PersistentVolume, claim: PersistentVolumeClaim) -> None:
        if pv.spec.claim_ref is not None:
            return
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
        }
        answer = await self.client.patch(
            PersistentVolume,
            pv.name,
            {"spec": {"claimRef": reference}},
            uid=pv.uid,
            resource_version=pv.metadata.resource_version,
        )
        self._volumes.accept(answer)

    async def _select(self, claim: PersistentVolumeClaim, node: Node) -> None:
        answer = await self.client.revise(claim, {"metadata": {"annotations": {SELECTED_NODE: node.name}}})
        self._claims.accept(answer)
        self._selections.note(claim.uid, asyncio.get_running_loop().time())

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if old is not None and (new is None or new.spec.volume_name):
            self._selections.end(old.uid)

    async def _unschedulable(self, pod: Pod, reason: Reason) -> None:
        if not self.recorder.once(pod, "Warning", reason):
            return
        held = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        if held is not None and held.status == "False" and held.message == reason.message:
            return  # a predecessor has said so
        since = held.last_transition_time if held is not None and held.status == "False" else None
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": reason.message,
            "lastTransitionTime": since or format_time(self.now()),
            "observedGeneration": pod.metadata.generation,
        }
        others = [c for c in pod.status.conditions if c.type != "PodScheduled"]
        patch = {"status": {"conditions": [condition]}}
        if not others:
            answer = await self.client.patch(
                Pod, pod.name, patch, pod.namespace, subresource="status", uid=pod.uid, strategy="strategic"
            )
            self._pods.accept(answer)


def _runs(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not pod.finished


def _waits(pod: Pod) -> bool:
    return (
        not pod.spec.node_name
        and not pod.deleting
        and not pod.finished
        and pod.spec.scheduler_name == SCHEDULER_NAME
    )

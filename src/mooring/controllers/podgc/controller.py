"""The pod garbage collector. A key is a pod.

A removal is decided on a live read of the node. The pod's phase is set to Failed first, so that owners and
users see how it ended. Both writes carry the pod's uid and resourceVersion: an agent that creates its Node
anew has written its pods before, so a removal that was decided because the Node was absent is refused then. A
pod that is written while its Node is absent may be that agent's work: its quarantine begins again.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import assert_never

from mooring.controllers.podgc.decide import (
    MOST_ENDED,
    QUARANTINE_S,
    Action,
    Fence,
    decide,
    fence_about,
    surplus,
)
from mooring.kube.batches import one_by_one
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.disruption import disruption
from mooring.kube.errors import NotFound
from mooring.kube.objects import Node, Pod
from mooring.kube.objects.fencing import NodeFence
from mooring.kube.reason import Reason
from mooring.kube.times import Now

RISK = (
    "that counts as the statement that nothing runs there any more; if its machine is only cut off, a second pod of "
    "this name may run beside the first"
)
LOOK_S = 30.0
"""Seconds after which it is looked at again what a fence of a Node that is gone has shown."""
_TOO_MANY = Reason("TooManyEnded", "more pods have ended than may stay")


class PodGCController(Controller[str]):
    """Upstream's pod-garbage-collector, driven by events instead of a loop over all pods."""

    name = "pod-garbage-collector"

    def __init__(
        self,
        client: Client,
        *,
        now: Now,
        random: Random,
        most_ended: int = MOST_ENDED,
        deletion_confirms: bool = True,
    ) -> None:
        """`deletion_confirms`: the deletion of a Node states that nothing of its machine runs any more."""
        super().__init__(client, now=now, random=random)
        self._most_ended = most_ended
        self._deletion_confirms = deletion_confirms
        self._pods = self.watch(
            Pod,
            self._of_concern,
            indexers={
                "node": lambda pod: [pod.spec.node_name],
                "ended": lambda pod: ["yes"] if pod.finished and not pod.deleting else [],
            },
        )
        self._nodes = self.watch(
            Node, self._pods_of_node, matters=lambda node: (node.ready, node.spec.taints)
        )
        self._orphans: dict[str, tuple[str, float]] = {}
        """Pods without a Node: their resourceVersion, and since when (the loop's time) both are so."""

    def _of_concern(self, pod: Pod) -> list[str]:
        return [pod.key] if self._may_be_removed(pod) or (pod.finished and self._too_many_ended()) else []

    def _too_many_ended(self) -> bool:
        return 0 < self._most_ended < self._pods.count("ended", "yes")

    def _may_be_removed(self, pod: Pod) -> bool:
        """By the caches, where a Node that is gone is looked into: its fence may have shown something."""
        return decide(pod, self._nodes.get(pod.spec.node_name)).action is Action.REMOVE

    def _pods_of_node(self, node: Node) -> list[str]:
        pods = [pod.key for pod in self._pods.by_index("node", node.name)]
        for key in pods:
            self._orphans.pop(key, None)
        return pods

    async def reconcile(self, key: str) -> None:
        """Removes one pod if that is permitted, and the oldest of the ended ones if they are too many."""
        await one_by_one((self._remove_oldest, self._remove_lost), lambda part: part(key))

    async def _remove_oldest(self, key: str) -> None:
        """Those that may be removed anyway have keys of their own."""
        pod = self._pods.get(key)
        if pod is not None and pod.finished and self._too_many_ended():
            oldest = surplus(self._pods.by_index("ended", "yes"), self._most_ended)
            others = [each for each in oldest if not self._may_be_removed(each)]
            await one_by_one(others, lambda each: self._remove(each, _TOO_MANY))

    async def _remove_lost(self, key: str) -> None:
        """Removes the pod if that is permitted."""
        pod = self._pods.get(key)
        if pod is None or not self._may_be_removed(pod):
            self._orphans.pop(key, None)
            return
        if (
            self._nodes.get(pod.spec.node_name) is None
            and pod.spec.node_name
            and (left := self._quarantine(pod)) > 0
        ):
            self.queue.add_after(key, left)
            return
        live = await self.client.find(Node, pod.spec.node_name) if pod.spec.node_name else None
        gone = live is None and bool(pod.spec.node_name)
        fence = await self._fence_about(pod) if gone else Fence.NONE
        decision = decide(pod, live, deletion_confirms=self._deletion_confirms, fence=fence)
        match decision.action:
            case Action.KEEP:
                if gone:
                    self.queue.add_after(key, LOOK_S)
            case Action.REMOVE:
                await self._remove(pod, decision.reason)
            case _:
                assert_never(decision.action)

    async def _fence_about(self, pod: Pod) -> Fence:
        """By a live read; a cluster that does not know fences has none."""
        try:
            return fence_about(pod, (await self.client.list(NodeFence)).items)
        except NotFound:
            return Fence.NONE

    async def _remove(self, pod: Pod, reason: Reason) -> None:
        marked = await self._marked_failed(pod, reason.message)
        version = marked.metadata.resource_version
        await self.client.delete(
            Pod, pod.name, pod.namespace, uid=pod.uid, resource_version=version, grace_period_seconds=0
        )
        self.log.warning("removed", pod=pod.key, reason=reason.message)
        if reason.code == "orphaned":
            self.recorder.event(pod, "Warning", "RemovedWithItsNode", f"{reason.message}: {RISK}")

    def _quarantine(self, pod: Pod) -> float:
        """Returns for how many more seconds the pod must stay unchanged, without its Node."""
        now, version = asyncio.get_running_loop().time(), pod.metadata.resource_version
        held, since = self._orphans.get(pod.key, ("", now))
        if held != version:
            since = now
        self._orphans[pod.key] = version, since
        return QUARANTINE_S - (now - since)

    async def _marked_failed(self, pod: Pod, message: str) -> Pod:
        if pod.finished:
            return pod
        condition = disruption("DeletionByPodGC", f"PodGC: {message}", self.now())
        status = {"phase": "Failed", "conditions": [condition]}
        marked = await self.client.revise(pod, {"status": status}, subresource="status", strategy="strategic")
        self._pods.accept(marked, tell=False)  # if the removal fails, the next try has the new version
        if pod.key in self._orphans:
            self._orphans[pod.key] = marked.metadata.resource_version, self._orphans[pod.key][1]
        return marked

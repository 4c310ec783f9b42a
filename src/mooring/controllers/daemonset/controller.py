"""The DaemonSet controller. A key is a DaemonSet.

A pod that has failed is replaced after a backoff for its node: a node that refuses the pod would otherwise be
asked without end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice
from random import Random
from typing import assert_never

import msgspec

from mooring.controllers.daemonset.decide import decide, status
from mooring.controllers.daemonset.placement import node_of, pod_body
from mooring.controllers.daemonset.pod_decision import FAILED, SUCCEEDED, Action, PodDecision
from mooring.kube.adoption import Adopter, orphaned_in
from mooring.kube.batches import one_by_one
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import ApiError
from mooring.kube.objects import ControllerRevision, DaemonSet, Node, Pod
from mooring.kube.owners import controller_uid
from mooring.kube.readiness import available_at
from mooring.kube.revisions import REVISION, Revisions, hash_of, name_by_hash
from mooring.kube.selectors import label_selector_of
from mooring.kube.times import Now

MOST_AT_ONCE = 250
"""Pods created or deleted without a pause; the rest follows when their watch events come (upstream's
burstReplicas)."""
MOST_REFUSED = 5
"""After so many creations that were refused one after the other, no more are tried for now."""
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 900.0
"""Seconds for which a failed pod stays before it is replaced, doubled with each that fails on its node."""


class DaemonSetController(Controller[str]):
    """Upstream's daemonset controller."""

    name = "daemonset-controller"

    def __init__(self, client: Client, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._sets = self.watch(
            DaemonSet, lambda each: [each.key], indexers={"namespace": lambda each: [each.namespace]}
        )
        self._pods = self.watch(Pod, self._touched, indexers={"owner": controller_uid, "orphan": orphaned_in})
        self._nodes = self.watch(Node, lambda _: [each.key for each in self._sets.items()], matters=_places)
        self._adopter = Adopter(client, self._pods)
        history = self.watch(ControllerRevision, indexers={"owner": controller_uid})
        self._revisions = Revisions(client, history)
        self._revisions.call_when_changed(DaemonSet.RESOURCE.kind, self.queue.add)
        self._backoffs: dict[tuple[str, str], tuple[float, float]] = {}
        """Of a set (by uid) on a node: until when (the loop's time) it waits, and how long the next time."""
        self._sets.when_gone(self._forget_set)

    async def reconcile(self, key: str) -> None:
        """Adopts, releases, creates and deletes pods, then updates the status."""
        self._forget_what_ran_for_long()
        daemon_set = self._sets.get(key)
        if daemon_set is None or daemon_set.deleting:
            return
        name = await self._revisions.present(daemon_set)
        revision = hash_of(name)
        pods = (
            *self._pods.by_index("owner", daemon_set.uid),
            *self._pods.by_index("orphan", daemon_set.namespace),
        )
        await self._adopter.settle(daemon_set, label_selector_of(daemon_set.spec.selector), pods)
        ours = self._pods.by_index("owner", daemon_set.uid)  # as they are now: to adopt takes time
        decisions = decide(daemon_set, list(self._nodes.items()), ours, revision, self.now())
        try:
            due = (each for each in decisions if not self._waits(daemon_set, each))
            await self._carry_out(daemon_set, islice(due, MOST_AT_ONCE), revision)
        finally:
            await self._update_status(daemon_set, revision)
        await self._delete_old_revisions(daemon_set, name)

    async def _carry_out(
        self, daemon_set: DaemonSet, decisions: Iterable[PodDecision], revision: str
    ) -> None:
        """What is refused on one node keeps no other waiting. Creations may all be refused for one reason:
        after some in a row no more are tried."""
        refused = 0

        async def carry_out(decision: PodDecision) -> None:
            nonlocal refused
            match decision.action:
                case Action.CREATE if refused >= MOST_REFUSED:
                    pass
                case Action.CREATE:
                    refused += 1
                    await self._create(daemon_set, decision.node, revision)
                    refused = 0
                case Action.DELETE:
                    assert decision.pod is not None, f"{decision.action} without a pod"
                    await self._delete(daemon_set, decision.pod, decision)
                case _:
                    assert_never(decision.action)

        await one_by_one(decisions, carry_out)

    def _waits(self, daemon_set: DaemonSet, decision: PodDecision) -> bool:
        """Whether a failed pod stays for now."""
        if decision.reason is not FAILED or decision.pod is None:
            return False
        place, now = (daemon_set.uid, node_of(decision.pod)), asyncio.get_running_loop().time()
        until, delay = self._backoffs.get(place, (0.0, FIRST_BACKOFF_S))
        if now < until:
            self.queue.add_after(daemon_set.key, until - now)
            return True
        self._backoffs[place] = now + delay, min(delay * 2, LONGEST_BACKOFF_S)
        return False

    def _forget_what_ran_for_long(self) -> None:
        """The next time it begins anew; or its node, or a set that went during its step, is gone."""
        ended = asyncio.get_running_loop().time() - 2 * LONGEST_BACKOFF_S
        self._backoffs = {place: each for place, each in self._backoffs.items() if each[0] >= ended}

    def _forget_set(self, gone: DaemonSet) -> None:
        self._backoffs = {place: each for place, each in self._backoffs.items() if place[0] != gone.uid}

    async def _create(self, daemon_set: DaemonSet, node: str, revision: str) -> None:
        body = pod_body(daemon_set, node, revision)
        try:
            created = await self.client.create(Pod, body, daemon_set.namespace)
        except ApiError as error:
            self.recorder.event(daemon_set, "Warning", "FailedCreate", f"Error creating: {error}")
            raise
        self._pods.accept(created)
        self.recorder.event(daemon_set, "Normal", "SuccessfulCreate", f"Created pod: {created.name}")

    async def _delete(self, daemon_set: DaemonSet, pod: Pod, decision: PodDecision) -> None:
        if decision.reason in (FAILED, SUCCEEDED):
            about = f"Found {pod.status.phase.lower()} daemon pod {pod.key} on node {node_of(pod)}"
            kind = "Warning" if decision.reason is FAILED else "Normal"
            self.recorder.event(
                daemon_set, kind, decision.reason.code, f"{about}: it is deleted and replaced"
            )
        try:
            await self.client.delete(Pod, pod.name, pod.namespace, uid=pod.uid)
        except ApiError as error:
            self.recorder.event(daemon_set, "Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        self.recorder.event(daemon_set, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")
        ending = await self.client.find(Pod, pod.name, pod.namespace)
        if ending is not None:
            self._pods.accept(ending)  # otherwise the next decision would delete it once more

    async def _update_status(self, daemon_set: DaemonSet, revision: str) -> None:
        pods, now = self._pods.by_index("owner", daemon_set.uid), self.now()
        least = daemon_set.spec.min_ready_seconds
        moments = [each for pod in pods if (each := available_at(pod, least)) is not None and each > now]
        if moments:
            self.look_again(daemon_set.key, (min(moments) - now).total_seconds())
        wanted = status(daemon_set, list(self._nodes.items()), list(pods), revision, now)
        held = msgspec.to_builtins(daemon_set.status)
        if any(held.get(name, 0) != number for name, number in wanted.items()):
            body = {"status": wanted}
            answer = await self.client.revise(daemon_set, body, subresource="status", any_version=True)
            self._sets.accept(answer)

    async def _delete_old_revisions(self, daemon_set: DaemonSet, name: str) -> None:
        pods = self._pods.by_index("owner", daemon_set.uid)
        hashes = {pod.metadata.labels.get(REVISION, "") for pod in pods}
        used = {name, *(name_by_hash(daemon_set, each) for each in hashes)}
        await self._revisions.delete_old(daemon_set, used)

    def _touched(self, pod: Pod) -> list[str]:
        owner = pod.controller
        if owner is not None:
            return [f"{pod.namespace}/{owner.name}"] if owner.kind == DaemonSet.RESOURCE.kind else []
        sets = self._sets.by_index("namespace", pod.namespace)
        labels = pod.metadata.labels
        return [each.key for each in sets if label_selector_of(each.spec.selector).matches(labels)]


def _places(node: Node) -> object:
    """What decides whether a pod is placed on the node."""
    return node.metadata.labels, node.spec.taints

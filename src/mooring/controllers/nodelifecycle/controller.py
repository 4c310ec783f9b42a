"""The node life-cycle controller: notices nodes that do not answer, sets taints, evicts pods.

A node is judged by changes of its Lease or of its status's heartbeat, timed by this process's own clock:
after a restart each node gets a whole grace period again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, assert_never

import msgspec

from mooring.controllers.nodelifecycle.decide import (
    Heartbeat,
    NodeAction,
    NodeDecision,
    PodAction,
    decide_eviction,
    decide_node,
    evicts,
    former_labels,
    has_reported,
    lost_conditions,
    silent_for,
    taints_after,
)
from mooring.controllers.nodelifecycle.zones import Zones, zone_of
from mooring.kube.batches import one_by_one
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.disruption import disruption
from mooring.kube.first_seen import FirstSeen
from mooring.kube.keys import NodeKey, PodKey
from mooring.kube.objects import Lease, Node, Pod, Taint
from mooring.kube.readiness import ready_since
from mooring.kube.reason import Reason
from mooring.kube.times import Now, format_time
from mooring.volumes.statements import last_report

Key = NodeKey | PodKey

LEASES = "kube-node-lease"
LATE_S = 0.2
"""So late may a renewal be known: with 400 nodes 40 come in a second, and to wake for each costs most."""


class NodeLifecycleController(Controller[Key]):
    """Upstream's node-lifecycle and taint-eviction controllers in one. `grace_period` in seconds."""

    name = "node-controller"

    def __init__(self, client: Client, *, grace_period: float, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._grace = grace_period
        self._nodes = self.watch(Node, lambda node: [NodeKey(node.name)])
        self._nodes.add_handler(self._taints_changed)
        self._nodes.add_handler(self._zones_changed)
        self._zones = Zones()
        self._next_taint: dict[str, float] = {}
        """Zone -> when (the loop's time) its next node may get a NoExecute taint."""
        self._leases = self.watch(Lease, gather=LATE_S)
        self._leases.add_handler(self._renewed)
        self._pods = self.watch(Pod, self._of_concern, indexers={"node": lambda pod: [pod.spec.node_name]})
        self._heartbeats: dict[str, Heartbeat] = {}
        self._under = FirstSeen[PodKey, Taint]()
        """Pods, and the NoExecute taints that each is under."""
        self._evicted: set[str] = set()
        """Uids of pods whose deletion was asked for, until the cache shows it."""
        self._pods.add_handler(self._pod_changed)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.deleting):
            self._evicted.discard(old.uid)
            self._under.ages(PodKey(old.key), {})

    def _of_concern(self, pod: Pod) -> list[Key]:
        node = self._nodes.get(pod.spec.node_name)
        well = node is not None and node.ready != "Unknown" and not node.spec.taints
        return [] if well else [PodKey(pod.key)]

    def _renewed(self, _: Lease | None, new: Lease | None) -> None:
        # Renewals are many: they only update the heartbeat, and mark nothing.
        if new is not None and new.namespace == LEASES and new.name in self._heartbeats:
            node = self._nodes.get(new.name)
            if node is not None:
                self._note(node)

    def _taints_changed(self, old: Node | None, new: Node | None) -> None:
        if new is not None and (old is None or old.spec.taints != new.spec.taints):
            for pod in self._pods.by_index("node", new.name):
                self.queue.add(PodKey(pod.key))

    def _zones_changed(self, old: Node | None, new: Node | None) -> None:
        if self._zones.note(old, new):
            for node in self._nodes.items():
                if node.ready != "True":
                    self.queue.add(NodeKey(node.name))

    async def reconcile(self, key: Key) -> None:
        """Looks at one node or one pod."""
        if isinstance(key, PodKey):
            await self._look_at_pod(key)
        elif (node := self._nodes.get(key.name)) is None:
            self._heartbeats.pop(key.name, None)
        else:
            # Taints make pods go: neither the node's status nor its labels, if they are refused, keep them.
            parts = (self._judge, self._set_taints, self._set_labels)
            await one_by_one(parts, lambda part: self._do(part, node.name))

    # --- nodes

    def _note(self, node: Node) -> Heartbeat:
        """Returns the node's last sign of life, brought up to date."""
        lease = self._leases.get(f"{LEASES}/{node.name}")
        ready = next((c for c in node.status.conditions if c.type == "Ready"), None)
        beat = (ready.last_heartbeat_time or "") if ready is not None and ready.status != "Unknown" else ""
        renewed = (lease.spec.renew_time or "") if lease is not None else ""
        signs = (node.uid, renewed, beat, last_report(node))  # by a clock that was set back, two may be alike
        held = self._heartbeats.get(node.name)
        if held is None or any(new and new != old for new, old in zip(signs, held.signs, strict=True)):
            held = Heartbeat(signs, asyncio.get_running_loop().time())
            self._heartbeats[node.name] = held
        return held

    async def _do(self, part: Callable[[Node], Awaitable[None]], name: str) -> None:
        """One part of the work, by the Node as it is known by then."""
        if (node := self._nodes.get(name)) is not None:
            await part(node)

    async def _judge(self, node: Node) -> None:
        decision = self._decide(node)
        if decision.action is NodeAction.SET_UNKNOWN:
            await self._read_lease(node)
            decision = self._decide(node)
        match decision.action:
            case NodeAction.WAIT:
                self.queue.add_after(NodeKey(node.name), decision.after)
            case NodeAction.SET_UNKNOWN:
                await self._set_unknown(node, decision.reason)
            case NodeAction.SETTLED:
                pass
            case _:
                assert_never(decision.action)

    def _decide(self, node: Node) -> NodeDecision:
        silence = silent_for(self._note(node), asyncio.get_running_loop().time())
        return decide_node(node, silence, self._grace)

    async def _read_lease(self, node: Node) -> None:
        """Brings the cache up to date: if this process was paused, or its watch has stood still, all nodes
        seem to be silent. A status that the cache lacks makes the write fail."""
        lease = await self.client.find(Lease, node.name, LEASES)
        if lease is not None:
            self._leases.accept(lease)

    async def _set_labels(self, node: Node) -> None:
        if labels := former_labels(node):
            self._nodes.accept(await self.client.revise(node, {"metadata": {"labels": labels}}))

    async def _set_unknown(self, node: Node, reason: Reason) -> None:
        message, stamp = reason.message, format_time(self.now())
        lost = {
            "status": "Unknown",
            "reason": "NodeStatusUnknown" if has_reported(node) else "NodeStatusNeverUpdated",
            "message": message,
            "lastTransitionTime": stamp,
        }
        conditions = [{"type": each, **lost} for each in lost_conditions(node)]
        answer = await self.client.revise(
            node, {"status": {"conditions": conditions}}, subresource="status", strategy="strategic"
        )
        self._nodes.accept(answer)
        self.log.warning(reason.code, node=node.name, reason=message)
        self.recorder.event(node, "Warning", *reason)
        for pod in self._pods.by_index("node", node.name):
            self.queue.add(PodKey(pod.key))

    async def _set_taints(self, node: Node) -> None:
        wanted = taints_after(node, format_time(self.now()), evict=self._may_evict(node))
        if list(node.spec.taints) == wanted:
            return
        if evicts(wanted) and not evicts(node.spec.taints):
            zone = zone_of(node)
            self._next_taint[zone] = asyncio.get_running_loop().time() + (self._zones.pause(zone) or 0.0)
        body: list[Any] = msgspec.to_builtins(wanted)
        answer = await self.client.revise(node, {"spec": {"taints": body or None}})
        self._nodes.accept(answer)
        self.log.info("Tainted", node=node.name, taints=[f"{t.key}:{t.effect}" for t in wanted])

    def _may_evict(self, node: Node) -> bool:
        """Whether the node's pods may be made to go now; if they may later, it is looked at again then."""
        zone, held = zone_of(node), evicts(node.spec.taints)
        pause = self._zones.pause(zone)
        if pause is None:
            return held and not self._zones.all_silent
        wait = self._next_taint.get(zone, 0.0) - asyncio.get_running_loop().time()
        if held or node.ready == "True" or wait <= 0:
            return True
        self.queue.add_after(NodeKey(node.name), wait)
        return False

    # --- pods

    async def _look_at_pod(self, key: PodKey) -> None:
        """What its status may not say keeps it not from being evicted."""
        await one_by_one((self._show_as_not_ready, self._evict), lambda part: self._do_for(part, key))

    async def _do_for(self, part: Callable[[Pod, Node], Awaitable[None]], key: PodKey) -> None:
        pod = self._pods.get(key.name)
        node = self._nodes.get(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None or pod.finished:
            self._under.ages(key, {})
            return
        await part(pod, node)

    async def _show_as_not_ready(self, pod: Pod, node: Node) -> None:
        if node.ready == "Unknown" and has_reported(node) and ready_since(pod) is not None:
            stamp = format_time(self.now())
            condition = {
                "type": "Ready",
                "status": "False",
                "reason": "NodeNotReady",
                "lastTransitionTime": stamp,
            }
            await self._patch_pod_status(pod, {"conditions": [condition]})

    async def _evict(self, pod: Pod, node: Node) -> None:
        """Evicts the pod when its tolerations of the node's taints have run out."""
        if pod.deleting or pod.uid in self._evicted:
            return
        ages = self._ages(node, pod)
        decision = decide_eviction(pod, ages)
        match decision.action:
            case PodAction.KEEP:
                pass
            case PodAction.EVICT if decision.after > 0:
                self.queue.add_after(PodKey(pod.key), decision.after)
            case PodAction.EVICT:
                if await self._is_still_due(pod, ages):
                    await self._delete_tainted(pod, decision.reason, ages)
            case _:
                assert_never(decision.action)

    async def _is_still_due(self, pod: Pod, ages: Mapping[Taint, float]) -> bool:
        """Whether the pod is to be evicted by what its Node says now. By a late cache, each successor of it
        that the scheduler, which knows better, places there would be."""
        live = await self.client.find(Node, pod.spec.node_name)
        if live is not None:
            self._nodes.accept(live)
        return _is_due(pod, live, ages)

    async def _delete_tainted(self, pod: Pod, reason: Reason, ages: Mapping[Taint, float]) -> None:
        message = reason.message
        condition = disruption("DeletionByTaintManager", f"Taint manager: {message}", self.now())
        await self._patch_pod_status(pod, {"conditions": [condition]})
        known = self._pods.get(pod.key)  # as it is by now: the write took time
        if known is None or not _is_due(known, self._nodes.get(known.spec.node_name), ages):
            return
        self._evicted.add(pod.uid)
        try:
            await self.client.delete(Pod, pod.name, pod.namespace, uid=pod.uid)
        except BaseException:  # its outcome is not known
            self._evicted.discard(pod.uid)
            raise
        self.log.info("Evicted", pod=pod.key, reason=message)
        self.recorder.event(pod, "Normal", reason.code, f"Marking for deletion: {message}")

    def _ages(self, node: Node, pod: Pod) -> dict[Taint, float]:
        """Returns for how many seconds this process has seen the pod under each NoExecute taint of its node,
        whatever times the taint and the pod say. After a restart it tolerates them anew, as with upstream's
        controller."""
        taints = (each for each in node.spec.taints if each.effect == "NoExecute")
        return self._under.ages(PodKey(pod.key), dict.fromkeys(taints, pod.uid))

    async def _patch_pod_status(self, pod: Pod, status: dict[str, Any]) -> None:
        answer = await self.client.revise(
            pod, {"status": status}, subresource="status", any_version=True, strategy="strategic"
        )
        self._pods.accept(answer)


def _is_due(pod: Pod, node: Node | None, ages: Mapping[Taint, float]) -> bool:
    """Whether the pod is to be evicted now, as far as the Node has those taints still."""
    taints = node.spec.taints if node is not None else ()
    decision = decide_eviction(pod, {taint: age for taint, age in ages.items() if taint in taints})
    return decision.action is PodAction.EVICT and decision.after <= 0

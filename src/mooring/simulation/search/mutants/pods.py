"""Mutants of the controllers that decide which pods exist: StatefulSets, node life cycle, pod garbage
collection."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

from typing import Any

from mooring.controllers.nodelifecycle.controller import NodeLifecycleController
from mooring.controllers.podgc import controller as podgc
from mooring.controllers.podgc.controller import PodGCController
from mooring.controllers.podgc.decide import Action
from mooring.controllers.statefulset import controller as statefulset
from mooring.kube.client import Client
from mooring.kube.decision import Decision
from mooring.kube.objects import Node, Pod
from mooring.kube.reason import Reason
from mooring.simulation.search.mutants import scenarios
from mooring.simulation.search.mutants.mutant import Mutant, Patch


def _by_name(original: Any) -> Any:
    async def delete(self: Any, kind: Any, name: str, namespace: str = "", **given: Any) -> None:
        if kind is Pod:
            given.pop("uid", None)
        await original(self, kind, name, namespace, **given)

    return delete


def _any_ending_pod(original: Any) -> Any:
    def decide(pod: Pod, node: Node | None, **policy: Any) -> Any:
        if pod.deleting:
            return Decision(Action.REMOVE, Reason("Mutant", "is being deleted"))
        return original(pod, node, **policy)

    return decide


def _believe_the_cache(original: Any) -> Any:
    async def reconcile(self: Any, key: str) -> None:
        pod = self._pods.get(key)
        if pod is not None and pod.spec.node_name and self._nodes.get(pod.spec.node_name) is None:
            await self.client.delete(Pod, pod.name, pod.namespace, uid=pod.uid, grace_period_seconds=0)
            return
        await original(self, key)

    return reconcile


def _replace_ending(original: Any) -> Any:
    async def reconcile(self: Any, key: str) -> None:
        found = self._sets.get(key)
        for pod in self._pods_of(found).values() if found is not None else ():
            if pod.deleting:
                await self.client.delete(Pod, pod.name, pod.namespace, uid=pod.uid, grace_period_seconds=0)
        await original(self, key)

    return reconcile


def _note_whose_node_it_was(original: Any) -> Any:
    async def set_unknown(self: Any, node: Node, *more: Any) -> Node:
        answer: Node = await original(self, node, *more)
        here = self._pods.by_index("node", node.name)
        vars(self).setdefault("_to_mark", set[str]()).update(pod.uid for pod in here)
        return answer

    return set_unknown


def _only_by_who_wrote_unknown(original: Any) -> Any:
    async def look_at_pod(self: Any, pod: Pod | None) -> None:
        node = self._nodes.get(pod.spec.node_name) if pod is not None else None
        to_mark = getattr(self, "_to_mark", ())
        if pod is None or node is None or node.ready != "Unknown" or pod.uid in to_mark:
            await original(self, pod)
        elif not pod.deleting and not pod.finished:
            await self._evict(pod, node)

    return look_at_pod


MUTANTS: dict[str, Mutant] = {
    "B36": Mutant(
        "a pod is deleted by its name, whichever pod has it now",
        "kubernetes/kubernetes#25169, #82387",
        ("S2",),
        scenarios.PLAIN,
        (Patch(Client, "delete", _by_name),),
    ),
    "B38": Mutant(
        "the pod garbage collector removes a pod that still ends on its node",
        "kubernetes/kubernetes#131775, #120917",
        ("S1", "S7'"),
        scenarios.PLAIN,
        (Patch(podgc, "decide", _any_ending_pod),),
    ),
    "B39": Mutant(
        "a node that a cache does not show yet counts as gone, and its pods as orphans",
        "kubernetes/kubernetes#22545, #32495",
        ("S1", "S24"),
        scenarios.YOUNG,
        (Patch(PodGCController, "reconcile", _believe_the_cache),),
    ),
    "B41": Mutant(
        "pods are shown as not ready only by the controller that wrote Unknown on their node, not by its successor",
        "kubernetes/kubernetes#50067, #135205",
        ("L8",),
        scenarios.SILENT,
        (
            Patch(NodeLifecycleController, "_set_unknown", _note_whose_node_it_was),
            Patch(NodeLifecycleController, "_look_at_pod", _only_by_who_wrote_unknown),
        ),
        omits="pods of a silent machine stay shown as ready; they are evicted and kept as they should be",
    ),
    "P1": Mutant(
        "a StatefulSet does not wait for a pod that ends: it removes it by force",
        "the pod-safety document: only a node may say that its pod is gone",
        ("S1",),
        scenarios.PLAIN,
        (Patch(statefulset.StatefulSetController, "reconcile", _replace_ending),),
    ),
}

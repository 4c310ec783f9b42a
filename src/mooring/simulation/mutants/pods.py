"""Mutants of the controllers that decide which pods exist: StatefulSets, node life cycle, pod garbage collection."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

from typing import Any

from mooring.controllers.podgc import controller as podgc
from mooring.controllers.podgc.controller import PodGCController
from mooring.controllers.statefulset import controller as statefulset
from mooring.kube.client import Client
from mooring.kube.objects import Node, Pod
from mooring.kube.reason import Reason
from mooring.simulation.mutants import grounds
from mooring.simulation.mutants.mutant import Mutant, Patch


def _by_name(original: Any) -> Any:
    async def delete(self: Any, kind: Any, name: str, namespace: str = "", **given: Any) -> None:
        if kind is Pod:
            given.pop("uid", None)
        await original(self, kind, name, namespace, **given)

    return delete


def _any_ending_pod(original: Any) -> Any:
    def decide(pod: Pod, node: Node | None) -> Reason | None:
        return Reason("Mutant", "is being deleted") if pod.deleting else original(pod, node)

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


MUTANTS: dict[str, Mutant] = {
    "B36": Mutant(
        "a pod is deleted by its name, whichever pod has it now",
        "kubernetes/kubernetes#25169, #82387",
        ("S2",),
        grounds.PLAIN,
        (Patch(Client, "delete", _by_name),),
    ),
    "B38": Mutant(
        "the pod garbage collector removes a pod that still ends on its node",
        "kubernetes/kubernetes#131775, #120917",
        ("S1", "S7'"),
        grounds.PLAIN,
        (Patch(podgc, "decide", _any_ending_pod),),
    ),
    "B39": Mutant(
        "a node that a cache does not show yet counts as gone, and its pods as orphans",
        "kubernetes/kubernetes#22545, #32495",
        ("S1",),
        grounds.YOUNG,
        (Patch(PodGCController, "reconcile", _believe_the_cache),),
    ),
    "P1": Mutant(
        "a StatefulSet does not wait for a pod that ends: it removes it by force",
        "the pod-safety document: only a node may say that its pod is gone",
        ("S1",),
        grounds.PLAIN,
        (Patch(statefulset.StatefulSetController, "reconcile", _replace_ending),),
    ),
}

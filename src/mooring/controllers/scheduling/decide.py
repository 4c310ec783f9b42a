"""Which node a pod goes to, or why none will do. Pure.

Filters: the node is Ready and schedulable, tolerated taints, nodeSelector and required node affinity, volumes that can
be used there, ReadWriteOncePod. Among the rest: the fewest pods, then the name. Resource requests are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from mooring.kube.objects import (
    Node,
    NodeSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from mooring.kube.reason import Reason
from mooring.kube.taints import matching
from mooring.volumes.matching import SELECTED_NODE, WAIT_FOR_FIRST_CONSUMER, find_match
from mooring.volumes.topology import fits, selector_matches

ONE_POD_ONLY = ("ReadWriteOncePod",)


class Choice(NamedTuple):
    """The node, or None and why."""

    node: Node | None
    reason: Reason


@dataclass(frozen=True)
class PodVolume:
    """A claim of the pod with what is known about it. `others`: pods that use the claim, too."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume | None
    storage_class: StorageClass | None
    others: tuple[str, ...] = ()

    @property
    def bound(self) -> bool:
        return self.claim.status.phase == "Bound" and self.volume is not None

    @property
    def delayed(self) -> bool:
        storage_class = self.storage_class
        return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def choose(
    pod: Pod,
    volumes: Sequence[PodVolume],
    nodes: Iterable[Node],
    free: Sequence[PersistentVolume],
    pods_on: Callable[[str], int],
) -> Choice:
    """The node for a pod whose claims all exist. `free` are volumes that an unbound claim could get."""
    obstacle = _obstacle(volumes)
    if obstacle is not None:
        return Choice(None, obstacle)
    considered = list(nodes)
    problems = {node.name: _problem(pod, volumes, node, free) for node in considered}
    fitting = [node for node in considered if problems[node.name] is None]
    if fitting:
        best = min(fitting, key=lambda node: (pods_on(node.name), node.name))
        return Choice(best, Reason("Scheduled", f"Successfully assigned {pod.key} to {best.name}"))
    counts = Counter(problem for problem in problems.values() if problem)
    listed = ", ".join(f"{count} {problem}" for problem, count in sorted(counts.items()))
    message = f"0/{len(considered)} nodes are available" + (f": {listed}." if listed else ".")
    return Choice(None, Reason("FailedScheduling", message))


def _obstacle(volumes: Sequence[PodVolume]) -> Reason | None:
    """What keeps the pod from every node."""
    for each in volumes:
        if each.claim.deleting:
            return Reason("FailedScheduling", f'persistentvolumeclaim "{each.claim.name}" is being deleted')
        if not each.bound and not each.delayed:
            return Reason("FailedScheduling", f"pod has unbound immediate PersistentVolumeClaims: {each.claim.name}")
        if each.claim.spec.access_modes == ONE_POD_ONLY and each.others:
            users = ", ".join(each.others)
            message = f"claim {each.claim.name} is ReadWriteOncePod and in use by {users}"
            return Reason("FailedScheduling", message)
    return None


def _problem(pod: Pod, volumes: Sequence[PodVolume], node: Node, free: Sequence[PersistentVolume]) -> str | None:
    """Why the pod cannot go to the node, in upstream's words; None if it can."""
    if node.spec.unschedulable:
        return "node(s) were unschedulable"
    if node.ready != "True":
        return "node(s) were not ready"
    taint = next((t for t in node.spec.taints if t.effect != "PreferNoSchedule" and not matching(pod, t)), None)
    if taint is not None:
        return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    if not _wanted_here(pod, node):
        return "node(s) didn't match Pod's node affinity/selector"
    return _volume_problem(volumes, node, free)


def _wanted_here(pod: Pod, node: Node) -> bool:
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity: Mapping[str, Any] = (pod.spec.affinity.node_affinity if pod.spec.affinity else None) or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or selector_matches(msgspec.convert(required, NodeSelector), node)


def _volume_problem(volumes: Sequence[PodVolume], node: Node, free: Sequence[PersistentVolume]) -> str | None:
    for each in volumes:
        if each.bound:
            assert each.volume is not None
            if not fits(each.volume, node):
                return "node(s) had volume node affinity conflict"
        elif not _can_be_bound(each, node, free):
            return "node(s) didn't find available persistent volumes to bind"
        chosen = each.claim.metadata.annotations.get(SELECTED_NODE)
        if not each.bound and chosen and chosen != node.name:
            return "node(s) are not the one already selected for a claim"
    return None


def _can_be_bound(volume: PodVolume, node: Node, free: Sequence[PersistentVolume]) -> bool:
    storage_class = volume.storage_class
    provisions = storage_class is not None and storage_class.provisioner != "kubernetes.io/no-provisioner"
    return provisions or find_match(volume.claim, free, node) is not None

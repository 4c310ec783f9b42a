"""Which node a pod goes to, or why none will do. Pure.

Filters: the node is Ready and schedulable, tolerated taints, nodeSelector and required node affinity, volumes that can
be used there and attached beside those that it has, ReadWriteOncePod. Among the rest: the fewest pods, then the name.
Resource requests are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from mooring.kube.objects import (
    CSINode,
    Node,
    NodeSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from mooring.kube.reason import Reason
from mooring.kube.taints import matching
from mooring.volumes.free_volumes import FreeVolumes
from mooring.volumes.limits import Attachable, attachable, exceeds_limit
from mooring.volumes.matching import (
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    requested,
)
from mooring.volumes.topology import fits, selector_matches, topology_allowed

ONE_POD_ONLY = ("ReadWriteOncePod",)


class Load(NamedTuple):
    """What a node has already: how many pods, and (asked only if it matters) which attachable volumes they use."""

    pods: int
    volumes: Callable[[], Set[Attachable]] = frozenset
    csi_node: CSINode | None = None


class Choice(NamedTuple):
    """The node, or None and why. `matches`: the volume that is there for a claim, by the claim's key."""

    node: Node | None
    reason: Reason
    matches: Mapping[str, PersistentVolume] = {}


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
    def provisions(self) -> bool:
        """A volume can be made for the claim if none is there."""
        return self.storage_class is not None and self.storage_class.provisioner != NO_PROVISIONER

    @property
    def delayed(self) -> bool:
        storage_class = self.storage_class
        return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def choose(
    pod: Pod,
    volumes: Sequence[PodVolume],
    nodes: Iterable[Node],
    free: FreeVolumes,
    load: Callable[[str], Load],
    drivers: Set[str] = frozenset(),
) -> Choice:
    """The node for a pod whose claims all exist. `free` are volumes that an unbound claim could get, `drivers` the CSI
    drivers that some node has."""
    obstacle = _obstacle(volumes)
    if obstacle is not None:
        return Choice(None, obstacle)
    considered = list(nodes)
    problems = {node.name: _problem(pod, volumes, node, free, load(node.name), drivers) for node in considered}
    fitting = [node for node in considered if problems[node.name] is None]
    if fitting:
        best = min(fitting, key=lambda node: (load(node.name).pods, node.name))
        reason = Reason("Scheduled", f"Successfully assigned {pod.key} to {best.name}")
        return Choice(best, reason, matches(volumes, best, free))
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


def _problem(
    pod: Pod, volumes: Sequence[PodVolume], node: Node, free: FreeVolumes, load: Load, drivers: Set[str]
) -> str | None:
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
    return (
        _volume_problem(volumes, node, free)
        or _place_problem(volumes, node, free, load, drivers)
        or _limit_problem(volumes, node, free, load)
    )


def _place_problem(
    volumes: Sequence[PodVolume], node: Node, free: FreeVolumes, load: Load, drivers: Set[str]
) -> str | None:
    """Why a volume that has to be made cannot be made for the node."""
    found = matches(volumes, node, free)
    here = {each.name for each in load.csi_node.spec.drivers} if load.csi_node is not None else set[str]()
    for each in volumes:
        if each.bound or each.storage_class is None or each.claim.key in found:
            continue
        allowed = each.storage_class.allowed_topologies
        if allowed and not any(topology_allowed(term, node.metadata.labels) for term in allowed):
            return "node(s) were not where the claim's class allows volumes"
        if each.storage_class.provisioner in drivers - here:
            return "node(s) did not have the CSI driver of the claim's class"
    return None


def _limit_problem(volumes: Sequence[PodVolume], node: Node, free: FreeVolumes, load: Load) -> str | None:
    found = matches(volumes, node, free)
    places = (_place(each, found.get(each.claim.key)) for each in volumes)
    wanted = {each for each in places if each is not None}
    over = exceeds_limit(wanted, load.volumes, node, load.csi_node)
    return "node(s) exceed max volume count" if over else None


def _place(each: PodVolume, match: PersistentVolume | None) -> Attachable | None:
    """What the claim's volume, or the one that will be, takes of a node's places."""
    volume = each.volume if each.bound else match
    if volume is not None:
        return attachable(volume)
    return Attachable(each.storage_class.provisioner, each.claim.key) if each.storage_class is not None else None


def _wanted_here(pod: Pod, node: Node) -> bool:
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity: Mapping[str, Any] = (pod.spec.affinity.node_affinity if pod.spec.affinity else None) or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or selector_matches(msgspec.convert(required, NodeSelector), node)


def _volume_problem(volumes: Sequence[PodVolume], node: Node, free: FreeVolumes) -> str | None:
    found = matches(volumes, node, free)
    for each in volumes:
        if each.bound:
            assert each.volume is not None
            if not fits(each.volume, node):
                return "node(s) had volume node affinity conflict"
        elif not each.provisions and each.claim.key not in found:
            return "node(s) didn't find available persistent volumes to bind"
        chosen = each.claim.metadata.annotations.get(SELECTED_NODE)
        if not each.bound and chosen and chosen != node.name:
            return "node(s) are not the one already selected for a claim"
    return None


def matches(volumes: Sequence[PodVolume], node: Node, free: FreeVolumes) -> dict[str, PersistentVolume]:
    """The volumes that are there for the pod's unbound claims on a node, by the claim's key; each volume for one claim.

    Smaller claims choose first (upstream's order), and those that nothing can be provisioned for before the others.
    """
    found: dict[str, PersistentVolume] = {}
    taken: set[str] = set()
    for each in sorted((v for v in volumes if not v.bound), key=lambda v: (v.provisions, requested(v.claim))):
        match = free.find(each.claim, node, taken)
        if match is not None:
            found[each.claim.key] = match
            taken.add(match.name)
    return found

"""Which node a pod goes to, or why none will do. Pure.

Filters: the node is Ready and schedulable; the pod tolerates its taints; nodeSelector and required
node affinity match; the pod's volumes can be used there, and attached beside those that the node has;
ReadWriteOncePod; what the pod and others require of each other's places (`company`). Of the
remaining nodes: the one with the fewest pods, then the first by name. Resource requests are not
counted, and preferences rank nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from mooring.controllers.scheduling.company import ALONE, Company, obstacles
from mooring.controllers.scheduling.disks import conflict, is_exclusive
from mooring.controllers.scheduling.storage_capacity import has_room
from mooring.kube.decision import Decision
from mooring.kube.objects import (
    CSINode,
    CSIStorageCapacity,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from mooring.kube.owners import controller_uid
from mooring.kube.reason import Reason
from mooring.kube.taints import UNSCHEDULABLE, matching, untolerated
from mooring.volumes.free_volumes import FreeVolumes
from mooring.volumes.limits import (
    Attachable,
    attachable,
    attachable_inline,
    attachable_to_be,
    exceeds_limit,
)
from mooring.volumes.matching import (
    BIND_COMPLETED,
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    requested,
)
from mooring.volumes.migration import driver_of
from mooring.volumes.topology import fits, in_its_zone, topology_allowed, wanted_on

ONE_POD_ONLY = ("ReadWriteOncePod",)


class Load(NamedTuple):
    """The present load of a node: its number of pods, the attachable volumes that they use, and the pods
    (these are called only if it matters)."""

    pods: int
    volumes: Callable[[], Set[Attachable]] = frozenset
    csi_node: CSINode | None = None
    others: Callable[[], Iterable[Pod]] = tuple


class Action(Enum):
    """What to do with a pod that has no node."""

    BIND = "Bind"  # to the node of the choice, as soon as its claims are bound
    WAIT = "Wait"  # no node will do


class Obstacle(Enum):
    """Why a pod cannot go to one node, or to any. The event's reason is always upstream's
    FailedScheduling."""

    CLAIM_MISSING = "ClaimNotFound"
    CLAIM_BEING_DELETED = "ClaimBeingDeleted"
    CLAIM_LOST = "ClaimLost"
    CLAIM_OF_ANOTHER = "ClaimOfAnother"  # it has the name of an ephemeral volume's claim
    CLAIM_UNBOUND = "ClaimUnbound"  # of a class that does not wait for its first consumer
    CLAIM_IN_USE = "ClaimInUse"  # ReadWriteOncePod
    UNSCHEDULABLE = "NodeUnschedulable"
    NOT_READY = "NodeNotReady"
    TAINT = "UntoleratedTaint"
    NODE_AFFINITY = "NodeAffinity"
    VOLUME_AFFINITY = "VolumeNodeAffinity"
    VOLUME_ZONE = "VolumeZone"
    VOLUME_GONE = "VolumeGone"
    DISK_CONFLICT = "DiskConflict"
    NO_VOLUME = "NoVolumeToBind"
    NO_SPACE = "NoSpace"
    OTHER_NODE_SELECTED = "OtherNodeSelected"
    CLASS_TOPOLOGY = "ClassTopology"
    DRIVER_MISSING = "DriverMissing"
    VOLUME_LIMIT = "VolumeLimit"
    COMPANY = "Company"  # other pods: affinity, anti-affinity, spread


class Problem(NamedTuple):
    """An obstacle, and a message about it: of a node in upstream's words, to be counted;
    else a whole sentence."""

    obstacle: Obstacle
    message: str


class Choice(Decision[Action], frozen=True, gc=False):
    """Where a pod goes. `node`: for BIND. `matches`: the volumes that exist for its claims, by the
    claims' keys. `obstacles`: for WAIT."""

    node: Node | None = None
    matches: Mapping[str, PersistentVolume] = {}
    obstacles: frozenset[Obstacle] = frozenset()


@dataclass(frozen=True)
class PodVolume:
    """A claim of the pod with what is known about it. `others`: other pods that use the claim. `capacities`:
    what its class's driver says it has; None if it does not say so (`CSIDriver.spec.storageCapacity`)."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume | None
    storage_class: StorageClass | None
    others: tuple[str, ...] = ()
    capacities: tuple[CSIStorageCapacity, ...] | None = None

    @property
    def bound(self) -> bool:
        """Whether the binder has said that claim and volume have each other."""
        return bool(self.claim.spec.volume_name) and BIND_COMPLETED in self.claim.metadata.annotations

    @property
    def provisions(self) -> bool:
        """Whether a volume can be made for the claim if none exists."""
        return self.storage_class is not None and self.storage_class.provisioner not in ("", NO_PROVISIONER)

    @property
    def delayed(self) -> bool:
        """Whether a node is chosen first. A claim that names its volume waits for the binder instead."""
        storage_class = self.storage_class
        if storage_class is None or self.claim.spec.volume_name:
            return False
        return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def choose(
    pod: Pod,
    volumes: Sequence[PodVolume],
    nodes: Iterable[Node],
    free: FreeVolumes,
    load: Callable[[str], Load],
    drivers: Set[str] = frozenset(),
    company: Company = ALONE,
) -> Choice:
    """Returns the choice for a pod whose claims all exist. `free` are the volumes that an unbound claim could
    get, `drivers` the CSI drivers that are registered on at least one node, `company` the pods that have
    nodes: all if the pod `needs_company`, else at least those that `keep_others_away`."""
    considered = list(nodes)
    obstacle = _obstacle(pod, volumes, len(considered))
    if obstacle is not None:
        return _wait(obstacle.message, obstacle.obstacle)
    of_company = obstacles(pod, considered, company)
    problems = {
        node.name: _problem(pod, volumes, node, free, load(node.name), drivers)
        or _company_problem(of_company(node))
        for node in considered
    }
    fitting = [node for node in considered if problems[node.name] is None]
    if fitting:
        best = min(fitting, key=lambda node: (load(node.name).pods, node.name))
        reason = Reason("Scheduled", f"Successfully assigned {pod.key} to {best.name}")
        return Choice(Action.BIND, reason, best, matches(volumes, best, free))
    found = [problem for problem in problems.values() if problem is not None]
    counts = Counter(problem.message for problem in found)
    listed = ", ".join(f"{count} {problem}" for problem, count in sorted(counts.items()))
    message = f"0/{len(considered)} nodes are available" + (f": {listed}." if listed else ".")
    return _wait(message, *(problem.obstacle for problem in found))


def missing_claim(key: str) -> Choice:
    """The choice for a pod with a claim that does not exist."""
    name = key.partition("/")[2]
    return _wait(f'persistentvolumeclaim "{name}" not found', Obstacle.CLAIM_MISSING)


def _wait(message: str, *obstacles: Obstacle) -> Choice:
    return Choice(Action.WAIT, Reason("FailedScheduling", message), obstacles=frozenset(obstacles))


def _obstacle(pod: Pod, volumes: Sequence[PodVolume], nodes: int) -> Problem | None:
    """Returns what keeps the pod from every one of the `nodes`; None if nothing does."""
    ephemeral = {f"{pod.name}-{volume.name}" for volume in pod.spec.volumes if volume.ephemeral is not None}
    for each in volumes:
        named = f'persistentvolumeclaim "{each.claim.name}"'
        if each.claim.deleting:
            return Problem(Obstacle.CLAIM_BEING_DELETED, f"{named} is being deleted")
        if each.claim.status.phase == "Lost":
            volume = each.claim.spec.volume_name
            return Problem(Obstacle.CLAIM_LOST, f'{named} bound to non-existent persistentvolume "{volume}"')
        if each.claim.name in ephemeral and controller_uid(each.claim) != [pod.uid]:
            whose = f"PVC {each.claim.key} was not created for pod {pod.key} (pod is not owner)"
            return Problem(Obstacle.CLAIM_OF_ANOTHER, whose)
        if not each.bound and not each.delayed:
            message = f"pod has unbound immediate PersistentVolumeClaims: {each.claim.name}"
            return Problem(Obstacle.CLAIM_UNBOUND, message)
        if each.claim.spec.access_modes == ONE_POD_ONLY and each.others:
            users = ", ".join(each.others)
            message = (
                f"0/{nodes} nodes are available: {nodes} node(s) unavailable due to PersistentVolumeClaim with "
                f"ReadWriteOncePod access mode already in-use by another pod: claim {each.claim.name} is in use by "
                f"{users}"
            )
            return Problem(Obstacle.CLAIM_IN_USE, message)
    return None


def _problem(
    pod: Pod, volumes: Sequence[PodVolume], node: Node, free: FreeVolumes, load: Load, drivers: Set[str]
) -> Problem | None:
    """Returns why the pod cannot go to the node, in upstream's words; None if it can."""
    if node.spec.unschedulable and not matching(pod, UNSCHEDULABLE):
        return Problem(Obstacle.UNSCHEDULABLE, "node(s) were unschedulable")
    if node.ready != "True":
        return Problem(Obstacle.NOT_READY, "node(s) were not ready")
    taint = untolerated(pod, node.spec.taints, "NoSchedule", "NoExecute")
    if taint is not None:
        return Problem(Obstacle.TAINT, f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}")
    if not wanted_on(pod, node):
        return Problem(Obstacle.NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector")
    return (
        _disk_problem(pod, load)
        or _volume_problem(volumes, node, free)
        or _place_problem(volumes, node, free, load, drivers)
        or _limit_problem(pod, volumes, node, free, load)
    )


def _company_problem(message: str | None) -> Problem | None:
    return Problem(Obstacle.COMPANY, message) if message is not None else None


def _disk_problem(pod: Pod, load: Load) -> Problem | None:
    """Returns why the node cannot have the disks that the pod names itself; None if it can."""
    if not any(is_exclusive(volume) for volume in pod.spec.volumes):
        return None
    others = [volume for other in load.others() for volume in other.spec.volumes]
    if any(conflict(volume, other) for volume in pod.spec.volumes for other in others):
        return Problem(Obstacle.DISK_CONFLICT, "node(s) had no available disk")
    return None


def _place_problem(
    volumes: Sequence[PodVolume], node: Node, free: FreeVolumes, load: Load, drivers: Set[str]
) -> Problem | None:
    """Returns why a volume that has to be made cannot be made for the node; None if it can."""
    found = matches(volumes, node, free)
    here = {each.name for each in load.csi_node.spec.drivers} if load.csi_node is not None else set[str]()
    for each in volumes:
        if each.bound or each.storage_class is None or each.claim.key in found:
            continue
        allowed = each.storage_class.allowed_topologies
        if allowed and not any(topology_allowed(term, node.metadata.labels) for term in allowed):
            return Problem(Obstacle.CLASS_TOPOLOGY, "node(s) were not where the claim's class allows volumes")
        if driver_of(each.storage_class.provisioner) in drivers - here:
            return Problem(
                Obstacle.DRIVER_MISSING, "node(s) did not have the CSI driver of the claim's class"
            )
        if not has_room(each.claim, node, each.storage_class.name, each.capacities):
            return Problem(Obstacle.NO_SPACE, "node(s) did not have enough free storage")
    return None


def _limit_problem(
    pod: Pod, volumes: Sequence[PodVolume], node: Node, free: FreeVolumes, load: Load
) -> Problem | None:
    found = matches(volumes, node, free)
    places = (_place(each, found.get(each.claim.key)) for each in volumes)
    wanted = {each for each in places if each is not None} | attachable_inline(pod)
    over = exceeds_limit(wanted, load.volumes, node, load.csi_node)
    return Problem(Obstacle.VOLUME_LIMIT, "node(s) exceed max volume count") if over else None


def _place(each: PodVolume, match: PersistentVolume | None) -> Attachable | None:
    """Returns the place on a node that the claim's volume takes, or will take."""
    volume = each.volume if each.bound else match
    if volume is not None:
        return attachable(volume)
    return attachable_to_be(each.claim, each.storage_class)


def _volume_problem(volumes: Sequence[PodVolume], node: Node, free: FreeVolumes) -> Problem | None:
    found = matches(volumes, node, free)
    for each in volumes:
        if each.bound:
            if each.volume is None:
                message = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
                return Problem(Obstacle.VOLUME_GONE, message)
            if not fits(each.volume, node):
                return Problem(
                    Obstacle.VOLUME_AFFINITY, "node(s) didn't match PersistentVolume's node affinity"
                )
            if not in_its_zone(each.volume, node):
                return Problem(Obstacle.VOLUME_ZONE, "node(s) had no available volume zone")
        elif not each.provisions and each.claim.key not in found:
            return Problem(Obstacle.NO_VOLUME, "node(s) didn't find available persistent volumes to bind")
        chosen = each.claim.metadata.annotations.get(SELECTED_NODE)
        if not each.bound and chosen and chosen != node.name:
            return Problem(
                Obstacle.OTHER_NODE_SELECTED, "node(s) are not the one already selected for a claim"
            )
    return None


def matches(volumes: Sequence[PodVolume], node: Node, free: FreeVolumes) -> dict[str, PersistentVolume]:
    """Returns the existing volumes for the pod's unbound claims on a node, by the claim's
    key; each volume for one claim.

    Smaller claims choose first (upstream's order), and claims that nothing can be
    provisioned for before the others.
    """
    found: dict[str, PersistentVolume] = {}
    taken: set[str] = set()
    for each in sorted((v for v in volumes if not v.bound), key=lambda v: (v.provisions, requested(v.claim))):
        match = free.find(each.claim, node, taken)
        if match is not None:
            found[each.claim.key] = match
            taken.add(match.name)
    return found

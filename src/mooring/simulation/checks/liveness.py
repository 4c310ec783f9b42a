"""What must hold some time after the last fault: nothing hangs, and the records agree with the truth.

A machine that is lost, and that no operator has declared dead, keeps its volumes: its pods must be shown as
not ready (L8).

Read from the API at the end of a run, and compared with the truth of array and machines.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Container, Iterable, Iterator, Mapping

from mooring.controllers.fencing.ladder import SECOND_SOURCE
from mooring.controllers.fencing.names import REQUEST
from mooring.fence.interface import Scope
from mooring.kube.objects import (
    Deployment,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
    VolumeAttachment,
)
from mooring.kube.objects.fencing import NodeFence
from mooring.kube.readiness import ready_since
from mooring.simulation.checks import statuses, workloads
from mooring.simulation.checks.quiet_period import QuietPeriod
from mooring.simulation.checks.undefined import Undefined
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.cluster.workloads import BY_HAND
from mooring.volumes.claims import claims_of
from mooring.volumes.exclusivity import ONE_POD_MODE
from mooring.volumes.node_fences import proof_of

Complaint = tuple[str, str]


async def complaints(cluster: SimulatedCluster, quiet: QuietPeriod) -> AsyncIterator[Complaint]:
    """Yields each property that does not hold, with what was found."""
    everything = {pod.name: pod for pod in (await cluster.api.list(Pod)).items}
    if cluster.scenario.fencing:
        async for complaint in _not_fenced(cluster, list(everything.values())):
            yield complaint
    kept = await _kept_by_silence(cluster, everything)
    for name in sorted(kept):
        if _ready(everything[name]) and everything[name].spec.node_name in cluster.silent:
            yield "L8", f"pod {name} is shown as ready, and its machine is silent for good"
    pods = {name: pod for name, pod in everything.items() if name not in kept}
    sets = (await cluster.api.list(StatefulSet)).items
    wanted = {f"{each.name}-{number}" for each in sets for number in range(each.spec.replicas)} - kept
    waiting = _in_order(sets, kept, wanted | everything.keys())
    for name in sorted(wanted - waiting):
        if (problem := _not_ready(pods.get(name))) is not None:
            yield "L1", f"pod {name} is wanted and {problem}"
    async for complaint in workloads.complaints(cluster, pods):
        yield complaint
    async for complaint in statuses.complaints(cluster, pods):
        yield complaint
    made = workloads.of_controllers(cluster.scenario)
    apart = {name: pod for name, pod in pods.items() if pod.metadata.labels.get("app", "") not in made}
    deployments = {each.name for each in (await cluster.api.list(Deployment)).items}
    useful = {
        each.key for each in (await cluster.api.list(PersistentVolumeClaim)).items if not _is_lost(each)
    }
    bereft = {name for name, pod in apart.items() if not useful.issuperset(claims_of(pod))}
    for complaint in _others(apart, wanted | waiting, deployments, bereft):
        yield complaint
    async for complaint in _volumes(cluster, list(pods.values()), [everything[name] for name in kept]):
        yield complaint
    if quiet.written:
        yield (
            "L7",
            f"{len(quiet.written)} writes in the last {quiet.calm_s:.0f} s, such as {quiet.written[-1]}",
        )


async def _not_fenced(cluster: SimulatedCluster, pods: list[Pod]) -> AsyncIterator[Complaint]:
    """L6: a machine that is lost for good is fenced, if it has what only one node may have: what it had is
    not kept by its silence then. One of which nothing is waited for need not be fenced, and no policy selects
    one that has no Node any more. What a Node's annotation asks for is taken up."""
    fences = (await cluster.api.list(NodeFence)).items
    fenced = {
        each.spec.node_name for each in fences if each.status.phase == "Fenced" and each.status.released_at
    }
    kept = {each.spec.node_name for each in fences if is_taken_back(each)}
    asked = {each.spec.node_name for each in fences if _wants_a_person(each)}
    by_storage = {each.spec.node_name for each in _shut_out(fences)}
    records = (await cluster.api.list(VolumeAttachment)).items
    nodes = (await cluster.api.list(Node)).items
    for name in sorted(each.name for each in nodes if REQUEST in each.metadata.annotations):
        yield "L6", f"the annotation of Node {name} asks for a fence, and is not taken up"
    there = {each.name for each in nodes}
    for node in sorted(cluster.silent):
        owned = [each.name for each in pods if each.spec.node_name == node and _of_set(each)]
        held = [each.name for each in records if each.spec.node_name == node]
        if node in kept:
            continue  # a user has said that it is to come back
        if node in asked:
            continue  # its one device had never seen it on: a person has to say that it is off
        if node in by_storage:
            continue  # its processes are not known to have ended: its pods are kept
        if node in fenced:
            cluster.silent.discard(node)
        elif node in there and (owned or held):
            said = "; ".join(
                f"{each.status.phase}: {each.status.message}"
                for each in fences
                if each.spec.node_name == node
            )
            yield (
                "L6",
                f"{node} is lost for good, has {', '.join([*owned, *held][:3])}, and is not fenced ({said})",
            )


def is_taken_back(fence: NodeFence) -> bool:
    """Whether a user has taken it back, which its deletion says as well, before it released anything."""
    return (fence.spec.unfence or fence.deleting) and not fence.status.released_at


def _wants_a_person(fence: NodeFence) -> bool:
    """Whether a second source was needed for the last answer, and the policy names none."""
    status = fence.status
    last = status.attempts[-1] if status.attempts else None
    return status.phase == "AwaitingPerson" and last is not None and last.reason == SECOND_SOURCE


def _shut_out(fences: Iterable[NodeFence]) -> list[NodeFence]:
    """The fences in force by which the storage shuts a node out, and what they name is released."""
    in_force = (each for each in fences if each.status.phase == "Fenced" and each.status.released_at)
    return [each for each in in_force if (proof := proof_of(each)) and proof.scope == Scope.STORAGE]


def _named(fence: NodeFence) -> Iterable[str]:
    proof = proof_of(fence)
    return proof.volumes if proof is not None else ()


def _of_set(pod: Pod) -> bool:
    return not pod.finished and pod.controller is not None and pod.controller.kind == "StatefulSet"


async def _kept_by_silence(cluster: SimulatedCluster, pods: dict[str, Pod]) -> set[str]:
    """The pods of silent machines, and those that wait for a volume which such a machine may still write
    to. One that the storage has shut it out of, it does not keep."""
    if not cluster.silent:
        return set()
    records = (await cluster.api.list(VolumeAttachment)).items
    records = [each for each in records if each.spec.node_name in cluster.silent]
    if cluster.shuts_out:
        released = {
            name for each in _shut_out((await cluster.api.list(NodeFence)).items) for name in _named(each)
        }
        records = [each for each in records if each.name not in released]
    held = {each.spec.source.persistent_volume_name for each in records}
    claims = (await cluster.api.list(PersistentVolumeClaim)).items
    used = {key for pod in pods.values() if pod.spec.node_name in cluster.silent for key in claims_of(pod)}
    waited = waited_for(claims, {name for name in held if name}, used)
    return {
        n
        for n, pod in pods.items()
        if pod.spec.node_name in cluster.silent or waited.intersection(claims_of(pod))
    }


def waited_for(claims: Iterable[PersistentVolumeClaim], held: set[str], used: set[str]) -> set[str]:
    """The claims that no pod elsewhere can have, when silent machines hold these PersistentVolumes and their
    pods, which are not known to have ended, use these claims: one whose volume is held, or is made by hand
    while such a one is held; one of ReadWriteOncePod; one that a user has deleted, which stays for as long as
    a pod uses it."""
    by_hand = any(not name.startswith("pvc-") for name in held)
    return {
        claim.key
        for claim in claims
        if claim.spec.volume_name in held
        or (claim.key in used and (claim.deleting or ONE_POD_MODE in claim.spec.access_modes))
        or (by_hand and not claim.spec.volume_name and claim.spec.storage_class_name in BY_HAND)
    }


def _in_order(sets: Iterable[StatefulSet], kept: set[str], pods: Iterable[str]) -> set[str]:
    """The pods of ordered sets of which a silent machine keeps one: they are neither made nor scaled away
    before that is ready."""
    held = {name.rpartition("-")[0] for name in kept}
    ordered = {each.name for each in sets if each.spec.pod_management_policy == "OrderedReady"} & held
    return {name for name in pods if name.rpartition("-")[0] in ordered}


def _not_ready(pod: Pod | None) -> str | None:
    if pod is None:
        return "does not exist"
    if pod.deleting or not _ready(pod):
        return f"is {'ending' if pod.deleting else pod.status.phase} on {pod.spec.node_name or 'no node'}"
    return None


def _is_lost(claim: PersistentVolumeClaim) -> bool:
    return claim.status.phase == "Lost"


def _others(
    pods: dict[str, Pod], wanted: set[str], deployments: set[str], bereft: set[str]
) -> Iterator[Complaint]:
    """Pods of Deployments share one exclusive volume: one of them can run, others may wait. A pod without an
    owner has ended by itself, unless it is `bereft`: users have deleted its claim, or its volume, which no
    controller makes anew for it."""
    served: dict[str, bool] = {}
    for name, pod in sorted(pods.items()):
        app = pod.metadata.labels.get("app", "")
        if app in deployments:
            served[app] = served.get(app, False) or _not_ready(pod) is None
        elif name not in wanted and pod.metadata.owner_references:
            yield "L4", f"pod {name} is not wanted and exists"
        elif name not in wanted and not pod.finished and name not in bereft:
            yield "L1", f"pod {name} should have ended and {_not_ready(pod) or 'runs'}"
        if pod.deleting:
            yield "L4", f"pod {name} is still being deleted"
    for app in sorted(app for app, ready in served.items() if not ready):
        yield "L1", f"no pod of Deployment {app} is ready"


async def _volumes(cluster: SimulatedCluster, pods: list[Pod], kept: list[Pod]) -> AsyncIterator[Complaint]:
    """`kept`: pods that silence keeps; what such a machine has, no user can tidy up. One that waits elsewhere
    for one of its volumes may have the others there."""
    still_used = {key for pod in kept for key in claims_of(pod)}
    claims = {claim.key: claim for claim in (await cluster.api.list(PersistentVolumeClaim)).items}
    used = {key for pod in pods for key in claims_of(pod)}
    for claim in claims.values():
        if cluster.ec2 is not None and claim.key not in used and not claim.spec.volume_name:
            continue  # it waits for its first consumer
        if claim.deleting and _is_lost(claim):
            continue  # a pod keeps it from going; it gets no volume any more
        if claim.key not in still_used and (not claim.spec.volume_name or claim.status.phase != "Bound"):
            yield "L5", f"claim {claim.name} is {claim.status.phase}"
    desired = {
        claims[key].spec.volume_name: pod.spec.node_name
        for pod in pods
        if _ready(pod) and not pod.deleting
        for key in claims_of(pod)
        if key in claims
    }
    waiting = had_while_waiting(kept, claims, cluster.silent) - desired.items()
    records = (await cluster.api.list(VolumeAttachment)).items
    stay = Undefined.of(cluster.trace).stay(records, asyncio.get_running_loop().time())
    recorded = {
        each.spec.source.persistent_volume_name or "": each.spec.node_name
        for each in records
        if each.name not in stay
    }
    for what, places in (
        ("attached", cluster.array.attached),
        ("recorded", recorded),
        ("mounted", dict(cluster.array.mounted)),
    ):
        seen = {
            volume: node
            for volume, node in places.items()
            if node not in cluster.silent and (volume, node) not in waiting
        }
        if seen != desired:
            yield "L3", f"wanted {_places_text(desired)}, and {what} is {_places_text(seen)}"
    made = (await cluster.api.list(PersistentVolume)).items
    volumes = {each.name for each in made}
    if cluster.ec2 is not None:
        handles = {each.spec.csi.volume_handle for each in made if each.spec.csi is not None}
        if leaked := sorted(cluster.ec2.volumes().keys() - handles):
            yield "S9", f"volumes of the driver without a PersistentVolume: {', '.join(leaked)}"
    held = {volume for volume, node in recorded.items() if node in cluster.silent}
    held |= {claims[key].spec.volume_name for key in still_used & claims.keys()}
    leaked = sorted(disk for disk in cluster.array.disks - volumes - held if disk.startswith("pvc-"))
    if cluster.ec2 is None and leaked:
        yield "S9", f"disks without a PersistentVolume: {', '.join(leaked)}"


def had_while_waiting(
    kept: Iterable[Pod], claims: Mapping[str, PersistentVolumeClaim], silent: Container[str]
) -> set[tuple[str, str]]:
    """Volume and node, where a pod that waits for one of its volumes, which a silent machine keeps, may have
    the others."""
    return {
        (claims[key].spec.volume_name, pod.spec.node_name)
        for pod in kept
        if not pod.deleting and pod.spec.node_name not in silent
        for key in claims_of(pod)
        if key in claims
    }


def _ready(pod: Pod) -> bool:
    return pod.status.phase == "Running" and ready_since(pod) is not None


def _places_text(places: dict[str, str]) -> str:
    return ", ".join(f"{volume} on {node}" for volume, node in sorted(places.items())) or "nothing"

"""What is waited for at a moment: everything that must come, and that no user's wish keeps from coming. Pure.

Not waited for, because a user has made it so: a pod that no node takes of those that it may go to (drained
nodes), that has no claim, whose ConfigMap or Secret is gone, or whose volume another pod rightly uses; a
claim for which there is no volume, or that waits for its first consumer, or whose StorageClass is gone,
unless its volume was begun, or whose original is gone or not there yet; one that an unfinished
snapshot or copy keeps; what a machine has that does not answer, and of which no operator has said that
it is dead, unless the policy's timer releases it; a pod whose node its storage shuts out of one of its
volumes, or whose template has a mistake; what only another party's finalizer keeps, and who needs the volume
of that; a volume whose claim's name a pod has that has lost its own claim.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mooring.controllers.provisioning.decide import BEGUN
from mooring.simulation.checks.invariants.deadlines.world import World, is_held
from mooring.simulation.checks.invariants.objects import StoredObject
from mooring.simulation.checks.settings import Settings
from mooring.simulation.cluster.careless_users import HOLD
from mooring.simulation.cluster.workloads import BROKEN, BY_HAND, MISTAKEN

Nodes = frozenset[str]
NONE: Nodes = frozenset()


class Wait(NamedTuple):
    """`kind` names its bound; `nodes`: those whose faults explain that it lasts; `clocks`: those by whose
    clock something is to have been so for a while first."""

    kind: str
    about: str
    nodes: Nodes = NONE
    uid: str = ""
    clocks: Nodes = NONE

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells it from others: the object, too, where one follows another under the same name."""
        return self.kind, self.about, self.uid


def waits(world: World, settings: Settings) -> Iterator[Wait]:
    """All that is waited for now."""
    users, places = world.users(), world.places()
    for name, pod in world.pods.items():
        if (wait := _of_pod(world, settings, users, places, name, pod)) is not None:
            yield wait
    yield from _of_records(world, settings, users, places)
    for volume, node in sorted(world.mounted):
        if not _uses(users.get(volume, ()), node):
            yield Wait("unmounted", f"{volume} on {node}", frozenset((node,)))
    yield from _of_claims(world, settings)
    yield from _of_volumes(world, users, places)
    yield from _of_nodes(world)
    yield from _of_sets(world)


Users = dict[str, list[tuple[str, StoredObject]]]
Places = dict[str, set[str]]


def _uses(users: Iterable[tuple[str, StoredObject]], node: str) -> bool:
    return any(pod.spec.node_name == node for _, pod in users)


def _of_pod(
    world: World, settings: Settings, users: Users, places: Places, name: str, pod: StoredObject
) -> Wait | None:
    node, uid = pod.spec.node_name, pod.metadata.uid
    if node and world.report(node).absent_since < math.inf and not pod.metadata.finalizers:
        return None if world.is_being_fenced(node) else Wait("orphaned", name, NONE, uid)
    if pod.going:
        return _of_ending_pod(world, name, pod)
    if pod.ended or BROKEN in pod.metadata.annotations:
        return None
    if node and world.report(node).node is not None and not world.answers(node):
        return (
            Wait("unready", name, NONE, uid)
            if pod.ready == "True"
            else _of_eviction(world, settings, name, pod)
        )
    if node and uid in world.filled:
        return Wait("emptied", name, frozenset((node,)), uid)
    volumes = world.volumes_of(name, pod)
    if "" in volumes or pod.ready == "True" or (node and not world.answers(node)):
        return None
    if world.lacks_content(name, pod) or any(
        _keeps(world, users, volume, name, node) or world.is_kept(volume) for volume in volumes
    ):
        return None
    touched = frozenset(each for volume in volumes for each in places.get(volume, ()))
    touched |= {
        other.spec.node_name for volume in volumes for _, other in users.get(volume, ()) if other.going
    }
    if node:
        shut = any(world.shut_out.is_shut(node, volume) for volume in volumes)
        return None if shut else Wait("running", name, touched | {node}, uid)
    takers = sum(
        world.takes(each, pod) and all(world.can_attach(each, volume) for volume in volumes)
        for each, _ in world.reports.items()
    )
    if not takers or (settings.lazy_claims and takers < len(pod.spec.affinity.only_on or settings.nodes)):
        return None
    return Wait("placed", name, touched, uid)


def _of_eviction(world: World, settings: Settings, name: str, pod: StoredObject) -> Wait | None:
    """A pod of a node that does not answer goes when it has tolerated that for long enough. Where most nodes
    of a zone do not answer, evictions are slowed down, or stopped."""
    tolerates = [each.toleration_seconds for each in pod.spec.tolerations]
    answer = [world.answers(node) for node, _ in world.reports.items()]
    few = settings.lazy_claims or len(answer) < 2 or answer.count(False) > 1
    return (
        None if few or not tolerates or None in tolerates else Wait("evicted", name, NONE, pod.metadata.uid)
    )


def _of_ending_pod(world: World, name: str, pod: StoredObject) -> Wait | None:
    node = pod.spec.node_name
    if pod.metadata.finalizers:
        return None
    if node and not world.answers(node):
        return Wait("removed", name, NONE, pod.metadata.uid) if world.is_dead(node) else None
    return Wait("gone", name, frozenset((node,)) if node else NONE, pod.metadata.uid)


def _keeps(world: World, users: Users, volume: str, name: str, node: str) -> bool:
    """Whether another pod, which is to stay, uses a volume that this one wants: on another node, or wherever
    it is, if only one pod may."""
    one_pod = world.is_for_one_pod(volume)
    return any(
        other != name and not pod.going and (one_pod or pod.spec.node_name != node)
        for other, pod in users.get(volume, ())
    )


def _of_records(world: World, settings: Settings, users: Users, places: Places) -> Iterator[Wait]:
    for record in world.records.values():
        volume, node = record.volume_name, record.spec.node_name
        where, dead = f"{volume} on {node}", world.is_dead(node) and not world.is_left(record)
        concerned, uid = NONE if dead else frozenset((node,)), record.metadata.uid
        if record.going:
            if not is_held(record):
                yield Wait("detached" if volume in world.volumes else "left-behind", where, concerned, uid)
        elif not _uses(users.get(volume, ()), node):
            if world.answers(node) or dead:
                yield Wait("given-up", where, concerned, uid)
            elif (
                settings.force_detach_after_s and volume in world.volumes
            ):  # else it is not known that it revokes
                yield Wait("timed-out", where, NONE, uid)
        elif not record.status.attached and world.answers(node) and not _is_second(world, users, record):
            others = {each for each in places.get(volume, ()) if not world.is_dead(each)}
            yield Wait("attached", where, concerned | others, uid)


def _is_second(world: World, users: Users, record: StoredObject) -> bool:
    """Whether another node has the volume, for pods that are to stay: then this record stays for nothing."""
    there = {
        each.spec.node_name
        for each in world.records.values()
        if each.volume_name == record.volume_name and each.status.attached and not each.going
    }
    pods = users.get(record.volume_name, ())
    return any(pod.spec.node_name in there and not pod.going for _, pod in pods)


def _of_claims(world: World, settings: Settings) -> Iterator[Wait]:
    by_pod = [(pod, claim) for name, pod in world.pods.items() for claim in world.claims_of(name, pod)]
    named, kept = {claim for _, claim in by_pod}, world.sources.kept(world.claims)
    consumed = {claim for pod, claim in by_pod if not pod.spec.node_name}
    for name, claim in world.claims.items():
        if world.classes.is_missed(claim) and (not claim.going or BEGUN in claim.metadata.finalizers):
            continue
        if claim.going:
            held = HOLD in claim.metadata.finalizers or world.may_be_asked_for(claim)
            if name not in named and name not in kept and not held:
                yield Wait("claim-gone", name, NONE, claim.metadata.uid)
        elif claim.status.phase != "Bound" and _can_be_bound(world, settings, claim, name in consumed):
            if claim.spec.data_source is None:
                yield Wait("bound", name, NONE, claim.metadata.uid)
            elif world.sources.is_there(name, claim, world.claims):
                yield Wait("copied", name, NONE, claim.metadata.uid)


def _can_be_bound(world: World, settings: Settings, claim: StoredObject, consumed: bool) -> bool:
    """`consumed`: a pod waits for it before it gets a node, so that one is chosen for both."""
    if claim.status.phase == "Lost" or claim.spec.storage_class_name.startswith(MISTAKEN):
        return False
    if (by_hand := claim.spec.storage_class_name) in BY_HAND:
        free = (v for v in world.volumes.values() if v.status.phase == "Available" and not v.going)
        return any(each.spec.storage_class_name == by_hand for each in free)
    return not settings.lazy_claims or (
        consumed
        and all(
            report.node is not None and world.takes_pods(report.node) and world.has_driver(each)
            for each, report in world.reports.items()
        )
    )


def _of_volumes(world: World, users: Users, places: Places) -> Iterator[Wait]:
    claims, stripped = {claim.metadata.uid for claim in world.claims.values()}, world.stripped_claims()
    for name, volume in world.volumes.items():
        goes = volume.going or (
            volume.status.phase == "Released" and volume.spec.persistent_volume_reclaim_policy == "Delete"
        )
        claim = volume.spec.claim_ref
        # No pod says which of the claims of a name was its own (upstream: isVolumeUsed).
        claimed = claim is not None and (claim.uid in claims or claim.key in stripped)
        if not goes or claimed or users.get(name) or world.is_kept(name):
            continue
        held = [node for node in places.get(name, ()) if not world.is_dead(node)]
        if all(world.answers(node) for node in held):
            yield Wait("volume-gone", name, frozenset(held))


def _of_nodes(world: World) -> Iterator[Wait]:
    for node, report in world.reports.items():
        if report.node is None:
            continue
        if world.answers(node):
            yield Wait("unknown", node)
        else:
            yield Wait("answering", node, frozenset((node,)))


def _of_sets(world: World) -> Iterator[Wait]:
    for name, each in world.sets.items():
        if each.going:
            continue
        namespace, _, own = name.partition("/")
        wanted = {f"{namespace}/{own}-{number}" for number in range(each.spec.replicas)}
        if each.spec.pod_management_policy == "OrderedReady":
            yield from _of_ordered_set(world, namespace, own, each.spec.replicas)
            continue
        for pod in sorted(wanted - world.pods.keys()):
            suffix = "-" + pod.rpartition("/")[2]
            if not any(claim.going for at, claim in world.claims.items() if at.endswith(suffix)):
                yield Wait("made", pod)
        for pod, body in world.pods.items():
            if body.metadata.labels.get("app") == own and pod not in wanted and not body.going:
                yield Wait("scaled-away", pod)


def _of_ordered_set(world: World, namespace: str, name: str, replicas: int) -> Iterator[Wait]:
    """One pod after the other: the next is made when those before it are ready, for as long as the set says,
    and the last goes when all that stay are. Since when a pod is ready, its node says."""
    clocks = NONE
    for pod in (f"{namespace}/{name}-{number}" for number in range(replicas)):
        body = world.pods.get(pod)
        if body is None:
            suffix = "-" + pod.rpartition("/")[2]
            if not any(claim.going for at, claim in world.claims.items() if at.endswith(suffix)):
                yield Wait("made", pod, clocks=clocks)
            return
        if body.ready != "True" or body.going:
            return
        clocks |= {body.spec.node_name}
    condemned = [
        (pod, body)
        for pod, body in world.pods.items()
        if pod.startswith(f"{namespace}/{name}-") and int(pod.rpartition("-")[2]) >= replicas
    ]
    if condemned and not any(body.going for _, body in condemned):
        yield Wait("scaled-away", max(pod for pod, _ in condemned), clocks=clocks)

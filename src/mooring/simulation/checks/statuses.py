"""What must hold in the end of the status of workloads: it says what their pods are, and no more former
templates of them are kept than their history limit says (L17).

Read from the API at the end of a run. Not judged while a machine is silent for good: of its pods nothing more
is known.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from mooring.kube.objects import ControllerRevision, DaemonSet, Deployment, Pod, ReplicaSet, StatefulSet
from mooring.kube.readiness import ready_since
from mooring.kube.revisions import REVISION, same_template, template_of
from mooring.simulation.cluster.cluster import SimulatedCluster

Complaint = tuple[str, str]


async def complaints(cluster: SimulatedCluster, pods: Mapping[str, Pod]) -> AsyncIterator[Complaint]:
    """Yields each status that is wrong. Pods that were ready long ago are available."""
    if cluster.silent:
        return
    owned: dict[str, list[Pod]] = {}
    for pod in pods.values():
        owned.setdefault(pod.controller.uid if pod.controller is not None else "", []).append(pod)
    sets = (await cluster.api.list(ReplicaSet)).items
    for each in sets:
        if problem := _problem(each.status, of_replica_set(owned.get(each.uid, []))):
            yield "L17", f"ReplicaSet {each.name} {problem}"
    for each in (await cluster.api.list(Deployment)).items:
        ours = [
            owner.uid for owner in sets if owner.controller is not None and owner.controller.uid == each.uid
        ]
        found = [pod for uid in ours for pod in owned.get(uid, [])]
        if problem := _problem(each.status, of_deployment(each, found)):
            yield "L17", f"Deployment {each.name} {problem}"
    for each in (await cluster.api.list(StatefulSet)).items:
        if problem := _problem(each.status, of_stateful_set(each, owned.get(each.uid, []))):
            yield "L17", f"StatefulSet {each.name} {problem}"
    for each in (await cluster.api.list(DaemonSet)).items:
        if problem := _problem(each.status, of_daemon_set(each, owned.get(each.uid, []))):
            yield "L17", f"DaemonSet {each.name} {problem}"
    async for complaint in _histories(cluster, owned):
        yield complaint


async def _histories(
    cluster: SimulatedCluster, owned: Mapping[str, Sequence[Pod]]
) -> AsyncIterator[Complaint]:
    held = (await cluster.api.list(ControllerRevision)).items
    for kind in (StatefulSet, DaemonSet):
        for each in (await cluster.api.list(kind)).items:
            for problem in of_history(each, owned.get(each.uid, []), held):
                yield "L17", f"{kind.RESOURCE.kind} {each.name} {problem}"


def of_history(
    each: StatefulSet | DaemonSet, pods: Iterable[Pod], revisions: Iterable[ControllerRevision]
) -> Iterator[str]:
    """What is wrong with the revisions of a set: the present template's is there, the newest of all, and of
    those that no pod and no status names as many are kept as the set says."""
    kept = [one for one in revisions if one.controller is not None and one.controller.uid == each.uid]
    kept.sort(key=lambda one: one.revision)
    used = {pod.metadata.labels.get(REVISION, "") for pod in pods}
    if isinstance(each, StatefulSet):
        used |= {each.status.current_revision, each.status.update_revision}
    else:
        used = {f"{each.name}-{label}" for label in used}
    limit, idle = each.spec.revision_history_limit, [one.name for one in kept if one.name not in used]
    if not kept or not same_template(template_of(kept[-1]), each.spec.template):
        yield f"has not its template as the newest of {', '.join(one.name for one in kept) or 'none'}"
    if 0 <= limit < len(idle):
        yield f"keeps {', '.join(idle)}, and should keep {limit} former templates"


def _problem(status: Any, should: Mapping[str, object]) -> str:
    says = {field: getattr(status, field) for field in should}
    return (
        "" if says == should else f"says {msgspec.to_builtins(says)}, and it is {msgspec.to_builtins(should)}"
    )


def _ready(pods: Sequence[Pod]) -> int:
    return sum(pod.status.phase == "Running" and ready_since(pod) is not None for pod in pods)


def of_stateful_set(each: StatefulSet, pods: Sequence[Pod]) -> dict[str, object]:
    """Every update has come to its end, so its revision is the current one, unless the partition has kept a
    pod from it. A pod that is being deleted is of no revision any more (upstream's computeReplicaStatus)."""
    update = each.status.update_revision
    staying = [pod.metadata.labels.get(REVISION) for pod in pods if not pod.deleting]
    updated = staying.count(update)
    partly = each.spec.update_strategy.rolling_update.partition > 0 and updated < len(pods)
    current = each.status.current_revision if partly else update
    return {
        "observed_generation": each.metadata.generation,
        "replicas": len(pods),
        "ready_replicas": _ready(pods),
        "available_replicas": _ready(pods),
        "updated_replicas": updated,
        "current_replicas": staying.count(current),
        "current_revision": current,
    }


def of_replica_set(pods: Sequence[Pod]) -> dict[str, object]:
    """Of those that have not ended."""
    left = [pod for pod in pods if not pod.finished and not pod.deleting]
    return {"replicas": len(left), "ready_replicas": _ready(left), "available_replicas": _ready(left)}


def of_deployment(each: Deployment, pods: Sequence[Pod]) -> dict[str, object]:
    """Of all its ReplicaSets."""
    return of_replica_set(pods) | {"observed_generation": each.metadata.generation}


def of_daemon_set(each: DaemonSet, pods: Sequence[Pod]) -> dict[str, object]:
    """One for each node."""
    return {
        "observed_generation": each.metadata.generation,
        "current_number_scheduled": len(pods),
        "desired_number_scheduled": len(pods),
        "number_ready": _ready(pods),
        "number_available": _ready(pods),
        "updated_number_scheduled": len(pods),
    }

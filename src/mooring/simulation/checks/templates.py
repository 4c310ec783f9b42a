"""What must hold in the end of what workloads' controllers have made: it is as its template says (L21).

Labels, annotations, containers, owner, and of a StatefulSet's pods and claims what their identity gives them.
Read from the API at the end of a run, and compared with the templates there; users have taken some of it away
meanwhile.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any

from mooring.kube.objects import DaemonSet, Job, PersistentVolumeClaim, Pod, ReplicaSet, StatefulSet
from mooring.kube.revisions import REVISION
from mooring.simulation.checks.liveness import Complaint
from mooring.simulation.cluster.cluster import SimulatedCluster

Owner = StatefulSet | ReplicaSet | DaemonSet | Job
CLAIM_OWNERS = ("StatefulSet", "Pod")
"""Kinds with which a claim of a StatefulSet may go."""
OWNERS: tuple[type[Owner], ...] = (StatefulSet, ReplicaSet, DaemonSet, Job)


async def complaints(cluster: SimulatedCluster) -> AsyncIterator[Complaint]:
    """Yields what is otherwise. Not judged while a machine is silent for good: its pods are not made anew."""
    if cluster.silent or cluster.lost:
        return
    pods = (await cluster.api.list(Pod)).items
    claims = (await cluster.api.list(PersistentVolumeClaim)).items
    for kind in OWNERS:
        for owner in (await cluster.api.list(kind)).items:
            for what in of_pods(owner, pods):
                yield "L21", what
            if isinstance(owner, StatefulSet):
                for what in of_claims(owner, claims):
                    yield "L21", what


def of_pods(owner: Owner, pods: Iterable[Pod]) -> Iterator[str]:
    """What is otherwise in the pods of that name, or owner."""
    template, kind = owner.spec.template, owner.RESOURCE.kind
    containers = [each["name"] for each in template["spec"]["containers"]]
    commands = [each.get("command", []) for each in template["spec"]["containers"]]
    for pod in pods:
        number = _number(pod.name, owner.name)
        is_named = kind == "StatefulSet" and pod.namespace == owner.namespace and number is not None
        is_owned = pod.controller is not None and pod.controller.uid == owner.uid
        if not (is_owned or is_named) or pod.deleting or pod.finished:
            continue
        wanted = {
            **template["metadata"].get("labels", {}),
            **(_identity(pod.name, number) if is_named else {}),
        }
        if isinstance(owner, StatefulSet):
            newest = owner.status.update_revision
            if is_kept(owner, number or 0) and pod.metadata.labels.get(REVISION) != newest:
                yield from _lacks(f"pod {pod.name}", "labels", pod.metadata.labels, wanted)
                continue  # an update may have come to it before it was left as it is: S31 judges of what it is made
            wanted[REVISION] = newest
        yield from _lacks(f"pod {pod.name}", "labels", pod.metadata.labels, wanted)
        told = template["metadata"].get("annotations", {})
        yield from _lacks(f"pod {pod.name}", "annotations", pod.metadata.annotations, told)
        if not is_owned:
            yield f"pod {pod.name} has not its {kind} {owner.name} as its controller"
        if [each.name for each in pod.spec.containers] != containers:
            yield f"pod {pod.name} has not the containers of its template"
        if [list(each.command) for each in pod.spec.containers] != commands:
            yield f"pod {pod.name} does not run what its template says"


def is_kept(owner: StatefulSet, ordinal: int) -> bool:
    """Whether an update leaves the pod of that ordinal as it is: it is below the partition."""
    first = owner.spec.ordinals.start if owner.spec.ordinals is not None else 0
    return ordinal < first + owner.spec.update_strategy.rolling_update.partition


def of_claims(owner: StatefulSet, claims: Iterable[PersistentVolumeClaim]) -> Iterator[str]:
    """What is otherwise in the claims of the identities that the set has."""
    there = {claim.name: claim for claim in claims if claim.namespace == owner.namespace}
    for template in owner.spec.volume_claim_templates:
        metadata = template["metadata"]
        for number in range(owner.spec.replicas):
            claim = there.get(f"{metadata['name']}-{owner.name}-{number}")
            if claim is None or claim.deleting:
                continue
            labels = {**metadata.get("labels", {}), **owner.spec.selector.match_labels}
            yield from _lacks(f"claim {claim.name}", "labels", claim.metadata.labels, labels)
            told = metadata.get("annotations", {})
            yield from _lacks(f"claim {claim.name}", "annotations", claim.metadata.annotations, told)
            if list(claim.spec.access_modes) != template["spec"]["accessModes"]:
                yield f"claim {claim.name} has not the access modes of its template"
            goes_with = {each.uid for each in claim.metadata.owner_references if each.kind in CLAIM_OWNERS}
            policy = owner.spec.persistent_volume_claim_retention_policy
            if goes_with != ({owner.uid} if policy.when_deleted == "Delete" else set[str]()):
                yield f"claim {claim.name} goes with {goes_with or 'nothing'}, not as the retention policy says"


def _number(pod: str, owner: str) -> int | None:
    head, _, number = pod.rpartition("-")
    return int(number) if head == owner and number.isdigit() else None


def _identity(name: str, number: int | None) -> dict[str, str]:
    return {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(number)}


def _lacks(what: str, field: str, has: Mapping[str, str], wanted: Mapping[str, Any]) -> Iterator[str]:
    missing = {name: value for name, value in wanted.items() if has.get(name) != value}
    if missing:
        yield f"{what} has not the {field} {missing}"

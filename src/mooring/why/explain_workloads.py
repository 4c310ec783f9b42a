"""Why a StatefulSet or a Deployment has not all of its pods: which of them are in the way, and what these
wait for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from mooring.controllers.replicaset.decide import counts
from mooring.controllers.statefulset.decide import is_ready, ordinal_of, ordinals
from mooring.kube.objects import Deployment, Object, Pod, ReplicaSet, StatefulSet
from mooring.kube.owners import controller_uid
from mooring.kube.printable import counted
from mooring.kube.reason import Reason
from mooring.kube.revisions import REVISION
from mooring.why.cause import Cause, about, fine
from mooring.why.explain_pods import explain_pod
from mooring.why.snapshot import Snapshot

T = TypeVar("T", bound=Object)

MOST_EXPLAINED = 10
"""Pods that are explained one by one; the rest is counted."""
_EXCLUSIVE = ("MultiAttach", "AttachedElsewhere")


def explain_stateful_set(stateful_set: StatefulSet, known: Snapshot) -> Cause:
    """Explains a StatefulSet by the pods that are not ready, and in their order by what they hold up."""
    if stateful_set.deleting:
        return _vanishing(stateful_set)
    pods, wanted = _identities(stateful_set, known), ordinals(stateful_set)
    ready = {each for each, pod in pods.items() if each in wanted and is_ready(pod)}
    have = f"statefulset {stateful_set.key}: ready pods: {len(ready)} of {len(wanted)}"
    first = next((each for each in wanted if each not in ready), None)
    if first is not None:
        reason = Reason("PodsNotReady", f"{have}{_held_up(stateful_set, first, pods)}")
        there = [pods[each] for each in sorted(pods) if each in wanted and each not in ready]
        cause = Cause(about(stateful_set), reason).because(*_explained(there, known))
        return cause if first in pods else _not_made(stateful_set, cause, known)
    surplus = [pods[each] for each in sorted(pods) if each not in wanted]
    if surplus:
        names = ", ".join(pod.name for pod in surplus[:MOST_EXPLAINED])
        message = f"{have}; more than it wants, and to go: {names}"
        return Cause(about(stateful_set), Reason("ScalingDown", message)).because(*_explained(surplus, known))
    return _outdated(stateful_set, pods) or fine(stateful_set, have, "Ready")


def _not_made(stateful_set: StatefulSet, cause: Cause, known: Snapshot) -> Cause:
    """The cause with what keeps the first pod that the set lacks from being made."""
    step = _soon("statefulset", stateful_set)
    return replace(cause, next_step=step).because(_failed(stateful_set, known))


def _identities(stateful_set: StatefulSet, known: Snapshot) -> dict[int, Pod]:
    found = {ordinal_of(stateful_set, pod): pod for pod in _owned(stateful_set, known.pods.values())}
    return {ordinal: pod for ordinal, pod in found.items() if ordinal is not None}


def _held_up(stateful_set: StatefulSet, first: int, pods: dict[int, Pod]) -> str:
    """What waits for the first pod that is not ready, where the set has them one after the other."""
    name = f"{stateful_set.name}-{first}"
    missing = first not in pods
    later = next((each for each in ordinals(stateful_set) if each > first and each not in pods), None)
    if stateful_set.spec.pod_management_policy == "Parallel" or later is None:
        return f"; {name} does not exist" if missing else ""
    after = f"{stateful_set.name}-{later}"
    state = "does not exist" if missing else "is not ready"
    return f"; {name} {state}, and {after} is made only once it is ready (OrderedReady)"


def _outdated(stateful_set: StatefulSet, pods: dict[int, Pod]) -> Cause | None:
    """The pods of an older template that an update has yet to replace; None where it is over, or leaves
    them."""
    strategy, revision = stateful_set.spec.update_strategy, stateful_set.status.update_revision
    first = ordinals(stateful_set).start + strategy.rolling_update.partition
    old = [
        pod.name
        for ordinal, pod in sorted(pods.items())
        if revision and pod.metadata.labels.get(REVISION) != revision and ordinal >= first
    ]
    if not old:
        return None
    message = f"statefulset {stateful_set.key}: {', '.join(old[:MOST_EXPLAINED])} of an older template"
    if strategy.type == "OnDelete":
        step = f"OnDelete: kubectl -n {stateful_set.namespace} delete pod {old[-1]}"
        return Cause(about(stateful_set), Reason("Outdated", message), next_step=step)
    step = _soon("statefulset", stateful_set)
    return Cause(about(stateful_set), Reason("RollingOut", f"{message}, to be replaced"), next_step=step)


def explain_deployment(deployment: Deployment, known: Snapshot) -> Cause:
    """Explains a Deployment by its conditions and by the pods that are not ready."""
    if deployment.deleting:
        return _vanishing(deployment)
    status, wanted = deployment.status, deployment.spec.replicas
    have = f"deployment {deployment.key}: available pods: {status.available_replicas} of {wanted}"
    seen = status.observed_generation >= deployment.metadata.generation
    if seen and status.updated_replicas == status.replicas == status.available_replicas == wanted:
        return fine(deployment, have, "Available")
    sets = _owned(deployment, known.replica_sets.values())
    pods = [pod for each in sets for pod in _owned(each, known.pods.values())]
    cause = _rollout(deployment, have, seen=seen).because(*_explained(pods, known))
    if sum(map(counts, pods)) < wanted:
        cause = cause.because(*(_failed(each, known) for each in sets))
    return cause if cause.next_step else replace(cause, next_step=_step(deployment, cause))


def _rollout(deployment: Deployment, ready: str, *, seen: bool) -> Cause:
    """What the Deployment's own conditions say, the worst first."""
    held = {each.type: each for each in deployment.status.conditions}
    if deployment.spec.paused:
        step = f"kubectl -n {deployment.namespace} rollout resume deployment {deployment.name}"
        return Cause(about(deployment), Reason("Paused", f"{ready}; its rollout is paused"), next_step=step)
    failed, progressing = held.get("ReplicaFailure"), held.get("Progressing")
    if failed is not None and failed.status == "True":
        since = failed.last_transition_time or ""
        return Cause(about(deployment), Reason(failed.reason, f"{ready}; {failed.message}"), since=since)
    if progressing is not None and progressing.status == "False":
        since = progressing.last_transition_time or ""
        return Cause(
            about(deployment), Reason(progressing.reason, f"{ready}; {progressing.message}"), since=since
        )
    what = "its pods are replaced or started" if seen else "the controller has not seen its last change yet"
    return Cause(about(deployment), Reason("RollingOut", f"{ready}; {what}"))


def _step(deployment: Deployment, cause: Cause) -> str:
    """The next step that no cause of the pods' tells."""
    exclusive = any(each.reason.code in _EXCLUSIVE for each in _all(cause))
    if exclusive and deployment.spec.strategy.type == "RollingUpdate":
        return (
            "an update starts a pod before the one that has its volume ends; "
            "with `strategy: {type: Recreate}` it ends that one first"
        )
    return "" if cause.causes else _soon("replicaset", deployment)


def _all(cause: Cause) -> Iterator[Cause]:
    yield cause
    for each in cause.causes:
        yield from _all(each)


def _soon(controller: str, obj: StatefulSet | Deployment) -> str:
    described = f"kubectl -n {obj.namespace} describe {obj.RESOURCE.kind.lower()} {obj.name}"
    return f"this lasts moments; if not, see whether the controller {controller} runs, and: {described}"


def _vanishing(obj: StatefulSet | Deployment) -> Cause:
    held = ", ".join(obj.metadata.finalizers) or "nothing"
    message = f"{obj.RESOURCE.kind.lower()} {obj.key} is being deleted, and held by {held}"
    step = "foregroundDeletion and orphan go when the garbage collector has done its work; others are a controller's"
    since = obj.metadata.deletion_timestamp or ""
    return Cause(about(obj), Reason("HeldByFinalizer", message), since=since, next_step=step)


def _explained(pods: Sequence[Pod], known: Snapshot) -> list[Cause]:
    """Why each pod is not ready, those that have a reason; of the rest, how many they are."""
    causes = [cause for pod in pods if not (cause := explain_pod(pod, known)).ok]
    if len(causes) <= MOST_EXPLAINED:
        return causes
    more = Reason("MorePods", f"{counted(len(causes) - MOST_EXPLAINED, 'more pod')} not ready")
    return [*causes[:MOST_EXPLAINED], Cause("pod", more)]


def _failed(owner: StatefulSet | ReplicaSet, known: Snapshot) -> Cause | None:
    """The last pod that could not be made or deleted: a quota or a webhook refused it."""
    event = known.warning(owner, "FailedCreate", "FailedDelete")
    if event is None:
        return None
    return Cause(about(owner), Reason(event.reason, event.message), since=event.last_timestamp or "")


def _owned(owner: Object, objects: Iterable[T]) -> list[T]:
    return [each for each in objects if owner.uid in controller_uid(each)]

"""What is decided about StatefulSets, by upstream's documentation of them.

https://kubernetes.io/docs/concepts/workloads/controllers/statefulset
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from mooring.controllers.statefulset import controller
from mooring.controllers.statefulset.decide import Action, PodDecision
from mooring.kube.objects import PersistentVolumeClaim, Pod, StatefulSet, StatefulSetStatus
from mooring.kube.times import parse_time
from mooring.simulation.checks.second_opinions import near_statefulsets as near
from mooring.simulation.checks.second_opinions.question import Question

REVISION = "controller-revision-hash"
STARTING = ("", "ContainerCreating", "PodInitializing")
"""Why a container waits that is only being started."""

Step = tuple[Action, int]


def of_steps(
    answer: Sequence[PodDecision],
    stateful_set: StatefulSet,
    pods: Mapping[int, Pod],
    revision: str,
    now: datetime,
) -> Iterator[str]:
    """A set that is being deleted is left alone. With OrderedReady a pod is made, replaced or scaled away
    only while all before it are available; with Parallel no pod waits for another, but for updates."""
    expected: list[Step] = []
    if not stateful_set.deleting:
        first = first_of(stateful_set)
        wanted = range(first, first + stateful_set.spec.replicas)
        least = stateful_set.spec.min_ready_seconds
        available = {ordinal for ordinal, pod in pods.items() if is_available(pod, least, now)}
        ordered = stateful_set.spec.pod_management_policy != "Parallel"
        steps = _in_order if ordered else _in_parallel
        expected = steps(stateful_set, wanted, pods, available, revision)
    given = [(each.action, each.ordinal) for each in answer]
    if given != expected:
        yield f"{stateful_set.name}: {_told(given)}, and not {_told(expected)}"


def _in_order(
    stateful_set: StatefulSet,
    wanted: Collection[int],
    pods: Mapping[int, Pod],
    available: Collection[int],
    revision: str,
) -> list[Step]:
    """One change at a time: the first pod that is not available is what is worked on. While it starts only an
    update may go on, where the former template's pods will never start. What is scaled away is the last
    pod, not before the former last one is gone; if it is not available, all others must be."""
    for ordinal in sorted(wanted):
        if ordinal not in available:
            step = _mended(ordinal, pods)
            return [step] if step else _updated(stateful_set, wanted, pods, available, revision, stuck=True)
    surplus = sorted(pods.keys() - set(wanted))
    if not surplus:
        return _updated(stateful_set, wanted, pods, available, revision, stuck=False)
    *others, last = surplus
    ending = any(pods[ordinal].deleting for ordinal in surplus)
    permitted = last in available or all(ordinal in available for ordinal in others)
    return [(Action.DELETE, last)] if permitted and not ending else []


def _in_parallel(
    stateful_set: StatefulSet,
    wanted: Collection[int],
    pods: Mapping[int, Pod],
    available: Collection[int],
    revision: str,
) -> list[Step]:
    """All pods that are missing are made, all that have ended or are surplus deleted, at once. Updates wait
    until none of that is to be done and surplus pods are gone."""
    surplus = sorted(pods.keys() - set(wanted), reverse=True)
    steps = [(Action.DELETE, ordinal) for ordinal in surplus if not pods[ordinal].deleting]
    steps += [step for ordinal in wanted if (step := _mended(ordinal, pods))]
    return (
        steps if steps or surplus else _updated(stateful_set, wanted, pods, available, revision, stuck=False)
    )


def _mended(ordinal: int, pods: Mapping[int, Pod]) -> Step | None:
    """A pod that is missing is made. One that has ended is deleted, once, and made again when it is gone."""
    pod = pods.get(ordinal)
    if pod is None:
        return Action.CREATE, ordinal
    ended = pod.status.phase in ("Succeeded", "Failed") and not pod.deleting
    return (Action.DELETE, ordinal) if ended else None


def _updated(
    stateful_set: StatefulSet,
    wanted: Collection[int],
    pods: Mapping[int, Pod],
    available: Collection[int],
    revision: str,
    *,
    stuck: bool,
) -> list[Step]:
    """RollingUpdate takes pods of another template at or above the partition, the last first: of available
    ones as many as may be unavailable and are not yet, and never more than that in all. `stuck`: only those
    whose containers do not start."""
    update = stateful_set.spec.update_strategy
    if update.type != "RollingUpdate":
        return []
    least = first_of(stateful_set) + update.rolling_update.partition
    old = {
        ordinal
        for ordinal, pod in pods.items()
        if ordinal in wanted and ordinal >= least and not pod.deleting
        if pod.metadata.labels.get(REVISION) != revision
        if not stuck or _is_stuck(pod)
    }
    most = _most_unavailable(stateful_set)
    left = most - sum(ordinal not in available for ordinal in wanted)
    served = sorted(old.intersection(available), reverse=True)
    taken = old.difference(served).union(served[: max(left, 0)])
    return [(Action.DELETE, ordinal) for ordinal in sorted(taken, reverse=True)[:most]]


def _most_unavailable(stateful_set: StatefulSet) -> int:
    """One, or what `maxUnavailable` says; a part of a pod is none, but one pod always may be."""
    given = stateful_set.spec.update_strategy.rolling_update.max_unavailable
    if isinstance(given, str):
        given = stateful_set.spec.replicas * int(given[:-1]) // 100
    return max(given or 1, 1)


def _is_stuck(pod: Pod) -> bool:
    waiting = [each.state.waiting for each in pod.status.container_statuses if each.state.waiting]
    return not all(each.reason in STARTING for each in waiting)


def is_available(pod: Pod, least: int, now: datetime) -> bool:
    """It runs, is not being deleted, and has been ready for `minReadySeconds`."""
    if pod.deleting or pod.status.phase != "Running":
        return False
    for each in pod.status.conditions:
        if each.type == "Ready" and each.status == "True":
            since = each.last_transition_time
            return not least or since is None or now - parse_time(since) >= timedelta(seconds=least)
    return False


def first_of(stateful_set: StatefulSet) -> int:
    """Ordinals count from 0, or from `spec.ordinals.start`."""
    return 0 if stateful_set.spec.ordinals is None else stateful_set.spec.ordinals.start


def _told(steps: Sequence[Step]) -> str:
    return ", ".join(f"{action.value} {ordinal}" for action, ordinal in steps) or "nothing"


def revision_of(stateful_set: StatefulSet, ordinal: int, revision: str) -> str:
    """Pods whose ordinal is below the partition stay at the former template, all others get the new one."""
    update = stateful_set.spec.update_strategy
    below = ordinal - first_of(stateful_set) < update.rolling_update.partition
    former = stateful_set.status.current_revision
    return former if former and below and update.type == "RollingUpdate" else revision


def of_revision(answer: str, stateful_set: StatefulSet, ordinal: int, revision: str) -> Iterator[str]:
    expected = revision_of(stateful_set, ordinal, revision)
    if answer != expected:
        yield f"pod {ordinal} of {stateful_set.name} is made of {answer}, and not of {expected}"


def of_touched(answer: Collection[str], asked: Any, pod: Pod) -> Iterator[str]:
    """A pod is of the set that controls it; one that nothing controls may be adopted by the set whose name
    it has."""
    owner = pod.controller
    if owner is not None:
        expected = {f"{pod.namespace}/{owner.name}"} if owner.kind == "StatefulSet" else set[str]()
    else:
        name, _, number = pod.name.rpartition("-")
        key = f"{pod.namespace}/{name}"
        expected = {key} if number.isdigit() and asked._sets.get(key) is not None else set[str]()
    if {*answer} != expected:
        yield f"a change of pod {pod.key} marks {answer}, and not {expected}"


def of_claim_going(answer: Collection[str], asked: Any, claim: PersistentVolumeClaim) -> Iterator[str]:
    """A set may wait for the end of each claim that has a name of its identities'."""
    if not claim.deleting:
        if answer:
            yield f"claim {claim.key}, which stays, marks {answer}"
        return
    name, _, number = claim.name.rpartition("-")
    for each in asked._sets.items() if number.isdigit() else ():
        names = {f"{one['metadata']['name']}-{each.name}" for one in each.spec.volume_claim_templates}
        if each.namespace == claim.namespace and name in names and each.key not in answer:
            yield f"claim {claim.key}, which goes, does not mark {each.key}"


def counted(
    stateful_set: StatefulSet, pods: Sequence[Pod], revision: str, going: Collection[str], now: datetime
) -> StatefulSetStatus:
    """A status counts the pods there are, those that run and are ready, and of each template those that stay.
    The new template becomes the current one when there are as many pods as wanted, all of it and ready."""
    staying = [pod.metadata.labels.get(REVISION) for pod in pods if not pod.deleting and pod.uid not in going]
    ready = [pod for pod in pods if is_available(pod, 0, now)]
    old = [pod for pod in pods if pod.metadata.labels.get(REVISION) != revision]
    complete = len(pods) == len(staying) == len(ready) == stateful_set.spec.replicas and not old
    current = stateful_set.status.current_revision
    current = revision if complete or not current else current
    least = stateful_set.spec.min_ready_seconds
    return StatefulSetStatus(
        observed_generation=stateful_set.metadata.generation,
        replicas=len(pods),
        ready_replicas=len(ready),
        available_replicas=len([pod for pod in ready if is_available(pod, least, now)]),
        current_replicas=staying.count(current),
        updated_replicas=staying.count(revision),
        current_revision=current,
        update_revision=revision,
        collision_count=0,
    )


def of_status(
    answer: StatefulSetStatus,
    stateful_set: StatefulSet,
    pods: Sequence[Pod],
    revision: str,
    going: Collection[str],
    now: datetime,
) -> Iterator[str]:
    expected = counted(stateful_set, pods, revision, going, now)
    if answer != expected:
        yield f"{stateful_set.name} is {answer}, and not {expected}"


QUESTIONS = (
    Question(controller, "decide", of_steps, near=near.STEPS),
    Question(controller, "revision_for", of_revision, near=near.CHOSEN),
    Question(controller, "status_of", of_status, near=near.STATUS),
    Question(controller.StatefulSetController, "_touched", of_touched),
    Question(controller.StatefulSetController, "_set_of_claim", of_claim_going),
)

"""What is to be done next for a StatefulSet. Pure.

Rules of upstream's controller (reference section 5.4): a pod is named `<set>-<ordinal>`; with OrderedReady one change
at a time, each predecessor running and ready; a terminating pod is waited for, whatever its node says, because only
the API's uniqueness of names keeps two pods of one identity apart. Nothing is ever deleted by force.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from mooring.kube.objects import Pod, StatefulSet
from mooring.kube.reason import Reason

REVISION = "controller-revision-hash"
POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"


class Act(Enum):
    """What to do with one ordinal's pod."""

    CREATE = "Create"
    DELETE = "Delete"


class Step(NamedTuple):
    act: Act
    ordinal: int
    reason: Reason


def ordinal_of(stateful_set: StatefulSet, pod: Pod) -> int | None:
    """The ordinal in a pod's name, or None if the name is not one of the set's."""
    parent, _, number = pod.name.rpartition("-")
    return int(number) if parent == stateful_set.name and number.isdecimal() else None


def healthy(pod: Pod) -> bool:
    """Running and ready, and not on its way out."""
    ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
    return pod.status.phase == "Running" and ready and not pod.deleting


def decide(stateful_set: StatefulSet, pods: Mapping[int, Pod], revision: str) -> list[Step]:
    """The next steps: none or one with OrderedReady, possibly several with Parallel."""
    if stateful_set.deleting:
        return []
    wanted = _ordinals(stateful_set)
    parallel = stateful_set.spec.pod_management_policy == "Parallel"
    steps = _replace_and_create(wanted, pods, parallel)
    if steps or (not parallel and not all(o in pods and healthy(pods[o]) for o in wanted)):
        return steps if parallel else steps[:1]
    condemned = sorted((ordinal for ordinal in pods if ordinal not in wanted), reverse=True)
    if condemned:
        return _scale_down(condemned, pods, parallel)
    return _roll(stateful_set, wanted, pods, revision)


def _ordinals(stateful_set: StatefulSet) -> range:
    start = stateful_set.spec.ordinals.start if stateful_set.spec.ordinals else 0
    return range(start, start + stateful_set.spec.replicas)


def _replace_and_create(wanted: range, pods: Mapping[int, Pod], parallel: bool) -> list[Step]:
    steps: list[Step] = []
    for ordinal in wanted:
        pod = pods.get(ordinal)
        if pod is None:
            steps.append(Step(Act.CREATE, ordinal, Reason("Missing", "has no pod")))
        elif pod.finished and not pod.deleting:
            steps.append(Step(Act.DELETE, ordinal, Reason("Finished", f"its pod is {pod.status.phase}")))
        if not parallel and (pod is None or not healthy(pod)):
            return steps  # predecessors first
    return steps


def _scale_down(condemned: Sequence[int], pods: Mapping[int, Pod], parallel: bool) -> list[Step]:
    if any(pods[ordinal].deleting for ordinal in condemned) and not parallel:
        return []
    steps = [Step(Act.DELETE, o, Reason("ScaledDown", "is not wanted")) for o in condemned if not pods[o].deleting]
    return steps if parallel else steps[:1]


def _roll(stateful_set: StatefulSet, wanted: range, pods: Mapping[int, Pod], revision: str) -> list[Step]:
    strategy = stateful_set.spec.update_strategy
    if strategy.type != "RollingUpdate" or any(o not in pods for o in wanted):
        return []
    for ordinal in reversed(wanted):
        pod = pods[ordinal]
        if ordinal >= strategy.rolling_update.partition and pod.metadata.labels.get(REVISION) != revision:
            if pod.deleting:
                return []
            return [Step(Act.DELETE, ordinal, Reason("Outdated", "is of an older revision"))]
        if not healthy(pod):
            return []
    return []

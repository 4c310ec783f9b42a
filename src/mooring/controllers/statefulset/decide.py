"""What to do next for a StatefulSet. Pure.

Rules of upstream's controller (kube-controller-manager, `statefulset/stateful_set_control.go`): a pod is
named `<set>-<ordinal>`. With OrderedReady there is one change at a time, and each predecessor must be running
and ready. A terminating pod is waited for, whatever its node says, because only the API's uniqueness of names
keeps two pods of one identity apart. Nothing is ever deleted by force.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from mooring.kube.decision import Decision
from mooring.kube.objects import Pod, StatefulSet
from mooring.kube.percentages import portion
from mooring.kube.readiness import available_at, ready_since
from mooring.kube.reason import Reason
from mooring.kube.revisions import REVISION

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
MOST_AT_ONCE = 500
"""Pods of one step; the rest follows when their watch events come. A set may want more than there is memory
for."""


class Action(Enum):
    """What to do with one ordinal's pod."""

    CREATE = "Create"
    DELETE = "Delete"


class PodDecision(Decision[Action], frozen=True, gc=False):
    """What to do with the pod of one ordinal."""

    ordinal: int


def ordinal_of(stateful_set: StatefulSet, pod: Pod) -> int | None:
    """Returns the ordinal in a pod's name, or None if the name is not one of the set's."""
    parent, _, number = pod.name.rpartition("-")
    return int(number) if parent == stateful_set.name and number.isdecimal() else None


class Pods(NamedTuple):
    """The pods of a set by ordinal, and the time at which they are judged."""

    by_ordinal: Mapping[int, Pod]
    min_ready_seconds: int
    now: datetime

    def healthy(self, ordinal: int) -> bool:
        """Whether the pod is running, ready for long enough, and not being deleted."""
        pod = self.by_ordinal.get(ordinal)
        return pod is not None and is_available(pod, self.min_ready_seconds, self.now)


def is_ready(pod: Pod) -> bool:
    """Whether the pod is running and ready, and not being deleted."""
    return _stays(pod) and ready_since(pod) is not None


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Whether the pod has been ready for `min_ready_seconds` seconds."""
    moment = available_at(pod, min_ready_seconds)
    return _stays(pod) and moment is not None and moment <= now


def _stays(pod: Pod) -> bool:
    return pod.status.phase == "Running" and not pod.deleting


def decide(
    stateful_set: StatefulSet, by_ordinal: Mapping[int, Pod], revision: str, now: datetime
) -> list[PodDecision]:
    """Returns what to do next: at most one change with OrderedReady, possibly several with Parallel."""
    if stateful_set.deleting:
        return []
    pods = Pods(by_ordinal, stateful_set.spec.min_ready_seconds, now)
    wanted = ordinals(stateful_set)
    parallel = stateful_set.spec.pod_management_policy == "Parallel"
    steps = _replace_and_create(wanted, pods, parallel)
    condemned = sorted((ordinal for ordinal in by_ordinal if ordinal not in wanted), reverse=True)
    if parallel and condemned:  # first: a pod that cannot be created now must not keep a surplus pod
        return [*_scale_down(condemned, by_ordinal), *steps]
    if steps or (not parallel and not all(pods.healthy(ordinal) for ordinal in wanted)):
        # A pod of the old template that cannot become ready must not keep the new one away for ever.
        return steps or _roll(stateful_set, wanted, pods, revision, broken_only=True)
    if condemned:
        return _scale_down_in_order(condemned, pods)
    return _roll(stateful_set, wanted, pods, revision)


def ordinals(stateful_set: StatefulSet) -> range:
    """Returns the ordinals that the set should have."""
    start = stateful_set.spec.ordinals.start if stateful_set.spec.ordinals else 0
    return range(start, start + stateful_set.spec.replicas)


def revision_for(stateful_set: StatefulSet, ordinal: int, revision: str) -> str:
    """Returns the revision that a pod is made of: below a rolling update's partition, the
    one before the update."""
    strategy, wanted = stateful_set.spec.update_strategy, ordinals(stateful_set)
    kept = strategy.type == "RollingUpdate" and ordinal < wanted.start + strategy.rolling_update.partition
    return stateful_set.status.current_revision or revision if kept else revision


def _replace_and_create(wanted: range, pods: Pods, parallel: bool) -> list[PodDecision]:
    steps: list[PodDecision] = []
    for ordinal in wanted:
        pod = pods.by_ordinal.get(ordinal)
        if pod is None:
            steps.append(PodDecision(Action.CREATE, Reason("Missing", "has no pod"), ordinal))
        elif pod.finished and not pod.deleting:
            steps.append(
                PodDecision(Action.DELETE, Reason("Finished", f"its pod is {pod.status.phase}"), ordinal)
            )
        if (not parallel and not pods.healthy(ordinal)) or len(steps) == MOST_AT_ONCE:
            return steps  # predecessors first
    return steps


def _scale_down(condemned: Sequence[int], pods: Mapping[int, Pod]) -> list[PodDecision]:
    return [
        PodDecision(Action.DELETE, Reason("ScaledDown", "is not wanted"), o)
        for o in condemned
        if not pods[o].deleting
    ]


def _scale_down_in_order(condemned: Sequence[int], pods: Pods) -> list[PodDecision]:
    """Returns the deletion of the highest ordinal's pod, when no other is ending. A pod that is not healthy
    goes only if no lower one is unhealthy, too: what is wrong with several may be wrong with the set."""
    highest, *lower = condemned
    ending = any(pods.by_ordinal[ordinal].deleting for ordinal in condemned)
    if ending or not (pods.healthy(highest) or all(map(pods.healthy, lower))):
        return []
    return _scale_down([highest], pods.by_ordinal)


def _roll(
    stateful_set: StatefulSet, wanted: range, pods: Pods, revision: str, *, broken_only: bool = False
) -> list[PodDecision]:
    """Returns deletions of pods of an older revision, from the highest ordinal down: as many at once as may
    be unavailable, less those that are, wherever they are. A pod that is not healthy anyway is replaced
    without waiting for others."""
    strategy = stateful_set.spec.update_strategy
    if strategy.type != "RollingUpdate":
        return []
    most = most_unavailable(stateful_set)
    spare = most - (
        len(wanted) - sum(pods.healthy(ordinal) for ordinal in pods.by_ordinal if ordinal in wanted)
    )
    updated = wanted[max(strategy.rolling_update.partition, 0) :]
    steps: list[PodDecision] = []
    for ordinal in sorted((each for each in pods.by_ordinal if each in updated), reverse=True):
        pod, healthy = pods.by_ordinal[ordinal], pods.healthy(ordinal)
        if pod.deleting or pod.metadata.labels.get(REVISION) == revision:
            continue
        if (healthy and spare <= 0) or (broken_only and not _is_broken(pod)):
            continue
        steps.append(PodDecision(Action.DELETE, Reason("Outdated", "is of an older revision"), ordinal))
        spare -= healthy
    return steps[:most]


def most_unavailable(stateful_set: StatefulSet) -> int:
    """Returns how many pods an update may make unavailable at once: at least one."""
    given = stateful_set.spec.update_strategy.rolling_update.max_unavailable
    return 1 if given is None else max(portion(given, stateful_set.spec.replicas, up=False), 1)


def _is_broken(pod: Pod) -> bool:
    """Whether the pod's containers cannot start, or start again and again."""
    waiting = (each.state.waiting for each in pod.status.container_statuses)
    return any(
        each is not None and each.reason not in ("", "ContainerCreating", "PodInitializing")
        for each in waiting
    )

"""What to do next for a ReplicaSet or a ReplicationController. Pure.

Availability first, in contrast to a StatefulSet: a pod that is being deleted, or has failed, no longer
counts, and another one replaces it at once, wherever the first may still be writing. So an exclusive volume
that all pods of a set share makes the new pod wait for the detach from the old one's node; nothing else does.
Rules: upstream's replicaset controller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import Any

from mooring.kube.decision import Decision
from mooring.kube.objects import Pod, ReplicaSet, ReplicationController
from mooring.kube.readiness import ready_since
from mooring.kube.reason import Reason
from mooring.kube.selectors import LabelSelector, label_selector_from_object, label_selector_of

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
MOST_AT_ONCE = 500
"""Pods created without a pause; the rest follows when their watch events come (upstream's burstReplicas)."""
Owner = ReplicaSet | ReplicationController

_PHASES = {"Pending": 0, "Unknown": 1}


class Action(Enum):
    """What to do about one pod, in the order in which it is done."""

    CREATE = "Create"
    DELETE = "Delete"


class PodDecision(Decision[Action], frozen=True, gc=False):
    """What to do about one pod. `pod`: the one that is meant; None for CREATE."""

    pod: Pod | None = None


_MISSING = Reason("TooFew", "there are fewer pods than wanted")
_SURPLUS = Reason("TooMany", "there are more pods than wanted")


def selector_of(owner: Owner) -> LabelSelector:
    """Returns the selector of the owner's pods."""
    if isinstance(owner, ReplicationController):
        return label_selector_from_object(
            {"matchLabels": owner.spec.selector} if owner.spec.selector else None
        )
    return label_selector_of(owner.spec.selector)


def counts(pod: Pod) -> bool:
    """Whether the pod is one of those that are wanted: it neither ends nor has ended."""
    return not pod.deleting and not pod.finished


def decide(owner: Owner, pods: Sequence[Pod]) -> list[PodDecision]:
    """Returns what to do, in the order of `Action`. `pods`: those of the owner that count."""
    if owner.deleting:
        return []
    surplus = len(pods) - owner.spec.replicas
    created = [PodDecision(Action.CREATE, _MISSING)] * min(max(-surplus, 0), MOST_AT_ONCE)
    deleted = [PodDecision(Action.DELETE, _SURPLUS, pod) for pod in _least_needed(pods)[: max(surplus, 0)]]
    return [*created, *deleted]


def _least_needed(pods: Sequence[Pod]) -> list[Pod]:
    """Returns the pods in the order in which they are deleted: not placed, not running, not
    ready, cheap, crowded, young."""
    crowd = Counter(pod.spec.node_name for pod in pods)
    newest_first = sorted(pods, key=lambda pod: pod.metadata.creation_timestamp or "", reverse=True)
    return sorted(newest_first, key=lambda pod: _need(pod, crowd[pod.spec.node_name]))


def _need(pod: Pod, neighbours: int) -> tuple[Any, ...]:
    since = ready_since(pod)
    restarts = sum(status.restart_count for status in pod.status.container_statuses)
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 2),
        since is not None,
        _deletion_cost(pod),
        -neighbours,
        -since.timestamp() if since else 0.0,
        -restarts,
    )


def _deletion_cost(pod: Pod) -> int:
    """Returns the cost that the user has set. Upstream's API server refuses values that are not
    numbers, so they may be ignored here."""
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    return int(text) if text.lstrip("-").isdecimal() else 0

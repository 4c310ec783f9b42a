"""The status of a Deployment: its counts, and the conditions that `kubectl rollout status` reads. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from mooring.controllers.replicaset.rollout import bounds
from mooring.kube.objects import Condition, Deployment, ReplicaSet
from mooring.kube.times import format_time, parse_time

OURS = ("Available", "Progressing", "ReplicaFailure")
"""The types of conditions that this controller answers for. The last is upstream's alone: one that was left
by kube-controller-manager would be taken back by no other."""


def counts(deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]) -> dict[str, Any]:
    """The numbers of the status, as upstream names them."""
    everything = [*old, *([new] if new is not None else [])]
    available = sum(each.status.available_replicas for each in everything)
    wanted = sum(each.spec.replicas for each in everything)
    return {
        "observedGeneration": deployment.metadata.generation,
        "replicas": sum(each.status.replicas for each in everything),
        "updatedReplicas": new.status.replicas if new is not None else 0,
        "readyReplicas": sum(each.status.ready_replicas for each in everything),
        "availableReplicas": available,
        "unavailableReplicas": max(wanted - available, 0),
    }


def conditions(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], now: datetime
) -> list[dict[str, Any]]:
    """Returns Available and Progressing, then those of others; `lastUpdateTime` of Progressing is when the
    rollout last made progress."""
    numbers = counts(deployment, new, old)
    return [
        _condition(deployment, "Available", *_available(deployment, numbers["availableReplicas"]), now=now),
        _progressing(deployment, new, numbers, now),
        *(as_written(each) for each in deployment.status.conditions if each.type not in OURS),
    ]


def as_written(condition: Condition) -> dict[str, Any]:
    """A condition as a Deployment's status has it."""
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastUpdateTime": condition.last_update_time,
        "lastTransitionTime": condition.last_transition_time,
    }


def complete(deployment: Deployment, numbers: dict[str, Any]) -> bool:
    """Whether all pods are of the present template and available, and no other is left."""
    return (
        numbers["updatedReplicas"]
        == numbers["replicas"]
        == numbers["availableReplicas"]
        == deployment.spec.replicas
    )


def _available(deployment: Deployment, available: int) -> tuple[str, str, str]:
    if available >= bounds(deployment).available:
        return "True", "MinimumReplicasAvailable", "Deployment has minimum availability."
    return "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."


def _progressing(
    deployment: Deployment, new: ReplicaSet | None, numbers: dict[str, Any], now: datetime
) -> dict[str, Any]:
    name = new.name if new is not None else ""
    if deployment.spec.paused:
        return _condition(
            deployment, "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", now=now
        )
    if complete(deployment, numbers):
        message = f'ReplicaSet "{name}" has successfully progressed.'
        return _condition(deployment, "Progressing", "True", "NewReplicaSetAvailable", message, now=now)
    got_on = any(
        numbers[key] != held
        for key, held in (
            ("updatedReplicas", deployment.status.updated_replicas),
            ("readyReplicas", deployment.status.ready_replicas),
            ("availableReplicas", deployment.status.available_replicas),
            ("observedGeneration", deployment.status.observed_generation),
        )
    )
    if not got_on and _too_late(deployment, now):
        message = f'ReplicaSet "{name}" has timed out progressing.'
        return _condition(deployment, "Progressing", "False", "ProgressDeadlineExceeded", message, now=now)
    message = f'ReplicaSet "{name}" is progressing.'
    return _condition(deployment, "Progressing", "True", "ReplicaSetUpdated", message, now=now, touch=got_on)


def _too_late(deployment: Deployment, now: datetime) -> bool:
    held, deadline = _held(deployment, "Progressing"), deployment.spec.progress_deadline_seconds
    if held is None or deadline is None or held.reason == "NewReplicaSetAvailable":
        return False
    if held.reason == "ProgressDeadlineExceeded":
        return True
    return now >= parse_time(held.last_update_time or format_time(now)) + timedelta(seconds=deadline)


def _condition(
    deployment: Deployment,
    kind: str,
    status: str,
    reason: str,
    message: str,
    *,
    now: datetime,
    touch: bool = False,
) -> dict[str, Any]:
    held, stamp = _held(deployment, kind), format_time(now)
    same = (
        held is not None
        and (held.status, held.reason, held.message) == (status, reason, message)
        and not touch
    )
    stays = held is not None and held.status == status
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        # What another has written may have no times.
        "lastUpdateTime": (held.last_update_time if same and held else None) or stamp,
        "lastTransitionTime": (held.last_transition_time if stays and held else None) or stamp,
    }


def _held(deployment: Deployment, kind: str) -> Condition | None:
    return next((each for each in deployment.status.conditions if each.type == kind), None)

"""The pod condition that names who took a pod away: upstream's DisruptionTarget (KEP 3329). Pure."""

from __future__ import annotations

from datetime import datetime

from mooring.kube.times import format_time

DISRUPTION_TARGET = "DisruptionTarget"


def disruption(reason: str, message: str, now: datetime) -> dict[str, str]:
    """The condition, for a strategic patch of the pod's status. `reason` is upstream's word:
    DeletionByTaintManager, DeletionByPodGC, ..."""
    return {
        "type": DISRUPTION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(now),
    }

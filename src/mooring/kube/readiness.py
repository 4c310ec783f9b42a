"""Since when a pod is ready, and when it counts as available. One rule for every controller that counts
pods."""

from __future__ import annotations

from datetime import datetime, timedelta

from mooring.kube.objects import Pod
from mooring.kube.times import parse_time

_LONG_AGO = "1970-01-01T00:00:00Z"
AT_ONCE = parse_time(_LONG_AGO)


def ready_since(pod: Pod) -> datetime | None:
    """Since when the pod is ready, or None if it is not."""
    ready = next(
        (each for each in pod.status.conditions if each.type == "Ready" and each.status == "True"), None
    )
    return None if ready is None else parse_time(ready.last_transition_time or _LONG_AGO)


def available_at(pod: Pod, min_ready_seconds: int) -> datetime | None:
    """When the pod counts as available: ready for so many seconds. None while it is not ready. One that need
    not have been ready for any time is available at once, whatever its node's clock said then."""
    since = ready_since(pod)
    if since is None:
        return None
    return AT_ONCE if min_ready_seconds == 0 else since + timedelta(seconds=min_ready_seconds)

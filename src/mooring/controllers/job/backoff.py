"""How long a job waits before it replaces a pod that failed. Pure.

The first failure after a success is replaced after 10 s, each further one after twice the time, up to 10 min.
A controller that has just begun counts the pods that are still there. Source: upstream's job controller.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from mooring.kube.objects import Pod
from mooring.kube.times import parse_time

FIRST_S, LONGEST_S = 10.0, 600.0
_MANY = 16
"""Doubled so often, the time is the longest in any case."""


class Backoff(NamedTuple):
    """The failures since the last success, and when the last of them was."""

    failures: int = 0
    last: datetime | None = None

    def after(self, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> Backoff:
        """With pods that have ended since."""
        success = max((ended_at(pod) for pod in succeeded), default=None)
        held = self if success is None else Backoff()
        moments = [ended_at(pod) for pod in failed]
        late = [moment for moment in moments if success is None or moment > success]
        return Backoff(held.failures + len(late), max(late)) if late else held

    def seen_at(self, now: datetime) -> Backoff:
        """No failure is later than it was seen: one that seems to be has its time from another clock, or the
        clock was set."""
        return self if self.last is None else self._replace(last=min(self.last, now))

    def remaining(self, now: datetime) -> float:
        """Seconds until the next pod may be made; 0 if it may be made now."""
        if not self.failures or self.last is None:
            return 0.0
        delay = min(FIRST_S * 2 ** min(self.failures - 1, _MANY), LONGEST_S)
        return max(delay - (now - self.last).total_seconds(), 0.0)


def ended_at(pod: Pod) -> datetime:
    """When the pod ended: by its containers, its Ready condition, its deletion, or else when it was made."""
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    ends = [
        parse_time(each.state.terminated.finished_at)
        for each in statuses
        if each.state.terminated is not None and each.state.terminated.finished_at
    ]
    if ends and len(ends) >= len(pod.status.container_statuses):
        return max(ends)
    for condition in pod.status.conditions:
        if condition.type == "Ready" and condition.status == "False" and condition.last_transition_time:
            return parse_time(condition.last_transition_time)
    if pod.metadata.deletion_timestamp:
        grace = timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)
        return parse_time(pod.metadata.deletion_timestamp) - grace
    return parse_time(pod.metadata.creation_timestamp or "1970-01-01T00:00:00Z")

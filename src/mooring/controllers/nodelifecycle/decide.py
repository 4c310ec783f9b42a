"""When a node counts as silent, which taints its condition calls for, when a pod has to go. Pure. Times in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mooring.kube.objects import Node, Pod, Taint
from mooring.kube.taints import matching

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
OURS = (NOT_READY, UNREACHABLE, UNSCHEDULABLE)


class Heartbeat(NamedTuple):
    """The last sign of life of a node: what it said, and when (by this process's clock) that was first seen.

    Only changes are looked at, never the node's own clock: clocks differ.
    """

    said: tuple[str, ...]
    seen: float


def silent_for(heartbeat: Heartbeat, now: float) -> float:
    """How long the node has said nothing new."""
    return now - heartbeat.seen


def wanted_taints(node: Node) -> list[tuple[str, str]]:
    """Keys and effects that the node's state calls for."""
    taints: list[tuple[str, str]] = []
    if node.ready != "True":
        key = UNREACHABLE if node.ready == "Unknown" else NOT_READY
        taints += [(key, "NoSchedule"), (key, "NoExecute")]
    if node.spec.unschedulable:
        taints.append((UNSCHEDULABLE, "NoSchedule"))
    return taints


def taints_after(node: Node, stamp: str) -> list[Taint]:
    """All taints as they should be: others' untouched, ours as wanted, those that stay with their first time."""
    wanted = wanted_taints(node)
    kept = [t for t in node.spec.taints if t.key not in OURS or (t.key, t.effect) in wanted]
    held = {(t.key, t.effect) for t in kept}
    return kept + [Taint(key=k, effect=e, time_added=stamp) for k, e in wanted if (k, e) not in held]


def evict_after(pod: Pod, taints: Sequence[Taint]) -> float | None:
    """Seconds after which the pod must go because of NoExecute taints; 0 at once, None never."""
    limits: list[float] = []
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        tolerations = matching(pod, taint)
        if not tolerations:
            return 0.0
        seconds = [t.toleration_seconds for t in tolerations if t.toleration_seconds is not None]
        if seconds:
            limits.append(float(max(0, min(seconds))))
    return min(limits, default=None)

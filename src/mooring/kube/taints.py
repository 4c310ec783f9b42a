"""Taints and tolerations: the API's own rule of which toleration matches which taint. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.kube.objects import Pod, Taint, Toleration

UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
"""What a cordoned node has: a pod that tolerates it may be placed there all the same."""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether the toleration matches. An empty effect or (with Exists) an empty key matches all."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and bool(toleration.key) and toleration.value == taint.value


def matching(pod: Pod, taint: Taint) -> list[Toleration]:
    """The pod's tolerations that match the taint."""
    return [toleration for toleration in pod.spec.tolerations if tolerates(toleration, taint)]


def untolerated(pod: Pod, taints: Iterable[Taint], *effects: str) -> Taint | None:
    """The first of the taints with one of these effects that the pod does not tolerate."""
    return next((taint for taint in taints if taint.effect in effects and not matching(pod, taint)), None)

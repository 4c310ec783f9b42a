"""Taints and tolerations: the API's own rule of which toleration matches which taint. Pure."""

from __future__ import annotations

from mooring.kube.objects import Pod, Taint, Toleration


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

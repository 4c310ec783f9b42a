"""The group policy: PodDisruptionBudgets."""

from __future__ import annotations

from typing import Any

from mooring.kube.objects.meta import Object, Resource


class PodDisruptionBudget(Object, frozen=True):
    RESOURCE = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}

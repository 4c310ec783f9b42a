"""The group policy: PodDisruptionBudgets."""

# ruff: noqa: RUF012 -- msgspec gives every object an empty dict of its own.

from __future__ import annotations

from typing import Any

from mooring.kube.objects.meta import Object, Resource


class PodDisruptionBudget(Object, frozen=True):
    RESOURCE = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}

"""What a pod has of its volumes, where tests say it."""

from __future__ import annotations

from typing import Any

from mooring.node.volumes.decide import PodVolumes


def pod_volumes(**facts: Any) -> PodVolumes:
    """These, and nothing else."""
    nothing: dict[str, Any] = {"wanted": False, "mounted": {}, "waiting": {}, "read_only": frozenset()}
    nothing |= {"stale": False, "held": False, "evicted": None, "releasing": False}
    return PodVolumes(**nothing | facts)

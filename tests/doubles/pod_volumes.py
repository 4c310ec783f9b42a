"""What is known of a volume on a node, and what a pod has of its volumes, where tests say it."""

from __future__ import annotations

from typing import Any

from mooring.node.volumes.decide import PodVolumes, Presence, VolumeState

NOTHING = PodVolumes(
    wanted=False,
    mounted={},
    waiting={},
    read_only=frozenset(),
    stale=False,
    held=False,
    evicted=None,
    releasing=False,
)
NEW = VolumeState(
    attachable=True,
    has_device=True,
    wanted_by=frozenset(),
    starting=frozenset(),
    pods={},
    outdated=frozenset(),
    under_way=frozenset(),
    resting={},
    one_at_a_time=False,
    device=Presence.ABSENT,
    published=False,
    reported=False,
    to_grow=False,
    stale=False,
)
"""Nothing has been done about it yet."""


def pod_volumes(**facts: Any) -> PodVolumes:
    """These, and nothing else."""
    return PodVolumes(**vars(NOTHING) | facts)


def volume_state(**facts: Any) -> VolumeState:
    """That of a new volume, but for these."""
    return VolumeState(**vars(NEW) | facts)

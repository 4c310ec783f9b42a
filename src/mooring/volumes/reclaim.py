"""Which volumes are to be deleted or emptied, as their PersistentVolumes say: the mark that the reclaimer
and the attacher go by (docs/protocol.md, "Reclaim"). Pure."""

from __future__ import annotations

from mooring.kube.objects import PersistentVolume

WITHOUT_CLAIM = ("Released", "Failed")
"""Phases of a volume whose claim is gone."""


def to_be_reclaimed(persistent_volume: PersistentVolume) -> bool:
    """Whether its claim is gone, and its policy does not retain it."""
    policy = persistent_volume.spec.persistent_volume_reclaim_policy
    return persistent_volume.status.phase in WITHOUT_CLAIM and policy in ("Delete", "Recycle")

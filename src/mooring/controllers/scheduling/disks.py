"""Disks that pods name themselves, without a claim, and that two pods of a node cannot have together. Pure.

Source: upstream's VolumeRestrictions plugin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mooring.kube.objects import Volume


class _Disk(NamedTuple):
    """`names`: one in common makes two the same disk. `shared_read_only`: many may read it together."""

    kind: str
    names: frozenset[tuple[str, ...]]
    read_only: bool = False
    shared_read_only: bool = True


def is_exclusive(volume: Volume) -> bool:
    """Whether the volume is of a kind that can be in conflict."""
    return _disk(volume) is not None


def conflict(volume: Volume, other: Volume) -> bool:
    """Whether two pods with these volumes cannot be on one node."""
    mine, theirs = _disk(volume), _disk(other)
    if mine is None or theirs is None or mine.kind != theirs.kind or not mine.names & theirs.names:
        return False
    return not (mine.shared_read_only and mine.read_only and theirs.read_only)


def _disk(volume: Volume) -> _Disk | None:
    if (gce := volume.gce_persistent_disk) is not None:
        return _Disk("gce", frozenset({(gce.pd_name,)}), gce.read_only)
    if (aws := volume.aws_elastic_block_store) is not None:
        return _Disk("aws", frozenset({(aws.volume_id,)}), aws.read_only, shared_read_only=False)
    if (iscsi := volume.iscsi) is not None:
        return _Disk("iscsi", frozenset({(iscsi.iqn,)}), iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        return _Disk("rbd", _images(rbd.monitors, rbd.pool, rbd.image), rbd.read_only)
    return None


def _images(monitors: Sequence[str], pool: str, image: str) -> frozenset[tuple[str, ...]]:
    """A cluster is known by any of its monitors."""
    return frozenset((monitor, pool, image) for monitor in monitors)

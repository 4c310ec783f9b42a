"""What a played storage raises that is no word of its own."""

from __future__ import annotations

from mooring.volumes.errors import VolumeError


class Infeasible(VolumeError):
    """What a disk is to be like is nothing that the storage can make; nothing was changed."""


class Unanswered(VolumeError):
    """The storage did what it was asked for, or not: its answer was lost."""

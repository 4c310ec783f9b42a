"""For how long a VolumeSnapshotContent may come of a snapshot that goes: a request to create one that was not
answered takes effect late, or never.

A snapshot that is let go before that leaves the content for good, and what the storage takes for it. Nothing
deletes a content whose snapshot is missing: it may be a copy of another cluster's, and what the storage has
may be the original's (upstream has it so).
"""

from __future__ import annotations

import asyncio

from mooring.controllers.snapshots.decide import was_told_of_content
from mooring.kube.first_seen import FirstSeen
from mooring.kube.objects.snapshots import VolumeSnapshot

LATEST_CREATION_S = 150.0
"""So long after its sender gave it up a request to create a content may take effect: longer than an API
server works on one, and what is between may hold it back."""


class LateContents:
    """What was asked for is known of this process alone. Another one may have asked for the content of a
    snapshot that was never told of one: that counts from when it is seen here."""

    def __init__(self) -> None:
        self._unanswered: dict[str, float] = {}  # uid -> the loop's time
        self._going: FirstSeen[str, str] = FirstSeen()

    def unanswered(self, snapshot: VolumeSnapshot) -> None:
        """A request to create its content was just given up."""
        self._unanswered[snapshot.uid] = asyncio.get_running_loop().time()

    def forget(self, gone: VolumeSnapshot) -> None:
        self._unanswered.pop(gone.uid, None)
        self._going.ages(gone.uid, {})

    def time_left(self, going: VolumeSnapshot) -> float:
        """For how many seconds from now a content may come; at most 0 if none can."""
        known = self._going.ages(going.uid, {} if was_told_of_content(going) else {"": ""})
        now = asyncio.get_running_loop().time()
        asked = [now - self._unanswered[going.uid]] if going.uid in self._unanswered else []
        return max((LATEST_CREATION_S - age for age in (*known.values(), *asked)), default=0.0)

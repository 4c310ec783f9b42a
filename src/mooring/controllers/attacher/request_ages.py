"""Since when this attacher knows of each request that a VolumeAttachment names.

By the wall clock a request that was sent a second ago may be an hour old: the clock was set. So the times on
a VolumeAttachment tell requests apart, and no more. How old one is goes by the event loop's clock, which does
not jump: a request of this process from when it is sent, and one of a predecessor from when this process has
seen it first, for it was sent before that. What was answered is over.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence

from mooring.controllers.attacher import requests
from mooring.kube.objects import VolumeAttachment
from mooring.volumes.names import ATTACH_REQUESTED_AT, DETACH_REQUESTED_AT


class RequestAges:
    """Of all VolumeAttachments. Times are the event loop's, in seconds."""

    def __init__(self) -> None:
        self._since: dict[str, dict[str, float]] = {}  # uid -> time on the VolumeAttachment -> since when

    def note(self, record: VolumeAttachment) -> None:
        """Sees the VolumeAttachment: what it names by now, and what it names no more."""
        known, now = self._since.pop(record.uid, {}), asyncio.get_running_loop().time()
        named = [
            each
            for annotation in (ATTACH_REQUESTED_AT, DETACH_REQUESTED_AT)
            for each in requests.times(record, annotation)
        ]
        if named:
            self._since[record.uid] = {each: known.get(each, now) for each in named}

    def sends(self, record: VolumeAttachment, annotation: str) -> None:
        """The latest request is sent now: that it would be was written before, perhaps long before."""
        latest = requests.times(record, annotation)[-1]
        self._since.setdefault(record.uid, {})[latest] = asyncio.get_running_loop().time()

    def answered(self, record: VolumeAttachment, *sent: str) -> None:
        """Of these requests it is known that they were answered: they count as over."""
        self._since.setdefault(record.uid, {}).update(dict.fromkeys(sent, -math.inf))

    def record_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        """Handler of the cache, which tells of one in the place of another as of two changes."""
        if new is not None:
            self.note(new)
        elif old is not None:
            self._since.pop(old.uid, None)

    def since(self, record: VolumeAttachment, sent: Iterable[str]) -> list[float]:
        """Since when each of these requests is known."""
        known, now = self._since.get(record.uid, {}), asyncio.get_running_loop().time()
        return [known.get(each, now) for each in sent]

    def still_valid(self, record: VolumeAttachment, sent: Sequence[str], validity_s: float) -> list[str]:
        """Those of these requests that may still take effect."""
        now, since = asyncio.get_running_loop().time(), self.since(record, sent)
        return [each for each, known in zip(sent, since, strict=True) if known + validity_s > now]

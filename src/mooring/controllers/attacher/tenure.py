"""What an attacher need not store, because it alone is at work for as long as it holds a Lease.

A detach that is not answered may be carried out later (`requests`), so whoever comes next must know that it was asked
for. An attacher that may be one of several stores that on the VolumeAttachment before it asks. One that holds a Lease
remembers it, which saves a write for each detach; for its successor the deletion itself is the note: each that was
under way when it took over counts as asked for at that moment. No request of a former holder is later, for a holder
asks nothing when its time is over.

A deletion is *fresh* if it began in this tenure: the record was written after the Lease was taken, and was not being
deleted then. Nobody else has asked for anything, and the record is still there, however late the cache is: only who
holds the Lease takes the finalizer off. What is not fresh is noted on the record, with the record's resourceVersion,
before the storage is asked.

Times are the loop's, in seconds: they do not jump.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from mooring.kube.client import Client
from mooring.kube.objects import VolumeAttachment
from mooring.kube.times import format_micro_time
from mooring.volumes.names import DETACHED


class Tenure:
    """What is remembered; nothing where nobody says that the client's owner is alone (`Client.leads`)."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._since = 0  # the resourceVersion of a list that was read in this tenure; 0: not known
        self._not_fresh: set[str] = set()  # uids
        self._unanswered: dict[str, list[float]] = {}  # by uid: when each was asked for

    async def begin(self) -> None:
        """Looks, once, which deletions are under way. Raises KubeError: then nothing may be detached yet."""
        if self._client.leads is None or self._since:
            return
        listing = await self._client.list(VolumeAttachment)
        now = asyncio.get_running_loop().time()
        deleting = [each for each in listing.items if each.deleting]
        self._not_fresh = {each.uid for each in deleting}
        # Who has noted "detached" has stored what was not answered, and asks no more.
        self._unanswered = {each.uid: [now] for each in deleting if DETACHED not in each.metadata.annotations}
        self._since = int(listing.resource_version)

    def is_fresh(self, record: VolumeAttachment) -> bool:
        """Whether the storage may be asked to detach without a note."""
        if not self._since or record.uid in self._not_fresh:
            return False
        return int(record.metadata.resource_version) > self._since

    def unanswered(self, record: VolumeAttachment, now: datetime) -> list[str]:
        """When the detaches that were not answered were asked for, as `requests` notes times."""
        age = asyncio.get_running_loop().time()
        return [format_micro_time(now - timedelta(seconds=age - at)) for at in self._unanswered.get(record.uid, ())]

    def asks(self, record: VolumeAttachment, validity_s: float) -> None:
        """The storage is being asked to detach; until `answered`, that may still be carried out."""
        now = asyncio.get_running_loop().time()
        valid = [at for at in self._unanswered.get(record.uid, ()) if at + validity_s > now]
        self._unanswered[record.uid] = [*valid, now]

    def answered(self, record: VolumeAttachment, asked: bool) -> None:
        """If it was remembered that the storage is asked: it has answered that, or it was not sent."""
        if asked:
            self._unanswered[record.uid].pop()

    def noted(self, record: VolumeAttachment) -> None:
        """All of them are on the record now, and need not be remembered."""
        self._unanswered.pop(record.uid, None)

    def lets_go(self, record: VolumeAttachment) -> None:
        """The finalizer is being taken off: a cache that still has the record may be late from now on."""
        self._not_fresh.add(record.uid)

    def gone(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        """A change of the cache: what is not there any more need not be remembered."""
        if new is None and old is not None:
            self._not_fresh.discard(old.uid)
            self._unanswered.pop(old.uid, None)

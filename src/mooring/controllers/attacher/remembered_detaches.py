"""Detach requests that an attacher under a Lease remembers, where another attacher would have to store them.

A detach request that was not answered may still take effect later (`requests`), so the next attacher must
know that it was sent. An attacher that may be one of several stores each request on the VolumeAttachment
before it sends it. An attacher that holds a Lease keeps its requests in memory, which saves one write for
each detach. Its successor takes the deletion itself for the note: every deletion that was in flight when it
took the Lease over counts as requested at that moment. No request of a former lease holder is later than
that: a lease holder sends nothing once its lease is over.

A deletion is *fresh* if it began under this Lease: the VolumeAttachment was written after the Lease was
taken, and was not being deleted then. No other attacher can have sent a request for it, and the
VolumeAttachment still exists, however stale the cache is: only the lease holder removes the finalizer. A
request for a deletion that is not fresh is stored on the VolumeAttachment, with its resourceVersion as a
precondition, before it is sent.

docs/protocol.md, "The attacher under a Lease". Times are the event loop's, in seconds: they do not jump.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from mooring.kube.client import Client
from mooring.kube.objects import VolumeAttachment
from mooring.kube.times import format_micro_time
from mooring.volumes.names import DETACHED


class RememberedDetaches:
    """The unanswered detach requests of this lease holder. Without a Lease (`Client.leads` is None) it
    remembers none, and no deletion is fresh."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._since = 0  # resourceVersion of a list that was read under this Lease; 0: not read yet
        self._not_fresh: set[str] = set()  # uids
        self._unanswered: dict[str, list[float]] = {}  # uid -> when each request was sent

    async def begin(self) -> None:
        """Reads, once, which deletions are in flight. Raises KubeError: then nothing may be detached yet."""
        if self._client.leads is None or self._since:
            return
        listing = await self._client.list(VolumeAttachment)
        now = asyncio.get_running_loop().time()
        deleting = [each for each in listing.items if each.deleting]
        self._not_fresh = {each.uid for each in deleting}
        # A VolumeAttachment with DETACHED carries the times of its unanswered requests, and no further one
        # was sent.
        self._unanswered = {each.uid: [now] for each in deleting if DETACHED not in each.metadata.annotations}
        self._since = int(listing.resource_version)

    def is_fresh(self, record: VolumeAttachment) -> bool:
        """Whether the storage may be asked to detach without storing the request first."""
        if not self._since or record.uid in self._not_fresh:
            return False
        return int(record.metadata.resource_version) > self._since

    def since(self, record: VolumeAttachment) -> list[float]:
        """When the unanswered detach requests were sent."""
        return [*self._unanswered.get(record.uid, ())]

    def unanswered(self, record: VolumeAttachment, now: datetime) -> list[str]:
        """The same in the form in which `requests` stores times."""
        age = asyncio.get_running_loop().time()
        return [format_micro_time(now - timedelta(seconds=age - at)) for at in self.since(record)]

    def add(self, record: VolumeAttachment, validity_s: float) -> None:
        """The storage is about to be asked to detach; the request may take effect until
        `answered`, or for `validity_s`."""
        now = asyncio.get_running_loop().time()
        valid = [at for at in self._unanswered.get(record.uid, ()) if at + validity_s > now]
        self._unanswered[record.uid] = [*valid, now]

    def answered(self, record: VolumeAttachment) -> None:
        """The latest request was answered, or certainly not sent: it has no effect any more. The
        VolumeAttachment may have gone meanwhile."""
        if sent := self._unanswered.get(record.uid):
            sent.pop()

    def stored(self, record: VolumeAttachment) -> None:
        """All requests are stored on the VolumeAttachment now, and need not be remembered."""
        self._unanswered.pop(record.uid, None)

    def released(self, record: VolumeAttachment) -> None:
        """The finalizer is about to be removed: a cache that still shows the
        VolumeAttachment may be stale from now."""
        self._not_fresh.add(record.uid)

    def forget(self, gone: VolumeAttachment) -> None:
        """The VolumeAttachment does not exist any more."""
        self._not_fresh.discard(gone.uid)
        self._unanswered.pop(gone.uid, None)

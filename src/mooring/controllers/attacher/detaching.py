"""Detaches a volume, and then lets its VolumeAttachment go.

The VolumeAttachment goes when the storage has said "detached" *and* no earlier request can still take effect:
a request that was not answered may be carried out later (docs/protocol.md C15). So each request is known
until it cannot take effect any more: stored on the VolumeAttachment before it is sent, or, under a Lease,
remembered (`remembered_detaches`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import structlog

from mooring.controllers.attacher import metrics, requests
from mooring.controllers.attacher.definitions import DEFINED_AGAIN_S, UNDEFINED_VALIDITY_S, Definitions
from mooring.controllers.attacher.remembered_detaches import RememberedDetaches
from mooring.controllers.attacher.request_ages import RequestAges
from mooring.controllers.attacher.writes import Writes
from mooring.kube.errors import Conflict
from mooring.kube.objects import VolumeAttachment
from mooring.kube.storage_metrics import operation
from mooring.kube.times import Now, format_micro_time
from mooring.volumes.errors import NotAsked, StorageRefused
from mooring.volumes.interfaces import AttachableVolumePlugin
from mooring.volumes.names import ATTACH_REQUESTED_AT, DETACH_REQUESTED_AT, DETACHED


class Detaching:
    """Detaches one volume at a time. `ours`: the attachers' names that are carried out here,
    with their finalizers."""

    def __init__(
        self,
        writes: Writes,
        definitions: Definitions,
        remembered: RememberedDetaches,
        ages: RequestAges,
        ours: Mapping[str, str],
        now: Now,
    ) -> None:
        self._writes = writes
        self._definitions = definitions
        self._remembered = remembered
        self._ages = ages
        self._ours = ours
        self._now = now
        self._let_go: set[str] = set()
        """Uids of VolumeAttachments that were let go, until the watch says so: the cache still shows them."""
        self._answered: set[str] = set()
        """Uids of those of which the storage has said "detached" while an attach may still take effect. It is
        asked again when none can any more, and not at each look before."""
        self._log: Any = structlog.get_logger(component="attacher")

    def forget(self, gone: VolumeAttachment) -> None:
        """The VolumeAttachment does not exist any more."""
        self._let_go.discard(gone.uid)
        self._answered.discard(gone.uid)

    async def detach(self, record: VolumeAttachment) -> float:
        """Asks the storage to detach, unless it has said "detached" before; once more when an attach may have
        taken effect since, and none can any more. Returns 0 when the VolumeAttachment was let go, else the
        seconds until no earlier request can take effect any more, or until that is to be looked at again.
        Raises KubeError, VolumeError and what the storage raises."""
        if record.uid in self._let_go:
            return 0.0
        noted = requests.times(record, DETACH_REQUESTED_AT)
        # Before anything is waited for: what another process withdraws meanwhile is not known any more.
        detaches_since, attaches_since = self._ages.since(record, noted), self._attaches_since(record)
        await self._remembered.begin()
        plugin = self._definitions.plugin(record)
        validity_s = await self._definitions.validity_s(record)
        before = [*noted, *self._remembered.unanswered(record, self._now())]
        since = [*detaches_since, *self._remembered.since(record)]
        known, asked = DETACHED in record.metadata.annotations, record
        # Before it is asked: one may come between.
        attach_s = requests.outstanding_for(attaches_since, _loop_time(), validity_s)
        if not known and not (attach_s and record.uid in self._answered):
            asked = await self._ask(plugin, record, before, validity_s)
        if attach_s:
            self._answered.add(record.uid)
        left_s = max(attach_s, requests.outstanding_for(since, _loop_time(), validity_s))
        if not left_s:
            metrics.done(
                plugin.get_plugin_name(), "volume_detach", asked.metadata.deletion_timestamp, self._now()
            )
            await self._end(record, asked)
            return 0.0
        # The storage has said "detached", and may still carry out an earlier request.
        self._log.info("RequestOutstanding", record=asked.name, node=asked.spec.node_name, seconds=left_s)
        # If only detaches are outstanding, another node may have the volume: a late one affects this node
        # alone.
        detached = {} if known or attach_s else {DETACHED: format_micro_time(self._now())}
        if asked is not record:
            await self._writes.withdraw(asked, DETACH_REQUESTED_AT, detached)
        elif detached:
            await self._note(asked, {DETACH_REQUESTED_AT: ",".join(before), **detached})
        return min(left_s, DEFINED_AGAIN_S) if validity_s == UNDEFINED_VALIDITY_S else left_s

    def _attaches_since(self, record: VolumeAttachment) -> list[float]:
        """Since when the attaches are known that were not answered."""
        attaches = requests.unanswered(requests.times(record, ATTACH_REQUESTED_AT), record)
        return self._ages.since(record, attaches)

    async def _ask(
        self, plugin: AttachableVolumePlugin, record: VolumeAttachment, before: list[str], validity_s: float
    ) -> VolumeAttachment:
        """Asks the storage to detach. Returns the VolumeAttachment as it is afterwards: a newer version than
        `record` if the request was stored on it."""
        attaches = requests.unanswered(requests.times(record, ATTACH_REQUESTED_AT), record)
        remembers = self._remembered.is_fresh(record) and not attaches
        volume, detacher = await self._definitions.detacher(record)
        asked = record if remembers or not validity_s else await self._stamp(record, before, validity_s)
        self._writes.client.check_leading()  # nothing is waited for between this and the request
        if remembers:
            self._remembered.add(record, validity_s)
        elif asked is not record:
            self._ages.sends(asked, DETACH_REQUESTED_AT)
        try:
            with operation(plugin.get_plugin_name(), "volume_detach"):
                await detacher.detach(volume, asked.spec.node_name)
        except (StorageRefused, NotAsked):
            if asked is not record:
                await self._writes.withdraw(asked, DETACH_REQUESTED_AT)
            if remembers:
                self._remembered.answered(record)
            raise
        if remembers:
            self._remembered.answered(record)
        return asked

    async def _stamp(
        self, record: VolumeAttachment, before: list[str], validity_s: float
    ) -> VolumeAttachment:
        valid = self._ages.still_valid(record, before, validity_s)
        return await self._note(record, {DETACH_REQUESTED_AT: requests.begun(valid, self._now())})

    async def _note(self, record: VolumeAttachment, notes: Mapping[str, str | None]) -> VolumeAttachment:
        """Stores annotations, among them the times of all requests that were remembered."""
        noted = await self._writes.annotate(record, notes)
        self._remembered.stored(record)
        return noted

    async def _end(self, record: VolumeAttachment, asked: VolumeAttachment) -> None:
        """Releases what is detached, and was `record` before the storage was asked. If another has written to
        it meanwhile, the request that was answered must not count when it is looked at again."""
        try:
            await self._release(asked)
        except Conflict:
            if asked is not record:
                await self._writes.withdraw(asked, DETACH_REQUESTED_AT)
            raise

    async def _release(self, record: VolumeAttachment) -> None:
        """Removes the finalizer: the storage has said "detached", and no request is outstanding."""
        ours = self._ours[record.spec.attacher]
        if record.metadata.finalizers != (ours,):
            # Another controller's finalizer keeps the VolumeAttachment, or has done so: its status must then
            # be true, and no attach may seem to be unanswered.
            await self._writes.erase(record, ATTACH_REQUESTED_AT)
            record = await self._writes.store_detached(record)
        finalizers = [each for each in record.metadata.finalizers if each != ours]
        if self._writes.shows(record):  # the watch will say that it is gone, unless it has
            self._remembered.released(record)
        patch = {"metadata": {"finalizers": finalizers or None}}
        if finalizers:
            await self._writes.revise(record, patch)
            return
        self._let_go.add(record.uid)  # if the write succeeds, the watch says that it is gone
        try:
            await self._writes.client.revise(record, patch)
        except BaseException:
            self._let_go.discard(record.uid)
            raise


def _loop_time() -> float:
    return asyncio.get_running_loop().time()

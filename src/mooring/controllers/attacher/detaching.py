"""Detaches: the storage is asked, and the VolumeAttachment goes when it has said "detached" and nothing may come late.

A request that was not answered may be carried out later. It is known of until it cannot: noted on the record before it
is sent, or remembered where that is enough (`tenure`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from mooring.controllers.attacher import metrics, requests
from mooring.controllers.attacher.definitions import Definitions
from mooring.controllers.attacher.tenure import Tenure
from mooring.controllers.attacher.writes import Writes
from mooring.kube.objects import VolumeAttachment
from mooring.kube.times import Now, format_micro_time
from mooring.volumes.errors import NotAsked, StorageRefused
from mooring.volumes.interfaces import AttachableVolumePlugin
from mooring.volumes.names import ATTACH_REQUESTED_AT, DETACH_REQUESTED_AT, DETACHED


class Detaching:
    """Detaches one record at a time for each of the attachers in `ours` (their names and finalizers)."""

    def __init__(
        self, writes: Writes, definitions: Definitions, tenure: Tenure, ours: Mapping[str, str], now: Now
    ) -> None:
        self._writes = writes
        self._definitions = definitions
        self._tenure = tenure
        self._ours = ours
        self._now = now
        self._log: Any = structlog.get_logger(component="attacher")

    async def detach(self, record: VolumeAttachment) -> float:
        """Asks the storage, unless it has said "detached". Lets the record go and returns 0, or returns the seconds
        until nothing may come late any more. Raises KubeError, VolumeError and what the storage does."""
        await self._tenure.begin()
        plugin, validity_s = self._definitions.plugin(record), await self._definitions.validity_s(record)
        noted = list(requests.times(record, DETACH_REQUESTED_AT))
        before = requests.not_later([*noted, *self._tenure.unanswered(record, self._now())], self._now())
        known, asked = DETACHED in record.metadata.annotations, record
        if not known:
            asked = await self._ask(plugin, record, before, validity_s)
        sent = list(requests.times(asked, ATTACH_REQUESTED_AT))
        attaches = requests.not_later(sent, self._now())
        attach_s = requests.outstanding_for(_unanswered(attaches, asked), self._now(), validity_s)
        left_s = max(attach_s, requests.outstanding_for(before, self._now(), validity_s))
        if not left_s:
            metrics.done(plugin.get_plugin_name(), "volume_detach", asked.metadata.deletion_timestamp, self._now())
            await self._let_go(asked)
            return 0.0
        # The storage has said "detached", and may still carry out what was asked of it earlier.
        self._log.info("RequestOutstanding", record=asked.name, node=asked.spec.node_name, seconds=left_s)
        # This request was answered: nobody has to wait for it. What is left, if it detaches, strikes this node only.
        detached = {} if known or attach_s else {DETACHED: format_micro_time(self._now())}
        if asked is not record:
            await self._writes.withdraw(asked, DETACH_REQUESTED_AT, detached)
        elif detached or before != noted or attaches != sent:
            times = {DETACH_REQUESTED_AT: ",".join(before) or None, ATTACH_REQUESTED_AT: ",".join(attaches) or None}
            await self._note(asked, {**times, **detached})
        return left_s

    async def _ask(
        self, plugin: AttachableVolumePlugin, record: VolumeAttachment, before: list[str], validity_s: float
    ) -> VolumeAttachment:
        """The record as it is when the storage has answered; another one, if the request is noted there."""
        attaches = _unanswered(requests.times(record, ATTACH_REQUESTED_AT), record)
        remembers = self._tenure.is_fresh(record) and not attaches
        asked = record if remembers or not validity_s else await self._stamp(record, before, validity_s)
        self._writes.client.check_leading()
        if remembers:
            self._tenure.asks(record, validity_s)
        try:
            volume, detacher = await self._definitions.detacher(asked)
            with metrics.operation(plugin.get_plugin_name(), "volume_detach"):
                await detacher.detach(volume, asked.spec.node_name)
        except (StorageRefused, NotAsked):
            if asked is not record:
                await self._writes.withdraw(asked, DETACH_REQUESTED_AT)
            self._tenure.answered(record, remembers)
            raise
        self._tenure.answered(record, remembers)
        return asked

    async def _stamp(self, record: VolumeAttachment, before: list[str], validity_s: float) -> VolumeAttachment:
        notes: dict[str, str | None] = {DETACH_REQUESTED_AT: requests.begun(before, self._now(), validity_s)}
        if attaches := requests.times(record, ATTACH_REQUESTED_AT):
            notes[ATTACH_REQUESTED_AT] = ",".join(requests.not_later(attaches, self._now()))
        return await self._note(record, notes)

    async def _note(self, record: VolumeAttachment, notes: Mapping[str, str | None]) -> VolumeAttachment:
        """Everything that was remembered is among the notes."""
        noted = await self._writes.annotate(record, notes)
        self._tenure.noted(record)
        return noted

    async def _let_go(self, record: VolumeAttachment) -> None:
        """The storage has said that it is detached, and it was asked by nobody else: the record may go."""
        ours = self._ours[record.spec.attacher]
        finalizers = [each for each in record.metadata.finalizers if each != ours]
        if finalizers:  # somebody else keeps the record: then it must say what is true
            record = await self._writes.store_status(record, {"attached": False, "detachError": None})
        self._tenure.lets_go(record)
        await self._writes.client.revise(record, {"metadata": {"finalizers": finalizers or None}})


def _unanswered(attaches: Sequence[str], record: VolumeAttachment) -> Sequence[str]:
    """Of the attach requests those that were not answered: if it was attached, the latest was."""
    return attaches[:-1] if record.status.attached else attaches

"""The attacher: makes VolumeAttachments true, those of plugin volumes and those of the CSI drivers that it can call.

One worker for a VolumeAttachment at a time, a cap on how many are worked on at once (and on those of one driver),
backoff for each. Before a request to the storage: finalizer and request time are stored, and the lock is checked. After
it: the answer. An answer that never came leaves the record as it was, and the request is made again: every request is
idempotent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Any

from mooring.controllers.attacher import metrics, requests
from mooring.controllers.attacher.decide import Step, decide
from mooring.controllers.attacher.definitions import Definitions, plugin_name
from mooring.controllers.attacher.slots import Slots
from mooring.controllers.attacher.verification import denied, is_verified
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import Conflict, KubeError, NotFound
from mooring.kube.objects import PersistentVolume, VolumeAttachment
from mooring.kube.times import Now, format_micro_time, format_time, parse_time
from mooring.volumes.attachment_lock import is_current
from mooring.volumes.errors import LockNotHeld, NotAsked, StorageRefused, VolumeError
from mooring.volumes.interfaces import AttachableVolumePlugin
from mooring.volumes.names import (
    ATTACH_EPOCH,
    ATTACH_REQUESTED_AT,
    ATTACHER,
    DETACH_REQUESTED_AT,
    DETACHED,
)
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

VERIFY = "*"
"""The key under which everything that is attached is verified."""
VOLUME = "volume:"
"""Before the name of a PersistentVolume: the keys of those that are going and are kept for our sake."""
VERIFY_S = 60.0
"""As upstream's reconciler sync."""


@dataclass(frozen=True)
class AttacherOptions:
    """`workers`: how many requests to storages at once, the cap of the origin document; `concurrency`: how many of one
    plugin or driver; where there are several, none has more than three quarters of the workers. `verify_period_s`: how
    often the storage is asked what is attached; 0: never."""

    workers: int = 16
    concurrency: Mapping[str, int] = field(default_factory=dict[str, int])
    verify_period_s: float = VERIFY_S


class AttacherController(Controller):
    """Calls the plugins' attachers and detachers."""

    name = "attacher"
    workers = AttacherOptions.workers

    def __init__(
        self,
        client: Client,
        plugins: PluginManager,
        *,
        now: Now,
        random: Random,
        options: AttacherOptions = AttacherOptions(),
    ) -> None:
        super().__init__(client, now=now, random=random)
        self._plugins = plugins
        self._options = options
        self.workers = options.workers
        self._ours = plugins.attachers()
        # One storage that does not answer must not take all workers from the others.
        otherwise = max(1, options.workers * 3 // 4) if len(self._ours) > 1 else None
        self._slots = Slots(options.concurrency, self.queue.add, otherwise=otherwise)
        drivers = self._ours.keys() - {ATTACHER}
        self._volumes = self.watch(PersistentVolume, self._left_behind) if drivers else None
        self._definitions = Definitions(client, plugins, self._volumes)
        # What this controller notes of its own errors does not matter: it would end their backoff.
        self._records = self.watch(VolumeAttachment, self._touched, matters=_what_matters)

    def _touched(self, record: VolumeAttachment) -> list[str]:
        pv = self._volumes.get(record.spec.source.persistent_volume_name or "") if self._volumes else None
        return [record.name, *(self._left_behind(pv) if pv is not None else ())]

    def _left_behind(self, pv: PersistentVolume) -> list[str]:
        """A volume that is going, and that upstream's attacher keeps for as long as it is attached."""
        return [f"{VOLUME}{pv.name}"] if pv.deleting and self._theirs(pv) else []

    def _theirs(self, pv: PersistentVolume) -> set[str]:
        return set(self._ours.values()).intersection(pv.metadata.finalizers)

    async def started(self) -> None:
        if self._options.verify_period_s:
            self.queue.add_after(VERIFY, self._options.verify_period_s)

    async def reconcile(self, key: str) -> None:
        """Takes one VolumeAttachment a step further, until nothing is left to do."""
        if key == VERIFY:
            self.queue.add_after(VERIFY, self._options.verify_period_s)
            await self._verify()
            return
        if key.startswith(VOLUME):
            await self._let_volume_go(key.removeprefix(VOLUME))
            return
        record, stored = self._records.get(key), False
        while record is not None:
            step, reason = decide(record, stored=stored, ours=self._ours)
            if step in (Step.IGNORE, Step.SETTLED):
                return
            driver = plugin_name(record)
            if not self._slots.take(driver, key):
                return
            try:
                self.log.info(step.value, record=key, node=record.spec.node_name, reason=reason.message)
                record, stored = await self._take(step, record), step is Step.STORE_INTENT
            finally:
                self._slots.free(driver)

    async def _let_volume_go(self, name: str) -> None:
        """What upstream's attacher has put on the volume is taken off when the volume is attached nowhere."""
        pv = await self.client.find(PersistentVolume, name)
        if pv is None or not self._left_behind(pv):
            return
        records = (await self.client.list(VolumeAttachment)).items
        if not any(record.spec.source.persistent_volume_name == name for record in records):
            rest = [each for each in pv.metadata.finalizers if each not in self._theirs(pv)]
            await self.client.revise(pv, {"metadata": {"finalizers": rest or None}})

    async def _verify(self) -> None:
        recorded: defaultdict[AttachableVolumePlugin, list[tuple[VolumeAttachment, VolumeSpec]]] = defaultdict(list)
        for record in self._records.items():
            if not is_verified(record, self._ours):
                continue
            try:
                recorded[self._definitions.plugin(record)].append((record, await self._definitions.spec(record)))
            except VolumeError as error:  # nobody can be asked about it
                self.log.warning("VolumeNotVerified", record=record.name, error=str(error))
        for plugin, ours in recorded.items():
            for record in await denied(plugin, ours, self.log):
                await self._tell_lost(record)

    async def _tell_lost(self, record: VolumeAttachment) -> None:
        now = self._records.get(record.name)
        if now is None or now.metadata.resource_version != record.metadata.resource_version:
            return  # written since: the storage was asked about something else
        self.log.warning("NotAttachedAnyMore", record=record.name, node=record.spec.node_name)
        try:
            patch = {"status": {"attached": False}}
            self._records.accept(await self.client.revise(record, patch, subresource="status"))
        except (Conflict, NotFound):  # as above; the cache does not know it yet
            return

    async def _take(self, step: Step, record: VolumeAttachment) -> VolumeAttachment | None:
        acts: dict[Step, Callable[[VolumeAttachment], Awaitable[VolumeAttachment | None]]] = {
            Step.STORE_INTENT: self._store_intent,
            Step.ATTACH: self._attach,
            Step.DETACH: self._detach,
        }
        field = "detachError" if step is Step.DETACH else "attachError"
        try:
            return await acts[step](record)
        except KubeError:
            raise
        except Exception as error:
            await self._store_error(record, field, error)
            raise

    # --- attach

    async def _store_intent(self, record: VolumeAttachment) -> VolumeAttachment:
        ours = self._ours[record.spec.attacher]
        finalizers = [*(f for f in record.metadata.finalizers if f != ours), ours]
        sent = requests.times(record, ATTACH_REQUESTED_AT)
        stamp = requests.begun(sent, self.now(), await self._definitions.validity_s(record) if sent else 0.0)
        notes = {**await self._definitions.notes(record), ATTACH_REQUESTED_AT: stamp}
        patch = {"metadata": {"finalizers": finalizers, "annotations": notes}}
        return self._accept(await self.client.revise(record, patch))

    async def _attach(self, record: VolumeAttachment) -> VolumeAttachment:
        plugin = self._definitions.plugin(record)
        try:
            spec = await self._definitions.spec(record)
            _check_lock(record, spec.persistent_volume)
            with metrics.operation(plugin.get_plugin_name(), "volume_attach"):
                attachment = await plugin.attacher_of(record.metadata.annotations).attach(spec, record.spec.node_name)
        except (StorageRefused, NotAsked):  # certainly not done: this request is not outstanding
            await self._withdraw(record, ATTACH_REQUESTED_AT)
            raise
        status = {"attached": True, "attachmentMetadata": dict(attachment), "attachError": None}
        self._count(plugin, "volume_attach", record.metadata.creation_timestamp)
        return await self._store_status(record, status)

    # --- detach

    async def _detach(self, record: VolumeAttachment) -> None:
        plugin = self._definitions.plugin(record)
        validity_s = await self._definitions.validity_s(record)
        before = requests.not_later(requests.times(record, DETACH_REQUESTED_AT), self.now())
        known = DETACHED in record.metadata.annotations
        if not known:
            record = await self._ask_to_detach(plugin, record, before, validity_s)
        attach_s = requests.outstanding_for(_unanswered_attaches(record), self.now(), validity_s)
        left_s = max(attach_s, requests.outstanding_for(before, self.now(), validity_s))
        if not left_s:
            self._count(plugin, "volume_detach", record.metadata.deletion_timestamp)
            await self._let_go(record)
            return
        # The storage has said "detached", and may still carry out what was asked of it earlier.
        self.log.info("RequestOutstanding", record=record.name, node=record.spec.node_name, seconds=left_s)
        if not known:
            # This one was answered: nobody has to wait for it. What is left, if it detaches, strikes this node only.
            detached = {} if attach_s else {DETACHED: format_micro_time(self.now())}
            await self._withdraw(record, DETACH_REQUESTED_AT, detached)
        elif before != list(requests.times(record, DETACH_REQUESTED_AT)):
            await self._annotate(record, {DETACH_REQUESTED_AT: ",".join(before) or None})
        self.queue.add_after(record.name, left_s)

    async def _ask_to_detach(
        self, plugin: AttachableVolumePlugin, record: VolumeAttachment, before: list[str], validity_s: float
    ) -> VolumeAttachment:
        """The record as it is when the storage has answered."""
        if validity_s:
            stamp = {DETACH_REQUESTED_AT: requests.begun(before, self.now(), validity_s)}
            if attaches := requests.times(record, ATTACH_REQUESTED_AT):
                stamp[ATTACH_REQUESTED_AT] = ",".join(requests.not_later(attaches, self.now()))
            record = await self._annotate(record, stamp)
        try:
            volume, detacher = await self._definitions.detacher(record)
            with metrics.operation(plugin.get_plugin_name(), "volume_detach"):
                await detacher.detach(volume, record.spec.node_name)
        except (StorageRefused, NotAsked):
            if validity_s:
                await self._withdraw(record, DETACH_REQUESTED_AT)
            raise
        return record

    async def _let_go(self, record: VolumeAttachment) -> None:
        """The storage has said that it is detached, and it was asked by nobody else: the record may go."""
        ours = self._ours[record.spec.attacher]
        finalizers = [each for each in record.metadata.finalizers if each != ours]
        if finalizers:  # somebody else keeps the record: then it must say what is true
            record = await self._store_status(record, {"attached": False, "detachError": None})
        await self.client.revise(record, {"metadata": {"finalizers": finalizers or None}})

    # --- writing

    async def _annotate(self, record: VolumeAttachment, notes: Mapping[str, str | None]) -> VolumeAttachment:
        return self._accept(await self.client.revise(record, {"metadata": {"annotations": dict(notes)}}))

    async def _withdraw(
        self, record: VolumeAttachment, annotation: str, notes: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """The latest request in `record` was answered, or not sent: it is not outstanding. Those that another process
        has noted meanwhile stay."""
        latest, live = requests.times(record, annotation)[-1], record
        while live is not None and live.uid == record.uid:
            rest = requests.without(requests.times(live, annotation), latest)
            try:
                patch = {"metadata": {"annotations": {**notes, annotation: rest}}}
                self._records.accept(await self.client.revise(live, patch))
                return
            except Conflict:
                live = await self.client.find(VolumeAttachment, record.name)
            except NotFound:
                return

    async def _store_status(self, record: VolumeAttachment, status: dict[str, Any]) -> VolumeAttachment:
        return self._accept(await self._patch_status(record, status))

    async def _patch_status(self, record: VolumeAttachment, status: dict[str, Any]) -> VolumeAttachment:
        return await self.client.revise(record, {"status": status}, subresource="status", any_version=True)

    async def _store_error(self, record: VolumeAttachment, field: str, error: Exception) -> None:
        certain = "" if isinstance(error, VolumeError) else f"{type(error).__name__}: "
        status = {field: {"time": format_time(self.now()), "message": f"{certain}{error}"}}
        try:
            self._records.accept(await self._patch_status(record, status))
        except NotFound:
            return

    def _count(self, plugin: AttachableVolumePlugin, name: str, since: str | None) -> None:
        seconds = (self.now() - parse_time(since)).total_seconds() if since else 0.0
        metrics.done(plugin.get_plugin_name(), name, seconds)

    def _accept(self, record: VolumeAttachment) -> VolumeAttachment:
        """The answer of a write with which `reconcile` goes on: the key need not be marked for it. (What it does not go
        on with may hold somebody else's deletion, of which the watch would then say nothing any more.)"""
        self._records.accept(record, tell=False)
        return record


def _check_lock(record: VolumeAttachment, persistent_volume: PersistentVolume | None) -> None:
    """Raises LockNotHeld for a VolumeAttachment of another epoch than the lock's (protocol.md C14)."""
    if persistent_volume is not None and not is_current(record, persistent_volume):
        raise LockNotHeld(
            f"VolumeAttachment {record.name} is not of the epoch to which PersistentVolume {persistent_volume.name} is "
            f"locked: another node was granted the volume since. Nothing was asked of the storage"
        )


def _unanswered_attaches(record: VolumeAttachment) -> tuple[str, ...]:
    """Of the attach requests those that were not answered: if it was attached, the latest was."""
    sent = requests.times(record, ATTACH_REQUESTED_AT)
    return sent[:-1] if record.status.attached else sent


def _what_matters(record: VolumeAttachment) -> tuple[object, ...]:
    epoch = record.metadata.annotations.get(ATTACH_EPOCH)
    return record.uid, record.deleting, record.metadata.finalizers, record.status.attached, epoch

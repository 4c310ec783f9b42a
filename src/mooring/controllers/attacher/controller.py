"""The attacher: makes VolumeAttachments of plugin volumes true.

One worker for a VolumeAttachment at a time, a cap on how many are worked on at once (and on those of one driver),
backoff for each. Before a request to the storage: finalizer and request time are stored, and the lock is checked. After
it: the answer. An answer that never came leaves the record as it was, and the request is made again: every request is
idempotent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from mooring.controllers.attacher import metrics, requests
from mooring.controllers.attacher.decide import Step, decide
from mooring.controllers.attacher.slots import Slots
from mooring.controllers.attacher.verification import denied, is_verified
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import Conflict, KubeError, NotFound
from mooring.kube.objects import PersistentVolume, Volume, VolumeAttachment
from mooring.kube.times import Now, format_time, parse_time
from mooring.volumes.attachment_lock import is_current
from mooring.volumes.errors import LockNotHeld, StorageRefused, VolumeError
from mooring.volumes.interfaces import AttachableVolumePlugin
from mooring.volumes.names import (
    ATTACH_EPOCH,
    ATTACH_REQUESTED_AT,
    ATTACHER_FINALIZER,
    DETACH_REQUESTED_AT,
    INLINE_VOLUME,
    PLUGIN,
    VOLUME_NAME,
)
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

VERIFY = "*"
"""The key under which everything that is attached is verified."""
VERIFY_S = 60.0
"""As upstream's reconciler sync."""
UNDEFINED_VALIDITY_S = 600.0
"""How long requests count as outstanding where nothing defines the volume any more."""


@dataclass(frozen=True)
class AttacherOptions:
    """`workers`: how many requests to storages at once, the cap of the origin document; `concurrency`: how many of one
    plugin. `verify_period_s`: how often the storage is asked what is attached; 0: never."""

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
        self._slots = Slots(options.concurrency, self.queue.add)
        # What this controller notes of its own errors does not matter: it would end their backoff.
        self._records = self.watch(VolumeAttachment, lambda record: [record.name], matters=_what_matters)

    async def started(self) -> None:
        if self._options.verify_period_s:
            self.queue.add_after(VERIFY, self._options.verify_period_s)

    async def reconcile(self, key: str) -> None:
        """Takes one VolumeAttachment a step further, until nothing is left to do."""
        if key == VERIFY:
            self.queue.add_after(VERIFY, self._options.verify_period_s)
            await self._verify()
            return
        record, stored = self._records.get(key), False
        while record is not None:
            step, reason = decide(record, stored=stored)
            if step in (Step.IGNORE, Step.SETTLED):
                return
            driver = record.metadata.annotations.get(PLUGIN, "")
            if not self._slots.take(driver, key):
                return
            try:
                self.log.info(step.value, record=key, node=record.spec.node_name, reason=reason.message)
                record, stored = await self._take(step, record), step is Step.STORE_INTENT
            finally:
                self._slots.free(driver)

    async def _verify(self) -> None:
        recorded: defaultdict[AttachableVolumePlugin, list[tuple[VolumeAttachment, VolumeSpec]]] = defaultdict(list)
        for record in filter(is_verified, self._records.items()):
            try:
                recorded[self._plugin(record)].append((record, await self._spec(record)))
            except VolumeError as error:  # nobody can be asked about it
                self.log.warning("VolumeNotVerified", record=record.name, error=str(error))
        for plugin, ours in recorded.items():
            for record in await denied(plugin, ours, self.log):
                await self._tell_lost(record)

    async def _tell_lost(self, record: VolumeAttachment) -> None:
        self.log.warning("NotAttachedAnyMore", record=record.name, node=record.spec.node_name)
        try:
            patch = {"status": {"attached": False}}
            self._accept(await self.client.revise(record, patch, subresource="status"))
        except (Conflict, NotFound):  # written since: the storage was asked about something else
            return

    async def _take(self, step: Step, record: VolumeAttachment) -> VolumeAttachment | None:
        if step is Step.STORE_INTENT:
            return await self._store_intent(record)
        field = "attachError" if step is Step.ATTACH else "detachError"
        act = self._attach if step is Step.ATTACH else self._detach
        try:
            return await act(record)
        except KubeError:
            raise
        except Exception as error:
            await self._store_error(record, field, error)
            raise

    # --- attach

    async def _store_intent(self, record: VolumeAttachment) -> VolumeAttachment:
        finalizers = [*(f for f in record.metadata.finalizers if f != ATTACHER_FINALIZER), ATTACHER_FINALIZER]
        sent = requests.times(record, ATTACH_REQUESTED_AT)
        stamp = requests.begun(sent, self.now(), await self._validity_s(record) if sent else 0.0)
        patch = {"metadata": {"finalizers": finalizers, "annotations": {ATTACH_REQUESTED_AT: stamp}}}
        return self._accept(await self.client.revise(record, patch))

    async def _attach(self, record: VolumeAttachment) -> VolumeAttachment:
        plugin = self._plugin(record)
        try:
            spec = await self._spec(record)
            _check_lock(record, spec.persistent_volume)
            with metrics.operation(plugin.get_plugin_name(), "volume_attach"):
                attachment = await plugin.new_attacher().attach(spec, record.spec.node_name)
        except (StorageRefused, LockNotHeld):  # certainly not done: this request is not outstanding
            await self._withdraw(record, ATTACH_REQUESTED_AT)
            raise
        status = {"attached": True, "attachmentMetadata": dict(attachment), "attachError": None}
        self._count(plugin, "volume_attach", record.metadata.creation_timestamp)
        return await self._store_status(record, status)

    # --- detach

    async def _detach(self, record: VolumeAttachment) -> None:
        plugin = self._plugin(record)
        validity_s = await self._validity_s(record)
        before = requests.times(record, DETACH_REQUESTED_AT)
        if validity_s:
            stamp = {DETACH_REQUESTED_AT: requests.begun(before, self.now(), validity_s)}
            if attaches := requests.times(record, ATTACH_REQUESTED_AT):
                stamp[ATTACH_REQUESTED_AT] = ",".join(requests.not_later(attaches, self.now()))
            record = self._accept(await self.client.revise(record, {"metadata": {"annotations": stamp}}))
        try:
            with metrics.operation(plugin.get_plugin_name(), "volume_detach"):
                await plugin.new_detacher().detach(record.metadata.annotations[VOLUME_NAME], record.spec.node_name)
        except StorageRefused:
            if validity_s:
                await self._withdraw(record, DETACH_REQUESTED_AT)
            raise
        left = requests.outstanding_for([*_unanswered_attaches(record), *before], self.now(), validity_s)
        if left:  # the storage says "detached", and may still carry out what was asked of it earlier
            self.log.info("RequestOutstanding", record=record.name, node=record.spec.node_name, seconds=left)
            await self._withdraw(record, DETACH_REQUESTED_AT)  # this one was answered: nobody has to wait for it
            self.queue.add_after(record.name, left)
            return
        self._count(plugin, "volume_detach", record.metadata.deletion_timestamp)
        await self._let_go(record)

    async def _let_go(self, record: VolumeAttachment) -> None:
        """The storage has said that it is detached, and it was asked by nobody else: the record may go."""
        finalizers = [each for each in record.metadata.finalizers if each != ATTACHER_FINALIZER]
        if finalizers:  # somebody else keeps the record: then it must say what is true
            record = await self._store_status(record, {"attached": False, "detachError": None})
        await self.client.revise(record, {"metadata": {"finalizers": finalizers or None}})

    # --- what is known

    def _plugin(self, record: VolumeAttachment) -> AttachableVolumePlugin:
        name = record.metadata.annotations.get(PLUGIN, "")
        plugin = self._plugins.find_attachable_plugin_by_name(name)
        if plugin is None:
            raise VolumeError(f"plugin {name} cannot attach volumes")
        return plugin

    async def _spec(self, record: VolumeAttachment) -> VolumeSpec:
        inline = record.metadata.annotations.get(INLINE_VOLUME)
        if inline:
            return VolumeSpec.of_volume(msgspec.json.decode(inline, type=Volume))
        name = record.spec.source.persistent_volume_name or ""
        found = await self.client.find(PersistentVolume, name)
        if found is None:
            raise VolumeError(f"PersistentVolume {name} does not exist (any more)")
        return VolumeSpec.of_persistent_volume(found)

    async def _validity_s(self, record: VolumeAttachment) -> float:
        """How long a request about the volume may be outstanding, in seconds."""
        try:
            return self._plugin(record).capabilities(await self._spec(record)).request_validity_s
        except VolumeError:
            return UNDEFINED_VALIDITY_S if len(requests.times(record, ATTACH_REQUESTED_AT)) > 1 else 0.0

    # --- writing

    async def _withdraw(self, record: VolumeAttachment, annotation: str) -> None:
        """The latest request was answered, or not sent: it is not outstanding."""
        rest = requests.refused(requests.times(record, annotation))
        try:
            patch = {"metadata": {"annotations": {annotation: rest}}}
            self._accept(await self.client.revise(record, patch, any_version=True))
        except (Conflict, NotFound):
            return

    async def _store_status(self, record: VolumeAttachment, status: dict[str, Any]) -> VolumeAttachment:
        return self._accept(
            await self.client.revise(record, {"status": status}, subresource="status", any_version=True)
        )

    async def _store_error(self, record: VolumeAttachment, field: str, error: Exception) -> None:
        certain = "" if isinstance(error, VolumeError) else f"{type(error).__name__}: "
        status = {field: {"time": format_time(self.now()), "message": f"{certain}{error}"}}
        try:
            await self._store_status(record, status)
        except NotFound:
            return

    def _count(self, plugin: AttachableVolumePlugin, name: str, since: str | None) -> None:
        seconds = (self.now() - parse_time(since)).total_seconds() if since else 0.0
        metrics.done(plugin.get_plugin_name(), name, seconds)

    def _accept(self, record: VolumeAttachment) -> VolumeAttachment:
        self._records.accept(record)
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

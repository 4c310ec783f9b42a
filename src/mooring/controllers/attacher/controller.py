"""The attacher: makes VolumeAttachments of plugin volumes true.

One worker for a VolumeAttachment at a time, a cap on how many are worked on at once, backoff for each. Before a request
to the storage: finalizer and request time are stored. After it: the answer. An answer that never came leaves the record
as it was, and the request is made again: every request is idempotent.
"""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import msgspec

from mooring.controllers.attacher.decide import Step, decide
from mooring.controllers.attacher.verification import denied, is_verified
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import Conflict, KubeError, NotFound
from mooring.kube.objects import Node, PersistentVolume, Volume, VolumeAttachment
from mooring.kube.times import Now, format_micro_time, format_time
from mooring.volumes.errors import StorageRefused, VolumeError
from mooring.volumes.interfaces import AttachableVolumePlugin
from mooring.volumes.names import ATTACH_REQUESTED_AT, ATTACHER_FINALIZER, INLINE_VOLUME, PLUGIN, VOLUME_NAME
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

VERIFY = "*"
"""The key under which everything that is attached is verified."""
VERIFY_S = 60.0
"""As upstream's reconciler sync."""


class AttacherController(Controller):
    """Calls the plugins' attachers and detachers."""

    name = "attacher"
    workers = 16  # the cap of the origin document: as many storage requests at once

    def __init__(self, client: Client, plugins: PluginManager, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._plugins = plugins
        # What this controller notes of its own errors does not matter: it would end their backoff.
        self._records = self.watch(VolumeAttachment, lambda record: [record.name], matters=_what_matters)

    async def started(self) -> None:
        self.queue.add_after(VERIFY, VERIFY_S)

    async def reconcile(self, key: str) -> None:
        """Takes one VolumeAttachment a step further, until nothing is left to do."""
        if key == VERIFY:
            self.queue.add_after(VERIFY, VERIFY_S)
            await self._verify()
            return
        record = self._records.get(key)
        while record is not None:
            step, reason = decide(record)
            if step in (Step.IGNORE, Step.SETTLED):
                return
            self.log.info(step.value, record=key, node=record.spec.node_name, reason=reason.message)
            record = await self._take(step, record)

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

    async def _store_intent(self, record: VolumeAttachment) -> VolumeAttachment:
        finalizers = [*(f for f in record.metadata.finalizers if f != ATTACHER_FINALIZER), ATTACHER_FINALIZER]
        stamp = format_micro_time(self.now())
        patch = {"metadata": {"finalizers": finalizers, "annotations": {ATTACH_REQUESTED_AT: stamp}}}
        return self._accept(await self.client.revise(record, patch))

    async def _attach(self, record: VolumeAttachment) -> VolumeAttachment:
        plugin = self._plugin(record)
        spec = await self._spec(record)
        device_path = await plugin.new_attacher().attach(spec, record.spec.node_name)
        status = {"attached": True, "attachmentMetadata": {"devicePath": device_path}, "attachError": None}
        return await self._store_status(record, status)

    async def _detach(self, record: VolumeAttachment) -> None:
        plugin = self._plugin(record)
        await plugin.new_detacher().detach(record.metadata.annotations[VOLUME_NAME], record.spec.node_name)
        # The storage has said that it is detached, and it was asked by nobody else: the record may go.
        finalizers = [each for each in record.metadata.finalizers if each != ATTACHER_FINALIZER]
        if finalizers:  # somebody else keeps the record: then it must say what is true
            record = await self._store_status(record, {"attached": False, "detachError": None})
        await self.client.revise(record, {"metadata": {"finalizers": finalizers or None}})

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
        if field == "detachError":
            await self._tell_of_failing_detach(record, error)

    async def _tell_of_failing_detach(self, record: VolumeAttachment, error: Exception) -> None:
        node = await self.client.find(Node, record.spec.node_name)
        if node is not None:
            refused = "was refused" if isinstance(error, StorageRefused) else "failed"
            volume = record.metadata.annotations.get(VOLUME_NAME, "")
            self.recorder.event(node, "Warning", "FailedDetachVolume", f"detach of {volume} {refused}: {error}")

    def _accept(self, record: VolumeAttachment) -> VolumeAttachment:
        self._records.accept(record)
        return record


def _what_matters(record: VolumeAttachment) -> tuple[object, ...]:
    return record.uid, record.deleting, record.metadata.finalizers, record.status.attached

"""The snapshotter: asks the storage for what VolumeSnapshotContents say. A key is a content's name.

It needs no VolumeSnapshots: so it works for upstream's snapshot controller, too, as the sidecar of a CSI driver does.
"""

from __future__ import annotations

from random import Random
from typing import Any

from mooring.controllers.snapshots.contents import (
    Act,
    creation_secret,
    decide,
    deletion_secret,
    handle_of,
    is_answered,
    storage_parameters,
)
from mooring.controllers.snapshots.names import BEING_CREATED, CONTENT_FINALIZER, snapshot_name
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import KubeError, NotFound
from mooring.kube.objects.snapshots import VolumeSnapshotClass, VolumeSnapshotContent
from mooring.kube.times import Now, format_time
from mooring.volumes.errors import InvalidSpec, PluginError
from mooring.volumes.interfaces import Snapshot, SnapshotOptions, SnapshottableVolumePlugin
from mooring.volumes.plugin_manager import PluginManager

NOT_READY_S = 1.0
"""How often a storage is asked whether a snapshot that it has taken can be used."""


class SnapshotterController(Controller):
    """The second half: VolumeSnapshotContents of the plugins and CSI drivers of this process."""

    name = "snapshotter"

    def __init__(self, client: Client, plugins: PluginManager, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._plugins = plugins
        # What is noted of errors does not matter: it would end their backoff.
        self._contents = self.watch(VolumeSnapshotContent, lambda each: [each.name], matters=_what_matters)

    async def reconcile(self, key: str) -> None:
        """Takes one content a step further, until nothing is left to do."""
        content = self._contents.get(key)
        plugin = self._plugin(content) if content is not None else None
        while content is not None and plugin is not None:
            act, reason = decide(content)
            if act in (Act.SETTLED, Act.WAIT):
                return
            self.log.info(act.value, content=key, reason=reason.message)
            content = await self._take(act, content, plugin)

    def _plugin(self, content: VolumeSnapshotContent) -> SnapshottableVolumePlugin | None:
        """None if the content is somebody else's."""
        try:
            return self._plugins.find_snapshottable_plugin_by_name(content.spec.driver)
        except PluginError:
            return None

    async def _take(
        self, act: Act, content: VolumeSnapshotContent, plugin: SnapshottableVolumePlugin
    ) -> VolumeSnapshotContent | None:
        """Does one step; the content if there may be another one now."""
        try:
            match act:
                case Act.TAKE:
                    return await self._take_snapshot(content, plugin)
                case Act.ANSWERED:
                    return await self._answered(content)
                case Act.DELETE:
                    options = SnapshotOptions(secret=deletion_secret(content))
                    await plugin.delete_snapshot(handle_of(content) or "", options)
                    await self._release(content)
                case _:
                    await self._release(content)
        except KubeError:
            raise
        except Exception as error:
            await self._store_error(content, error)
            raise
        return None

    # --- take

    async def _take_snapshot(
        self, content: VolumeSnapshotContent, plugin: SnapshottableVolumePlugin
    ) -> VolumeSnapshotContent | None:
        given = content.spec.source.snapshot_handle
        options = await self._options(content)
        if given:
            taken = await plugin.get_snapshot(given, options)
        else:
            content, taken = await self._create(content, plugin, options)
        content = await self._store_status(content, _status(taken))
        if BEING_CREATED in content.metadata.annotations:
            content = await self._answered(content)
        if taken.ready or content.deleting:
            return content
        self.queue.add_after(content.name, NOT_READY_S)
        return None

    async def _create(
        self, content: VolumeSnapshotContent, plugin: SnapshottableVolumePlugin, options: SnapshotOptions
    ) -> tuple[VolumeSnapshotContent, Snapshot]:
        asked_before = BEING_CREATED in content.metadata.annotations
        content = await self._store_intent(content)
        name = snapshot_name(content.spec.volume_snapshot_ref.uid)
        try:
            return content, await plugin.create_snapshot(content.spec.source.volume_handle or "", name, options)
        except Exception as error:
            if is_answered(error, asked_before=asked_before):
                await self._answered(content)
            raise

    async def _store_intent(self, content: VolumeSnapshotContent) -> VolumeSnapshotContent:
        """Before the storage is asked: whoever comes after a crash knows that there may be a snapshot."""
        wanted: dict[str, Any] = {}
        if not handle_of(content) and BEING_CREATED not in content.metadata.annotations:
            wanted["annotations"] = {BEING_CREATED: "yes"}
        if CONTENT_FINALIZER not in content.metadata.finalizers:
            wanted["finalizers"] = [*content.metadata.finalizers, CONTENT_FINALIZER]
        return self._accept(await self.client.revise(content, {"metadata": wanted})) if wanted else content

    async def _options(self, content: VolumeSnapshotContent) -> SnapshotOptions:
        """Raises InvalidSpec if the class is gone; who only has to delete what was taken can do without."""
        name = content.spec.volume_snapshot_class_name
        of_class = await self.client.find(VolumeSnapshotClass, name) if name else None
        if name and of_class is None and not content.deleting and not content.spec.source.snapshot_handle:
            raise InvalidSpec(f"VolumeSnapshotClass {name} does not exist: create it")
        if of_class is None:
            return SnapshotOptions(secret=deletion_secret(content))
        return SnapshotOptions(storage_parameters(of_class.parameters), creation_secret(of_class.parameters, content))

    # --- writing

    async def _answered(self, content: VolumeSnapshotContent) -> VolumeSnapshotContent:
        patch = {"metadata": {"annotations": {BEING_CREATED: None}}}
        return self._accept(await self.client.revise(content, patch, any_version=True))

    async def _release(self, content: VolumeSnapshotContent) -> None:
        finalizers = [each for each in content.metadata.finalizers if each != CONTENT_FINALIZER]
        await self.client.revise(content, {"metadata": {"finalizers": finalizers or None}})

    async def _store_status(self, content: VolumeSnapshotContent, status: dict[str, Any]) -> VolumeSnapshotContent:
        patch = {"status": status}
        return self._accept(await self.client.revise(content, patch, subresource="status", any_version=True))

    async def _store_error(self, content: VolumeSnapshotContent, error: Exception) -> None:
        told = {"time": format_time(self.now()), "message": f"Failed to create or delete snapshot: {error}"}
        try:
            await self._store_status(content, {"error": told})
        except NotFound:
            return

    def _accept(self, content: VolumeSnapshotContent) -> VolumeSnapshotContent:
        self._contents.accept(content)
        return content


def _status(taken: Snapshot) -> dict[str, Any]:
    return {
        "snapshotHandle": taken.handle,
        "creationTime": int(taken.created.timestamp() * 1e9),
        "restoreSize": taken.size,
        "readyToUse": taken.ready,
        "error": None,
    }


def _what_matters(content: VolumeSnapshotContent) -> tuple[object, ...]:
    metadata, status = content.metadata, content.status
    return content.uid, content.deleting, metadata.annotations, metadata.finalizers, status.ready_to_use, content.spec

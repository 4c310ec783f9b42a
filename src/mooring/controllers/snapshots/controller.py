"""The snapshot controller. A key is a VolumeSnapshot, or "content:<name>" for a VolumeSnapshotContent alone."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

from mooring.controllers.snapshots.decide import (
    CONTENT_FINALIZER,
    SNAPSHOT_FINALIZER,
    Act,
    class_of,
    content_body,
    content_name,
    decide,
    deletion_secret,
    secret_of,
    storage_parameters,
)
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import AlreadyExists
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim
from mooring.kube.objects.snapshots import VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent
from mooring.kube.quantity import format_bytes
from mooring.kube.reason import Reason
from mooring.kube.times import Now, format_time
from mooring.volumes.errors import VolumeError
from mooring.volumes.interfaces import SnapshotOptions, SnapshottableVolumePlugin
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

CONTENT = "content:"
NOT_READY_S = 1.0
"""How often a storage is asked whether a snapshot that it has taken can be used."""


class SnapshotController(Controller):
    """The CSI community's snapshot controller and its sidecar in one, for plugins and CSI drivers."""

    name = "snapshot-controller"

    def __init__(self, client: Client, plugins: PluginManager, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._plugins = plugins
        self._snapshots = self.watch(VolumeSnapshot, lambda each: [each.key], indexers={"claim": _source})
        self._contents = self.watch(VolumeSnapshotContent, _snapshot_of)
        self._classes = self.watch(VolumeSnapshotClass, lambda _: [each.key for each in self._snapshots.items()])
        self._claims = self.watch(
            PersistentVolumeClaim, lambda claim: [each.key for each in self._snapshots.by_index("claim", claim.key)]
        )
        self._volumes = self.watch(PersistentVolume)

    async def reconcile(self, key: str) -> None:
        """Takes one snapshot a step further, until nothing is left to do."""
        if key.startswith(CONTENT):
            await self._delete_if_asked(self._contents.get(key.removeprefix(CONTENT)))
            return
        while (snapshot := self._snapshots.get(key)) is not None:
            content = self._contents.get(content_name(snapshot))
            claim = self._claims.get(f"{snapshot.namespace}/{snapshot.spec.source.persistent_volume_claim_name}")
            act, reason = decide(snapshot, content, claim)
            if act is Act.SETTLED:
                return
            if act is Act.WAIT:
                self.recorder.once(snapshot, "Warning", reason)
                return
            self.log.info(act.value, snapshot=key, reason=reason.message)
            if not await self._take(act, snapshot, content, claim):
                return

    async def _take(
        self,
        act: Act,
        snapshot: VolumeSnapshot,
        content: VolumeSnapshotContent | None,
        claim: PersistentVolumeClaim | None,
    ) -> bool:
        """Does one step; whether there may be another one now."""
        match act:
            case Act.CREATE_CONTENT if claim is not None:
                return await self._create_content(snapshot, claim)
            case Act.TAKE if content is not None:
                return await self._take_snapshot(snapshot, content)
            case Act.TELL if content is not None:
                return await self._tell(snapshot, content)
            case Act.DELETE_CONTENT if content is not None:
                await self._delete(content)  # its end brings us back
            case Act.RELEASE:
                finalizers = [each for each in snapshot.metadata.finalizers if each != SNAPSHOT_FINALIZER]
                await self.client.revise(snapshot, {"metadata": {"finalizers": finalizers or None}})
            case _:
                pass
        return False

    async def _create_content(self, snapshot: VolumeSnapshot, claim: PersistentVolumeClaim) -> bool:
        pv = self._volumes.get(claim.spec.volume_name)
        if pv is None:
            return False
        plugin = self._snapshottable(snapshot, pv)
        if plugin is None:
            return False
        of_class = class_of(snapshot, self._classes.items(), plugin.get_plugin_name())
        if isinstance(of_class, Reason):
            self.recorder.once(snapshot, "Warning", of_class)
            return False
        if SNAPSHOT_FINALIZER not in snapshot.metadata.finalizers:
            finalizers = [*snapshot.metadata.finalizers, SNAPSHOT_FINALIZER]
            snapshot = await self.client.revise(snapshot, {"metadata": {"finalizers": finalizers}})
            self._snapshots.accept(snapshot)
        body = content_body(snapshot, of_class, plugin.get_volume_name(VolumeSpec.of_persistent_volume(pv)))
        try:
            self._contents.accept(await self.client.create(VolumeSnapshotContent, body))
        except AlreadyExists:
            return False  # the cache is late: its event comes
        return True

    def _snapshottable(self, snapshot: VolumeSnapshot, pv: PersistentVolume) -> SnapshottableVolumePlugin | None:
        try:
            return self._plugins.find_snapshottable_plugin_by_spec(VolumeSpec.of_persistent_volume(pv))
        except VolumeError as error:
            self.recorder.once(snapshot, "Warning", Reason("SnapshotNotSupported", str(error)))
            return None

    async def _take_snapshot(self, snapshot: VolumeSnapshot, content: VolumeSnapshotContent) -> bool:
        plugin = self._plugins.find_snapshottable_plugin_by_name(content.spec.driver)
        try:
            options = self._options(content, snapshot)
            if content.spec.source.snapshot_handle:
                taken = await plugin.get_snapshot(content.spec.source.snapshot_handle, options)
            else:
                volume = content.spec.source.volume_handle or ""
                taken = await plugin.create_snapshot(volume, content.name, options)
        except VolumeError as error:
            reason = Reason("SnapshotCreationFailed", f"Failed to create snapshot: {error}")
            self.recorder.once(snapshot, "Warning", reason)
            raise
        status = {
            "snapshotHandle": taken.handle,
            "creationTime": int(taken.created.timestamp() * 1e9),
            "restoreSize": taken.size,
            "readyToUse": taken.ready,
        }
        answer = await self.client.revise(content, {"status": status}, subresource="status", any_version=True)
        self._contents.accept(answer)
        if not taken.ready:
            self.queue.add_after(snapshot.key, NOT_READY_S)
        return taken.ready

    def _options(self, content: VolumeSnapshotContent, snapshot: VolumeSnapshot) -> SnapshotOptions:
        of_class = self._classes.get(content.spec.volume_snapshot_class_name or "")
        parameters = of_class.parameters if of_class is not None else {}
        return SnapshotOptions(storage_parameters(parameters), secret_of(parameters, content, snapshot))

    async def _tell(self, snapshot: VolumeSnapshot, content: VolumeSnapshotContent) -> bool:
        created = datetime.fromtimestamp((content.status.creation_time or 0) / 1e9, UTC)
        status = {
            "boundVolumeSnapshotContentName": content.name,
            "creationTime": format_time(created),
            "readyToUse": True,
            "restoreSize": format_bytes(content.status.restore_size or 0),
            "error": None,
        }
        answer = await self.client.revise(snapshot, {"status": status}, subresource="status", any_version=True)
        self._snapshots.accept(answer)
        self.recorder.event(snapshot, "Normal", "SnapshotReady", f"Snapshot {snapshot.key} is ready to use.")
        return True

    async def _delete_if_asked(self, content: VolumeSnapshotContent | None) -> None:
        if content is not None and content.deleting and CONTENT_FINALIZER in content.metadata.finalizers:
            await self._delete(content)

    async def _delete(self, content: VolumeSnapshotContent) -> None:
        """The storage's snapshot first, then what says that there is one."""
        if not content.deleting:
            await self.client.delete(VolumeSnapshotContent, content.name, uid=content.uid)
            content = await self.client.get(VolumeSnapshotContent, content.name)
        handle = content.status.snapshot_handle or content.name
        if content.spec.deletion_policy == "Delete":
            plugin = self._plugins.find_snapshottable_plugin_by_name(content.spec.driver)
            await plugin.delete_snapshot(handle, SnapshotOptions(secret=deletion_secret(content)))
        finalizers = [each for each in content.metadata.finalizers if each != CONTENT_FINALIZER]
        await self.client.revise(content, {"metadata": {"finalizers": finalizers or None}})
        self.log.info("Deleted", content=content.name, handle=handle)


def _source(snapshot: VolumeSnapshot) -> list[str]:
    name = snapshot.spec.source.persistent_volume_claim_name
    return [f"{snapshot.namespace}/{name}"] if name else []


def _snapshot_of(content: VolumeSnapshotContent) -> list[str]:
    reference = content.spec.volume_snapshot_ref
    return [f"{reference.namespace}/{reference.name}", f"{CONTENT}{content.name}"]

"""The snapshot controller: VolumeSnapshots get their contents, and say what became of them. A key is a VolumeSnapshot.

It asks no storage: that is the snapshotter's, ours or upstream's.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from mooring.controllers.snapshots.decide import (
    FINALIZERS,
    Act,
    class_of,
    content_body,
    content_name,
    decide,
    status_of,
)
from mooring.controllers.snapshots.names import BEING_DELETED, SNAPSHOT_FINALIZER
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import AlreadyExists
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim
from mooring.kube.objects.snapshots import VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent
from mooring.kube.reason import Reason
from mooring.kube.times import Now
from mooring.volumes.errors import VolumeError
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

_UNTOLD: dict[str, Any] = {"readyToUse": False, "creationTime": None, "restoreSize": None, "error": None}


class SnapshotController(Controller):
    """The first half: VolumeSnapshots, of plugins' volumes and of every CSI driver's."""

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
        while (snapshot := self._snapshots.get(key)) is not None:
            content = self._contents.get(content_name(snapshot))
            claim = self._claims.get(f"{snapshot.namespace}/{snapshot.spec.source.persistent_volume_claim_name}")
            act, reason = decide(snapshot, content, claim)
            if act is Act.SETTLED:
                return
            if act is Act.WAIT:
                if not snapshot.deleting:
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
            case Act.BIND if content is not None:
                await self._protect(snapshot)
                patch = {"spec": {"volumeSnapshotRef": {"uid": snapshot.uid}}}
                self._contents.accept(await self.client.revise(content, patch))
                return True
            case Act.TELL if content is not None:
                return await self._tell(snapshot, content)
            case Act.DELETE_CONTENT if content is not None:
                return await self._delete(content)
            case Act.RELEASE:
                finalizers = [each for each in snapshot.metadata.finalizers if each not in FINALIZERS]
                await self.client.revise(snapshot, {"metadata": {"finalizers": finalizers or None}})
            case _:
                pass
        return False

    async def _create_content(self, snapshot: VolumeSnapshot, claim: PersistentVolumeClaim) -> bool:
        pv = self._volumes.get(claim.spec.volume_name)
        of_volume = self._driver_and_handle(snapshot, pv) if pv is not None else None
        if pv is None or of_volume is None:
            return False
        driver, handle = of_volume
        of_class = class_of(snapshot, self._classes.items(), driver)
        if isinstance(of_class, Reason):
            self.recorder.once(snapshot, "Warning", of_class)
            return False
        snapshot = await self._protect(snapshot)
        body = content_body(snapshot, of_class, handle, pv.spec.volume_mode or "Filesystem")
        try:
            self._contents.accept(await self.client.create(VolumeSnapshotContent, body))
        except AlreadyExists:
            return False  # the cache is late: its event comes
        return True

    def _driver_and_handle(self, snapshot: VolumeSnapshot, pv: PersistentVolume) -> tuple[str, str] | None:
        """A CSI driver need not be known here: its own snapshotter calls it."""
        if pv.spec.csi is not None:
            return pv.spec.csi.driver, pv.spec.csi.volume_handle
        spec = VolumeSpec.of_persistent_volume(pv)
        try:
            plugin = self._plugins.find_snapshottable_plugin_by_spec(spec)
            return plugin.get_plugin_name(), plugin.get_volume_name(spec)
        except VolumeError as error:
            self.recorder.once(snapshot, "Warning", Reason("SnapshotNotSupported", str(error)))
            return None

    async def _protect(self, snapshot: VolumeSnapshot) -> VolumeSnapshot:
        """Before anything is made for it: the snapshot goes only after its content."""
        if SNAPSHOT_FINALIZER in snapshot.metadata.finalizers:
            return snapshot
        finalizers = [*snapshot.metadata.finalizers, SNAPSHOT_FINALIZER]
        snapshot = await self.client.revise(snapshot, {"metadata": {"finalizers": finalizers}})
        self._snapshots.accept(snapshot)
        return snapshot

    async def _tell(self, snapshot: VolumeSnapshot, content: VolumeSnapshotContent) -> bool:
        status = _UNTOLD | msgspec.to_builtins(status_of(content, snapshot.status))
        answer = await self.client.revise(snapshot, {"status": status}, subresource="status", any_version=True)
        self._snapshots.accept(answer)
        if content.status.ready_to_use and not snapshot.status.ready_to_use:
            self.recorder.event(snapshot, "Normal", "SnapshotReady", f"Snapshot {snapshot.key} is ready to use.")
        return answer.status == status_of(content, answer.status)

    async def _delete(self, content: VolumeSnapshotContent) -> bool:
        """Says that the content may go, and, unless the storage is to keep the snapshot, has it go."""
        if BEING_DELETED not in content.metadata.annotations:
            patch = {"metadata": {"annotations": {BEING_DELETED: "yes"}}}
            content = await self.client.revise(content, patch, any_version=True)
            self._contents.accept(content)
        if content.spec.deletion_policy == "Delete" and not content.deleting:
            await self.client.delete(VolumeSnapshotContent, content.name, uid=content.uid)
            return False  # its end brings us back
        return True


def _source(snapshot: VolumeSnapshot) -> list[str]:
    name = snapshot.spec.source.persistent_volume_claim_name
    return [f"{snapshot.namespace}/{name}"] if name else []


def _snapshot_of(content: VolumeSnapshotContent) -> list[str]:
    reference = content.spec.volume_snapshot_ref
    return [f"{reference.namespace}/{reference.name}"]

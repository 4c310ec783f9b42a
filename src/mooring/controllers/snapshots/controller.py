"""The snapshot controller: creates contents for VolumeSnapshots, and copies their status
back. A key is a VolumeSnapshot, or a claim.

What a copy is made of stays until it is made, as upstream has it: a claim while a snapshot is taken of it,
and a snapshot while a claim is made of it. It asks no storage: that is the work of the snapshotter, ours or
upstream's.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any, assert_never

import msgspec

from mooring.controllers.snapshots.decide import (
    FINALIZERS,
    TOLD_AT_THE_END,
    Action,
    belongs,
    class_of,
    content_body,
    content_name,
    decide,
    is_being_taken,
    is_retained,
    restored_from,
    status_of,
)
from mooring.controllers.snapshots.late_contents import LateContents
from mooring.controllers.snapshots.names import CLAIM_FINALIZER, SNAPSHOT_FINALIZER
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import AlreadyExists, ServerError, Unreachable, conflict
from mooring.kube.holding import Holder
from mooring.kube.keys import ClaimKey
from mooring.kube.objects import Object, PersistentVolume, PersistentVolumeClaim
from mooring.kube.objects.snapshots import (
    BEING_DELETED,
    VolumeSnapshot,
    VolumeSnapshotClass,
    VolumeSnapshotContent,
)
from mooring.kube.reason import Reason
from mooring.kube.times import Now
from mooring.volumes.claims import is_volume_of
from mooring.volumes.errors import VolumeError
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

_EMPTY_STATUS: dict[str, Any] = {
    "readyToUse": False,
    "creationTime": None,
    "restoreSize": None,
    "error": None,
}

Key = str | ClaimKey


class SnapshotController(Controller[Key]):
    """The first half: VolumeSnapshots, of plugins' volumes and of every CSI driver's."""

    name = "snapshot-controller"

    def __init__(self, client: Client, plugins: PluginManager, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._plugins = plugins
        self._snapshots = self.watch(VolumeSnapshot, _touched_by_snapshot, indexers={"claim": _source})
        self._contents = self.watch(VolumeSnapshotContent, _snapshot_of)
        self._classes = self.watch(
            VolumeSnapshotClass, lambda _: [each.key for each in self._snapshots.items()]
        )
        self._claims = self.watch(
            PersistentVolumeClaim, self._touched_by_claim, indexers={"snapshot": restored_from}
        )
        self._volumes = self.watch(PersistentVolume, self._of_volume, matters=lambda pv: pv.spec)
        self._sources = Holder(client, self._claims, CLAIM_FINALIZER)
        self._protected = Holder(client, self._snapshots, SNAPSHOT_FINALIZER)
        self._late = LateContents()
        self._snapshots.when_gone(self._late.forget)

    def _touched_by_claim(self, claim: PersistentVolumeClaim) -> Iterator[Key]:
        yield from self._of_claim(claim.key)
        yield from restored_from(claim)
        if self._sources.has(claim):
            yield ClaimKey(claim.key)

    def _of_claim(self, key: str) -> list[str]:
        return [each.key for each in self._snapshots.by_index("claim", key)]

    def _of_volume(self, pv: PersistentVolume) -> list[str]:
        reference = pv.spec.claim_ref
        return self._of_claim(f"{reference.namespace}/{reference.name}") if reference is not None else []

    def concerned(self, key: Key) -> list[tuple[Object | None, str]]:
        about = self._claims.get(key.name) if isinstance(key, ClaimKey) else self._snapshots.get(key)
        return [(about, "SnapshotFailed")]

    async def reconcile(self, key: Key) -> None:
        """Takes one snapshot a step further, until nothing is left to do; or lets one claim go."""
        if isinstance(key, ClaimKey):
            await self._sources.let_go(key.name, partial(self._is_copied, key.name))
        else:
            await self._reconcile_snapshot(key)

    async def _reconcile_snapshot(self, key: str) -> None:
        while (snapshot := self._snapshots.get(key)) is not None:
            content = self._contents.get(content_name(snapshot))
            claim = self._claims.get(
                f"{snapshot.namespace}/{snapshot.spec.source.persistent_volume_claim_name}"
            )
            if content is not None and claim is not None:
                await self._keep_source(snapshot, content, claim)
            restored = [each.key for each in self._claims.by_index("snapshot", key)]
            decision = decide(snapshot, content, claim, restored)
            action, reason = decision.action, decision.reason
            if action is Action.SETTLED:
                return
            if action is Action.WAIT:
                if not snapshot.deleting or reason.code in TOLD_AT_THE_END:
                    self.recorder.once(snapshot, "Warning", reason)
                return
            self.log.info(action.value, snapshot=key, reason=reason.message)
            if not await self._carry_out(action, snapshot, content, claim):
                return

    async def _carry_out(
        self,
        action: Action,
        snapshot: VolumeSnapshot,
        content: VolumeSnapshotContent | None,
        claim: PersistentVolumeClaim | None,
    ) -> bool:
        """Returns whether there may be another step now."""
        match action:
            case Action.CREATE_CONTENT:
                assert claim is not None, f"VolumeSnapshot {snapshot.key} has no claim to be taken of"
                return await self._create_content(snapshot, claim)
            case Action.BIND:
                assert content is not None, f"VolumeSnapshot {snapshot.key} has no content to bind"
                await self._protect(snapshot)
                patch = {"spec": {"volumeSnapshotRef": {"uid": snapshot.uid}}}
                self._contents.accept(await self.client.revise(content, patch))
                return True
            case Action.COPY_STATUS:
                assert content is not None, f"VolumeSnapshot {snapshot.key} has no content to copy from"
                return await self._copy_status(snapshot, content)
            case Action.DELETE_CONTENT:
                assert content is not None, f"VolumeSnapshot {snapshot.key} has no content to delete"
                return await self._delete(snapshot, content)
            case Action.RELEASE:
                return await self._release(snapshot, content)
            case Action.WAIT | Action.SETTLED:
                return False
            case _:
                assert_never(action)

    async def _release(self, snapshot: VolumeSnapshot, content: VolumeSnapshotContent | None) -> bool:
        """Lets the snapshot go, once no content of it can come any more: one that is there then stays for
        good, with what the storage has. Also if one is retained: its user may delete that at once."""
        has_content = content is not None and belongs(content, snapshot)
        if not has_content and await self._has_content(snapshot):
            return False  # it marks the snapshot
        if (left := self._late.time_left(snapshot)) > 0:
            self.queue.add_after(snapshot.key, left)
            return False
        finalizers = [each for each in snapshot.metadata.finalizers if each not in FINALIZERS]
        await self.client.revise(snapshot, {"metadata": {"finalizers": finalizers or None}})
        return False

    async def _has_content(self, snapshot: VolumeSnapshot) -> bool:
        """Whether there is a content of it that the cache, which may be late, does not show as its own."""
        content = await self._contents.read_live(content_name(snapshot))
        return content is not None and belongs(content, snapshot)

    async def _create_content(self, snapshot: VolumeSnapshot, claim: PersistentVolumeClaim) -> bool:
        pv = await self._volumes.read_live(claim.spec.volume_name)  # a user may have made it for another disk
        if pv is None or not is_volume_of(pv, claim):
            return False  # the claim's volume, or that it is lost, marks the snapshot
        of_volume = self._driver_and_handle(snapshot, pv)
        if of_volume is None:
            return False
        driver, handle = of_volume
        of_class = class_of(snapshot, self._classes.items(), driver)
        if isinstance(of_class, Reason):
            self.recorder.once(snapshot, "Warning", of_class)
            return False
        await self._classes.confirm(of_class)
        await self._protect(snapshot)
        await self._sources.hold(claim)
        body = content_body(snapshot, of_class, handle, pv.spec.volume_mode or "Filesystem")
        try:
            self._contents.accept(await self.client.create(VolumeSnapshotContent, body))
        except AlreadyExists:
            return False  # the cache is stale: the watch event comes
        except (Unreachable, ServerError):
            self._late.unanswered(snapshot)
            raise
        return True

    def _driver_and_handle(self, snapshot: VolumeSnapshot, pv: PersistentVolume) -> tuple[str, str] | None:
        """Returns the driver and the handle of the volume. A CSI driver need not be known
        here: its own snapshotter calls it."""
        if pv.spec.csi is not None:
            return pv.spec.csi.driver, pv.spec.csi.volume_handle
        spec = VolumeSpec.of_persistent_volume(pv)
        try:
            plugin = self._plugins.find_snapshottable_plugin_by_spec(spec)
            return plugin.get_plugin_name(), plugin.get_volume_name(spec)
        except VolumeError as error:
            self.recorder.once(snapshot, "Warning", Reason("SnapshotNotSupported", str(error)))
            return None

    async def _protect(self, snapshot: VolumeSnapshot) -> None:
        """Stores the finalizer before anything is made: the snapshot is deleted only after its content.
        Conflict for one that is being deleted by now."""
        held = await self._protected.hold(snapshot)
        if held.deleting:
            raise conflict(f"VolumeSnapshot {snapshot.key} is being deleted by now")

    async def _keep_source(
        self, snapshot: VolumeSnapshot, content: VolumeSnapshotContent, claim: PersistentVolumeClaim
    ) -> None:
        """Holds the claim again if it is not held any more while the snapshot is taken of its volume: what a
        former leader wrote last may have come late."""
        if not is_being_taken(snapshot) or snapshot.deleting or claim.deleting or self._sources.has(claim):
            return
        pv = self._volumes.get(claim.spec.volume_name)
        taken_of = (content.spec.driver, content.spec.source.volume_handle)
        if pv is not None and is_volume_of(pv, claim) and self._driver_and_handle(snapshot, pv) == taken_of:
            await self._sources.hold(claim)

    async def _is_copied(self, claim: str) -> bool:
        """Whether a snapshot is being taken of the claim, or is to be."""
        if any(map(is_being_taken, self._snapshots.by_index("claim", claim))):
            return True
        namespace, _, _ = claim.partition("/")
        live = (await self.client.list(VolumeSnapshot, namespace)).items
        return any(claim in _source(each) and is_being_taken(each) for each in live)

    async def _copy_status(self, snapshot: VolumeSnapshot, content: VolumeSnapshotContent) -> bool:
        status = _EMPTY_STATUS | msgspec.to_builtins(status_of(content, snapshot.status))
        answer = await self.client.revise(
            snapshot, {"status": status}, subresource="status", any_version=True
        )
        self._snapshots.accept(answer)
        if content.status.ready_to_use and not snapshot.status.ready_to_use:
            self.recorder.event(
                snapshot, "Normal", "SnapshotReady", f"Snapshot {snapshot.key} is ready to use."
            )
        return answer.status == status_of(content, answer.status)

    async def _delete(self, snapshot: VolumeSnapshot, content: VolumeSnapshotContent) -> bool:
        """Marks the content as that of a deleted snapshot: nothing is begun for it any more. Unless the
        storage is to keep what it has, it deletes the content. A claim that is made of it may be newer than
        the cache."""
        if BEING_DELETED not in content.metadata.annotations:
            claims = (await self.client.list(PersistentVolumeClaim, snapshot.namespace)).items
            if restored := [each for each in claims if snapshot.key in restored_from(each)]:
                self._claims.accept(restored[0])
                return False  # it marks the snapshot, and so does each change of it
            patch = {"metadata": {"annotations": {BEING_DELETED: "yes"}}}
            content = await self.client.revise(content, patch, any_version=True)
            self._contents.accept(content)
        if not is_retained(content) and not content.deleting:
            await self.client.delete(VolumeSnapshotContent, content.name, uid=content.uid)
            return False  # its deletion marks the snapshot
        return True


def _touched_by_snapshot(snapshot: VolumeSnapshot) -> Iterator[Key]:
    yield snapshot.key
    yield from map(ClaimKey, _source(snapshot))


def _source(snapshot: VolumeSnapshot) -> list[str]:
    name = snapshot.spec.source.persistent_volume_claim_name
    return [f"{snapshot.namespace}/{name}"] if name else []


def _snapshot_of(content: VolumeSnapshotContent) -> list[str]:
    reference = content.spec.volume_snapshot_ref
    return [f"{reference.namespace}/{reference.name}"]

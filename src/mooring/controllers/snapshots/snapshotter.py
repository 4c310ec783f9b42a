"""The snapshotter: takes and deletes the storage's snapshots of VolumeSnapshotContents. A
key is a content's name.

It reads no VolumeSnapshots. So it works with upstream's snapshot controller, too, like the
sidecar of a CSI driver.
"""

from __future__ import annotations

import contextlib
from random import Random
from typing import Any, assert_never

from mooring.controllers.snapshots.content_decisions import (
    UNKNOWN_POLICY,
    Action,
    creation_secret,
    decide,
    deletion_secret,
    handle_of,
    has_nothing,
    is_answered,
    storage_parameters,
)
from mooring.controllers.snapshots.names import BEING_CREATED, CONTENT_FINALIZER, snapshot_name
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import Conflict, KubeError, NotFound, conflict, is_refusal
from mooring.kube.objects import Object
from mooring.kube.objects.snapshots import VolumeSnapshotClass, VolumeSnapshotContent
from mooring.kube.times import Now, format_time
from mooring.volumes.errors import InvalidSpec, PluginError
from mooring.volumes.interfaces import Snapshot, SnapshotOptions, SnapshottableVolumePlugin
from mooring.volumes.plugin_manager import PluginManager

NOT_READY_S = 1.0
"""Seconds after which the storage is asked again whether a snapshot is ready."""


class SnapshotterController(Controller[str]):
    """The second half: VolumeSnapshotContents of the plugins and CSI drivers of this process."""

    name = "snapshotter"

    def __init__(self, client: Client, plugins: PluginManager, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._plugins = plugins
        # What this controller writes around a request does not mark a content: that would end its backoff.
        self._contents = self.watch(VolumeSnapshotContent, lambda each: [each.name], matters=_what_matters)
        self._signed: set[str] = set()
        """Uids of contents that this process has written its intent on."""
        self._contents.when_gone(lambda each: self._signed.discard(each.uid))

    def concerned(self, key: str) -> list[tuple[Object | None, str]]:
        return [(self._contents.get(key), "SnapshotFailed")]

    async def reconcile(self, key: str) -> None:
        """Takes one content a step further, until nothing is left to do."""
        content = self._contents.get(key)
        plugin = self._plugin(content) if content is not None else None
        while content is not None and plugin is not None:
            decision = decide(content)
            if decision.action in (Action.SETTLED, Action.WAIT):
                if decision.reason.code == UNKNOWN_POLICY:
                    self.recorder.once(content, "Warning", decision.reason)
                return
            self.log.info(decision.action.value, content=key, reason=decision.reason.message)
            content = await self._carry_out(decision.action, content, plugin)

    def _plugin(self, content: VolumeSnapshotContent) -> SnapshottableVolumePlugin | None:
        """Returns the plugin; None if the content is another snapshotter's."""
        try:
            return self._plugins.find_snapshottable_plugin_by_name(content.spec.driver)
        except PluginError:
            return None

    async def _carry_out(
        self, action: Action, content: VolumeSnapshotContent, plugin: SnapshottableVolumePlugin
    ) -> VolumeSnapshotContent | None:
        """Returns the content if there may be another step now. What the storage raises is
        stored on the content, and what the API server refuses, too: its VolumeSnapshot says it then."""
        try:
            match action:
                case Action.HOLD:
                    return await self._hold(content)
                case Action.TAKE:
                    return await self._take_snapshot(content, plugin)
                case Action.ANSWERED:
                    return await self._answered(content)
                case Action.DELETE:
                    options = SnapshotOptions(secret=deletion_secret(content))
                    await self._contents.confirm(content)  # its policy may be Retain by now
                    self.client.check_leading()
                    await plugin.delete_snapshot(handle_of(content) or "", options)
                    await self._release(content)
                case Action.RELEASE:
                    await self._release(content)
                case Action.WAIT | Action.SETTLED:
                    pass
                case _:
                    assert_never(action)
        except KubeError as error:
            if is_refusal(error):
                with contextlib.suppress(KubeError):
                    await self._store_error(content, error)
            raise
        except Exception as error:
            await self._store_error(content, error)
            raise
        return None

    # --- take

    async def _hold(self, content: VolumeSnapshotContent) -> VolumeSnapshotContent:
        """Also one that a user has written for what the storage keeps already, as upstream's controller does:
        else it would go at once when it is deleted, and what the storage keeps would stay."""
        finalizers = [*content.metadata.finalizers, CONTENT_FINALIZER]
        return self._accept(await self.client.revise(content, {"metadata": {"finalizers": finalizers}}))

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
        self.client.check_leading()
        try:
            return content, await plugin.create_snapshot(
                content.spec.source.volume_handle or "", name, options
            )
        except Exception as error:
            if is_answered(error, asked_before=asked_before):
                await self._answered(content)
            raise

    async def _store_intent(self, content: VolumeSnapshotContent) -> VolumeSnapshotContent:
        """Stores, before the storage is asked, that there may be a snapshot: after a crash
        the next snapshotter knows. That one stores it anew, as another value, before it asks: what its
        predecessor has decided, to take the mark off or to let the content go, is refused from then on
        (docs/protocol.md, C3: a change of nothing leaves late writes valid)."""
        if not has_nothing(content):
            content = await self._still_held(content)
            if not has_nothing(content) and content.uid in self._signed:
                return content
        marked = {"annotations": {BEING_CREATED: content.metadata.resource_version}}
        answer = self._accept(await self.client.revise(content, {"metadata": marked}))
        if self._contents.knows(content):  # else its end was told already
            self._signed.add(content.uid)
        return answer

    async def _still_held(self, content: VolumeSnapshotContent) -> VolumeSnapshotContent:
        """The content as it is now. The cache of a snapshotter that has stood by may be late, and the content
        gone since with its snapshot: one taken then would be named by nothing."""
        live = await self._contents.same_live(content)
        if CONTENT_FINALIZER not in live.metadata.finalizers:
            raise conflict(f"VolumeSnapshotContent {content.name} is not held any more for its snapshot")
        return live

    async def _options(self, content: VolumeSnapshotContent) -> SnapshotOptions:
        """Returns how to take or delete the snapshot. Raises InvalidSpec if the class is gone and
        is needed: not for a deletion."""
        name = content.spec.volume_snapshot_class_name
        of_class = await self.client.find(VolumeSnapshotClass, name) if name else None
        if name and of_class is None and not content.deleting and not content.spec.source.snapshot_handle:
            raise InvalidSpec(f"VolumeSnapshotClass {name} does not exist: create it")
        if of_class is None:
            return SnapshotOptions(secret=deletion_secret(content))
        return SnapshotOptions(
            storage_parameters(of_class.parameters), creation_secret(of_class.parameters, content)
        )

    # --- writing

    async def _answered(self, content: VolumeSnapshotContent) -> VolumeSnapshotContent:
        """Takes the mark off, unless the content was written since: another process may have asked then. If
        that is not answered it may come late, and the next request is marked anew."""
        patch = {"metadata": {"annotations": {BEING_CREATED: None}}}
        try:
            return self._accept(await self.client.revise(content, patch))
        except KubeError:
            self._signed.discard(content.uid)
            raise

    async def _release(self, content: VolumeSnapshotContent) -> None:
        finalizers = [each for each in content.metadata.finalizers if each != CONTENT_FINALIZER]
        await self.client.revise(content, {"metadata": {"finalizers": finalizers or None}})

    async def _store_status(
        self, content: VolumeSnapshotContent, status: dict[str, Any]
    ) -> VolumeSnapshotContent:
        patch = {"status": status}
        return self._accept(await self.client.revise(content, patch, subresource="status", any_version=True))

    async def _store_error(self, content: VolumeSnapshotContent, error: Exception) -> None:
        failure = {
            "time": format_time(self.now()),
            "message": f"Failed to create or delete snapshot: {error}",
        }
        known = self._contents.get(content.name)
        if known is None or known.uid != content.uid:
            return
        with contextlib.suppress(Conflict, NotFound):  # it may be ready by now: an error would stay then
            patch = {"status": {"error": failure}}
            self._accept(await self.client.revise(known, patch, subresource="status"))

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
    return (
        content.uid,
        content.deleting,
        {key: value for key, value in metadata.annotations.items() if key != BEING_CREATED},
        metadata.finalizers,
        status.ready_to_use,
        content.spec,
    )

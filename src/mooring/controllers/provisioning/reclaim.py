"""Reclaims volumes whose claim is gone: deletes them from the storage, or empties them and offers them again.

Both destroy data, so both read live first: the volume must be marked as one without a claim (from then on the
attacher attaches it nowhere), the claim must be gone, nothing attached, and no pod left that may have mounted
the volume (many storages need no attach, and a claim's finalizer can be removed by hand). The mark is read
once more at the end: an administrator may have saved the volume meanwhile (policy Retain). A volume
that is still used is not a failure: a Normal event, and another try later. While the
cache shows where the volume is attached, the live read is left out, because it lists the
VolumeAttachments of the whole cluster. Before a directory is emptied, the kernel is asked, too, who has
it mounted (`mooring.volumes.scrub`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mooring.controllers.provisioning.decide import finalizer_of, is_held, made_by
from mooring.kube.client import Client
from mooring.kube.errors import KubeError
from mooring.kube.events import EventType, Recorder
from mooring.kube.informer import Informer
from mooring.kube.objects import (
    CSIDriver,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    VolumeAttachment,
)
from mooring.kube.reason import Reason
from mooring.volumes.attachability import Attachability
from mooring.volumes.claims import not_of_successor, users_of_claim
from mooring.volumes.errors import DeletedVolumeInUse, VolumeError
from mooring.volumes.matching import unbound
from mooring.volumes.migration import csi_source, to_csi
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.reclaim import to_be_reclaimed
from mooring.volumes.spec import VolumeSpec

RECYCLING = "mooring.dev/recycling"
"""Annotation of a PersistentVolume that is being emptied: the version upon which that was begun."""


class Reclaimer:
    """Carries out the reclaim policies Delete and Recycle. `again(pv)` tries a volume again later; a change
    in `attachments` (with an index "volume") does so by itself."""

    def __init__(
        self,
        client: Client,
        plugins: PluginManager,
        volumes: Informer[PersistentVolume],
        attachments: Informer[VolumeAttachment],
        recorder: Recorder,
        log: Any,
        again: Callable[[PersistentVolume], None],
    ) -> None:
        self._client = client
        self._plugins = plugins
        self._volumes = volumes
        self._attachments = attachments
        self._recorder = recorder
        self._log = log
        self._again = again
        self._deleted: set[str] = set()
        """Uids of PersistentVolumes whose disks are deleted: what keeps the object, or a write that failed,
        is no reason to ask the storage again."""
        self._recycled: set[str] = set()
        """Uids of those that this process has begun to empty, and not offered again since."""
        volumes.when_gone(self._forget)

    def _forget(self, pv: PersistentVolume) -> None:
        self._deleted.discard(pv.uid)
        self._recycled.discard(pv.uid)

    async def delete(self, pv: PersistentVolume) -> None:
        """Deletes the volume from the storage, then from the API."""
        if pv.uid not in self._deleted:
            if not await self._reclaim(pv, self._delete_from_storage, "VolumeDelete", "VolumeFailedDelete"):
                return
            self._remember(self._deleted, pv)
            self._log.info("Deleted", volume=pv.name)
        pv = await self.release(pv)
        if not pv.deleting:
            await self._client.delete(PersistentVolume, pv.name, uid=pv.uid)

    async def release(self, pv: PersistentVolume) -> PersistentVolume:
        """Removes our finalizer: the disk is deleted, or is to stay."""
        if not is_held(pv):
            return pv
        rest = [each for each in pv.metadata.finalizers if each != finalizer_of(made_by(pv))]
        answer = await self._client.revise(pv, {"metadata": {"finalizers": rest}})
        self._volumes.accept(answer)
        return answer

    async def recycle(self, pv: PersistentVolume) -> None:
        """Removes the content and takes the volume from its claim: another claim can have it, or, if it was
        reserved by name, the next one of that name."""
        kind = "VolumeFailedRecycle"
        if (emptied := await self._reclaim(pv, self._recycle_in_storage, kind, kind)) is not None:
            self._recorder.event(pv, "Normal", "VolumeRecycled", "Volume recycled")
            self._recycled.discard(pv.uid)  # the offer may come late
            self._volumes.accept(await self._client.revise(emptied, _offered(emptied)))
            self._log.info("Recycled", volume=pv.name)

    async def _begin_to_empty(self, pv: PersistentVolume) -> PersistentVolume:
        """Writes the volume before it is emptied: an offer of it that was decided before, by a former leader,
        or that was not answered, is refused from then on. One that came late would have it emptied under its
        next claim."""
        if pv.uid in self._recycled:
            return pv
        patch = {"metadata": {"annotations": {RECYCLING: pv.metadata.resource_version}}}
        begun = await self._client.revise(pv, patch)
        self._volumes.accept(begun, tell=False)  # which would end the backoff
        self._remember(self._recycled, pv)
        self._client.check_leading()
        return begun

    def _remember(self, uids: set[str], pv: PersistentVolume) -> None:
        if self._volumes.knows(pv):  # or its end was told already
            uids.add(pv.uid)

    async def fail(self, pv: PersistentVolume, reason: Reason) -> None:
        """Says that the volume, whose claim is gone, is deleted by no plugin."""
        if await self._claim_is_gone(pv):
            await self._failed(pv, reason)

    async def _reclaim(
        self,
        pv: PersistentVolume,
        act: Callable[[PersistentVolume], Awaitable[PersistentVolume]],
        later: str,
        failed: str,
    ) -> PersistentVolume | None:
        """Runs `act` if the volume is unused, and returns the volume as that has left it; None if it did not
        run. Raises what `act` raises, after an event on the volume."""
        if not await self._is_marked(pv) or not await self._claim_is_gone(pv):
            return None
        try:
            if nodes := self._known_nodes(pv) or await self._attached_to(pv):
                raise DeletedVolumeInUse(pv.name, nodes)
            if pods := await self._used_by(pv):
                raise DeletedVolumeInUse(pv.name, users=[f"used by pod {pod.key}" for pod in pods])
            if others := await self._named_by_others(pv):
                raise DeletedVolumeInUse(pv.name, users=others)
            if not await self._is_marked(pv):  # the reads took time
                return None
            self._client.check_leading()
            return await act(pv)
        except DeletedVolumeInUse as error:
            self._recorder.once(pv, "Normal", Reason(later, str(error)))
            if not self._known_nodes(pv):  # else its detach brings it back
                self._again(pv)
            return None
        except KubeError:
            raise
        except Exception as error:
            await self._failed(pv, Reason(failed, str(error)))
            raise

    async def _delete_from_storage(self, pv: PersistentVolume) -> PersistentVolume:
        spec = VolumeSpec.of_persistent_volume(to_csi(pv))  # a former in-tree volume is its driver's
        if maker := made_by(pv):
            plugin = self._plugins.find_deletable_plugin_by_name(maker)
        else:
            plugin = self._plugins.find_deletable_plugin_by_spec(spec)
        await plugin.new_deleter(spec).delete()
        return pv

    async def _named_by_others(self, pv: PersistentVolume) -> list[str]:
        """Returns which other PersistentVolumes have the same storage, where people wrote them: a name of a
        disk can be there twice. A provisioner names each volume that it makes once."""
        if made_by(pv):
            return []
        mine = self._storage_of(pv)
        if mine is None:
            return []  # what cannot be understood is not deleted: that says why
        others = (each for each in (await self._client.list(PersistentVolume)).items if each.uid != pv.uid)
        return [
            f"named by PersistentVolume {each.name}, too" for each in others if self._storage_of(each) == mine
        ]

    def _storage_of(self, pv: PersistentVolume) -> tuple[str, str] | None:
        spec = VolumeSpec.of_persistent_volume(pv)
        try:
            plugin = self._plugins.find_plugin_by_spec(spec)
            return plugin.get_plugin_name(), plugin.get_volume_name(spec)
        except VolumeError:  # of no plugin of this process, or one that cannot be understood
            return None

    async def _recycle_in_storage(self, pv: PersistentVolume) -> PersistentVolume:
        spec = VolumeSpec.of_persistent_volume(pv)
        plugin = self._plugins.find_recyclable_plugin_by_spec(spec)

        def record(type_: EventType, message: str) -> None:
            self._recorder.event(pv, type_, "VolumeRecycle", message)

        begun = await self._begin_to_empty(pv)
        await plugin.recycle(pv.name, spec, record)
        return begun

    async def _is_marked(self, pv: PersistentVolume) -> bool:
        """Whether the volume is still to be reclaimed, and names the same claim: from that mark on the
        attacher asks for no attach, so what has no VolumeAttachment after it stays free (docs/protocol.md,
        "Reclaim")."""
        live = await self._client.find(PersistentVolume, pv.name)
        if live is None or (live.uid, live.spec.claim_ref) != (pv.uid, pv.spec.claim_ref):
            return False
        return to_be_reclaimed(live)

    async def _claim_is_gone(self, pv: PersistentVolume) -> bool:
        """Whether a live read shows that the volume has no claim any more."""
        reference = pv.spec.claim_ref
        claim = await self._claim_of_that_name(reference) if reference is not None else None
        return has_no_claim(pv, claim)

    async def _claim_of_that_name(self, reference: ObjectReference) -> PersistentVolumeClaim | None:
        return await self._client.find(PersistentVolumeClaim, reference.name, reference.namespace)

    async def _used_by(self, pv: PersistentVolume) -> list[Pod]:
        reference = pv.spec.claim_ref
        assert reference is not None
        key = f"{reference.namespace}/{reference.name}"
        pods = users_of_claim(key, (await self._client.list(Pod, reference.namespace)).items)
        if not pods:
            return []
        claim = await self._claim_of_that_name(reference)
        return may_have_mounted(pods, pv, claim, attached=await self._is_attachable(pv))

    async def _is_attachable(self, pv: PersistentVolume) -> bool:
        source = csi_source(VolumeSpec.of_persistent_volume(pv))
        driver = await self._client.find(CSIDriver, source.driver) if source is not None else None
        spec = VolumeSpec.of_persistent_volume(pv)
        return Attachability(self._plugins, lambda name: driver).attached_name(spec) is not None

    def _known_nodes(self, pv: PersistentVolume) -> list[str]:
        return [each.spec.node_name for each in self._attachments.by_index("volume", pv.name)]

    async def _attached_to(self, pv: PersistentVolume) -> list[str]:
        live = await self._client.list(VolumeAttachment)
        return [r.spec.node_name for r in live.items if r.spec.source.persistent_volume_name == pv.name]

    async def _failed(self, pv: PersistentVolume, reason: Reason) -> None:
        self._recorder.once(pv, "Warning", reason)
        if pv.status.phase == "Failed" and pv.status.message == reason.message:
            return
        status = {"phase": "Failed", "message": reason.message}
        self._volumes.accept(
            await self._client.revise(pv, {"status": status}, subresource="status", any_version=True)
        )


def _offered(pv: PersistentVolume) -> dict[str, Any]:
    """The patch that offers an emptied volume again."""
    patch = unbound(pv)
    annotations = patch.get("metadata", {}).get("annotations", {})
    return {**patch, "metadata": {"annotations": {**annotations, RECYCLING: None}}}


def has_no_claim(pv: PersistentVolume, claim: PersistentVolumeClaim | None) -> bool:
    """Whether the claim that the volume names by its uid is gone, or has another volume: a claim names one
    volume, once, so that this one was never its. `claim`: the one of that name, if there is one."""
    reference = pv.spec.claim_ref
    if reference is None or not reference.uid:
        return False
    return claim is None or claim.uid != reference.uid or claim.spec.volume_name not in ("", pv.name)


def may_have_mounted(
    pods: list[Pod], pv: PersistentVolume, claim: PersistentVolumeClaim | None, *, attached: bool
) -> list[Pod]:
    """Returns those pods that may have mounted the volume, of those that name its claim. `claim`: the one of
    that name; if it is the volume's, it has another one, and so have its pods. `attached`: whether the volume
    is attached before it is mounted."""
    reference = pv.spec.claim_ref
    if claim is not None and reference is not None and claim.uid == reference.uid:
        return []
    return not_of_successor(pods, claim, attached=attached)

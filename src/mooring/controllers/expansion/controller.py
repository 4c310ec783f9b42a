"""The resizer: grows the volumes of claims that ask for more, by calling their plugin.

Keys are claims. Every step is stored before the next: the claim's condition Resizing, the storage, the
PersistentVolume's capacity, the condition FileSystemResizePending (which the node agent acts on), the
claim's capacity. Whether a node must grow the file system, the storage says in its answer; a controller
that missed the answer asks again.
"""

from __future__ import annotations

from random import Random
from typing import Any, assert_never

from mooring.controllers.expansion.decide import Action, allocated, decide
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import KubeError
from mooring.kube.objects import Object, PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.kube.quantity import format_bytes
from mooring.kube.reason import Reason
from mooring.kube.times import Now, format_time
from mooring.volumes.errors import VolumeError
from mooring.volumes.growth import (
    CONTROLLER_RESIZE_ERROR,
    CONTROLLER_RESIZE_IN_PROGRESS,
    CONTROLLER_RESIZE_INFEASIBLE,
    FILE_SYSTEM_RESIZE_PENDING,
    NODE_RESIZE_PENDING,
    RESIZING,
    condition,
    has_condition,
    infeasible,
    is_infeasible,
    with_conditions,
)
from mooring.volumes.interfaces import ExpandableVolumePlugin
from mooring.volumes.matching import capacity, requested, reserved_for
from mooring.volumes.migration import to_csi
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec


class ExpansionController(Controller[str]):
    """Calls `expand_volume_device` of plugins and CSI drivers. Volumes of other drivers are
    left to those drivers' resizers."""

    name = "mooring-resizer"

    def __init__(self, client: Client, plugins: PluginManager, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._plugins = plugins
        self._on_node: dict[
            str, bool
        ] = {}  # uid of the PersistentVolume -> whether a node must grow the file system; while its claim shows less
        # What others note on a claim or its volume does not mark it: that would end its backoff.
        self._claims = self.watch(
            PersistentVolumeClaim,
            lambda claim: [claim.key],
            matters=lambda claim: (claim.uid, claim.deleting, claim.spec, claim.status),
        )
        self._volumes = self.watch(
            PersistentVolume, _claim_of, matters=lambda pv: (pv.uid, pv.deleting, pv.spec)
        )
        self._volumes.add_handler(self._forget)
        self._classes = self.watch(StorageClass, self._claims_of_class)

    def _forget(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        """It may go while a node has still to grow it."""
        if old is not None and new is None:
            self._on_node.pop(old.uid, None)

    def _claims_of_class(self, storage_class: StorageClass) -> list[str]:
        name = storage_class.name
        return [claim.key for claim in self._claims.items() if claim.spec.storage_class_name == name]

    def concerned(self, key: str) -> list[tuple[Object | None, str]]:
        return [(self._claims.get(key), "VolumeResizeFailed")]

    async def reconcile(self, key: str) -> None:
        """Takes one claim as far as it goes now."""
        while await self._step(key):
            pass

    async def _step(self, key: str) -> bool:
        """Takes one step. Returns whether another one may be taken at once; after a write,
        the change of the claim marks it."""
        claim = self._claims.get(key)
        pv = (
            self._volumes.get(claim.spec.volume_name)
            if claim is not None and claim.spec.volume_name
            else None
        )
        if claim is None or pv is None or not reserved_for(pv, claim):
            return False
        plugin = self._plugin(pv)
        if plugin is None:
            return False
        storage_class = self._classes.get(claim.storage_class)
        decision = decide(claim, pv, storage_class, self._on_node.get(pv.uid))
        reason = decision.reason
        match decision.action:
            case Action.SETTLED:
                self._on_node.pop(pv.uid, None)
            case Action.REFUSE:
                self.recorder.once(claim, "Warning", reason)
            case Action.EXPAND:
                return await self._expand(claim, pv, plugin, reason)
            case Action.ASK_NODE:
                message = "the file system grows where it is mounted"
                await self._condition(claim, FILE_SYSTEM_RESIZE_PENDING, message, NODE_RESIZE_PENDING)
                self.recorder.event(claim, "Normal", *reason)
            case Action.FINISH:
                done = {"capacity": dict(pv.spec.capacity), "allocatedResourceStatuses": {"storage": None}}
                await self._status(claim, {"conditions": with_conditions(claim), **done})
                self.recorder.event(claim, "Normal", *reason)
            case _:
                assert_never(decision.action)
        return False

    def _plugin(self, pv: PersistentVolume) -> ExpandableVolumePlugin | None:
        try:
            return self._plugins.find_expandable_plugin_by_spec(_as_its_driver_has_it(pv))
        except VolumeError:  # another's volume, or one that cannot be understood
            return None

    async def _expand(
        self,
        claim: PersistentVolumeClaim,
        pv: PersistentVolume,
        plugin: ExpandableVolumePlugin,
        reason: Reason,
    ) -> bool:
        """Grows the volume in the storage. Returns whether it was large enough already."""
        if not has_condition(claim, RESIZING) or allocated(claim) != requested(claim):
            size = {"storage": claim.spec.resources.requests["storage"]}
            claim = await self._condition(claim, RESIZING, "", CONTROLLER_RESIZE_IN_PROGRESS, size)
            self.recorder.event(claim, "Normal", *reason)
        await self._claims.confirm(claim)
        await self._volumes.confirm(pv)  # it may be another disk's by now; and what has grown stays so
        self.client.check_leading()
        try:
            grown = await plugin.expand_volume_device(_as_its_driver_has_it(pv), requested(claim))
            _check_size(grown.size, requested(claim))
        except KubeError:
            raise
        except Exception as error:
            self.recorder.once(
                claim, "Warning", Reason("VolumeResizeFailed", f"the volume could not grow: {error}")
            )
            if is_infeasible(error):
                await self._infeasible(claim, error)
            raise
        known = self._volumes.get(pv.name)
        if known is not None and known.uid == pv.uid:  # it may have gone meanwhile
            self._on_node[pv.uid] = grown.on_node and pv.spec.volume_mode == "Filesystem"
        if grown.size <= capacity(pv):
            return True
        patch = {"spec": {"capacity": {"storage": format_bytes(grown.size)}}}
        self._volumes.accept(await self.client.revise(pv, patch))
        self.log.info("Expanded", claim=claim.key, volume=pv.name, size=grown.size)
        return False

    async def _condition(
        self,
        claim: PersistentVolumeClaim,
        type_: str,
        message: str,
        step: str,
        size: dict[str, Any] | None = None,
    ) -> PersistentVolumeClaim:
        """Says how far the growth is: by the condition, and as kubelets read it (KEP-1790), by
        `allocatedResourceStatuses`; `size`: what is aimed at."""
        more: dict[str, Any] = {"allocatedResourceStatuses": {"storage": step}}
        if size is not None:
            more["allocatedResources"] = size
        conditions = with_conditions(claim, condition(type_, message, format_time(self.now())))
        return await self._status(claim, {"conditions": conditions, **more})

    async def _infeasible(self, claim: PersistentVolumeClaim, error: Exception) -> None:
        step = (RESIZING, CONTROLLER_RESIZE_ERROR, CONTROLLER_RESIZE_INFEASIBLE)
        if (status := infeasible(claim, *step, error, format_time(self.now()))) is not None:
            await self._status(claim, status)

    async def _status(self, claim: PersistentVolumeClaim, status: dict[str, Any]) -> PersistentVolumeClaim:
        written = await self.client.revise(claim, {"status": status}, subresource="status")
        self._claims.accept(written)
        return written


def _check_size(size: int, wanted: int) -> None:
    """A volume that is too small still has not grown: the storage is asked again after the backoff."""
    if size < wanted:
        raise VolumeError(f"the storage says that it has {size} bytes now, and {wanted} were asked for")


def _as_its_driver_has_it(pv: PersistentVolume) -> VolumeSpec:
    """A former in-tree volume as the CSI volume that it is, any other unchanged. Raises InvalidSpec."""
    return VolumeSpec.of_persistent_volume(to_csi(pv))


def _claim_of(pv: PersistentVolume) -> list[str]:
    reference = pv.spec.claim_ref
    return [f"{reference.namespace}/{reference.name}"] if reference is not None else []

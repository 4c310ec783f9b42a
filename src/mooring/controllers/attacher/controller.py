"""The attacher: carries out VolumeAttachments, those of plugin volumes and those of the CSI
drivers that it can call.

One worker for a VolumeAttachment at a time, a cap on how many are worked on at once (and on those of one
driver), and a backoff for each. Before a request to the storage, the finalizer and the time of the request
are stored, and the lock is compared; after it, the answer is stored. If no answer comes, nothing is stored,
and the request is sent again: every request is idempotent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any, assert_never

from mooring.controllers.attacher import metrics, requests
from mooring.controllers.attacher.decide import Action, decide
from mooring.controllers.attacher.definitions import Definitions, plugin_name
from mooring.controllers.attacher.detaching import Detaching
from mooring.controllers.attacher.remembered_detaches import RememberedDetaches
from mooring.controllers.attacher.request_ages import RequestAges
from mooring.controllers.attacher.slots import Slots
from mooring.controllers.attacher.verification import Recorded, asked, correction, is_verified
from mooring.controllers.attacher.writes import Writes
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import Conflict, KubeError, NotFound, is_refusal
from mooring.kube.keys import VolumeKey
from mooring.kube.objects import PersistentVolume, VolumeAttachment
from mooring.kube.storage_metrics import operation
from mooring.kube.times import Now
from mooring.volumes.attachment_lock import is_current
from mooring.volumes.errors import LockNotHeld, NotAsked, StorageRefused, VolumeError
from mooring.volumes.interfaces import AttachableVolumePlugin
from mooring.volumes.names import (
    ATTACH_EPOCH,
    ATTACH_REQUESTED_AT,
    ATTACHER,
)
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.reclaim import to_be_reclaimed
from mooring.volumes.spec import VolumeSpec


class VerifyKey(Enum):
    """The key under which everything that is attached is verified."""

    VERIFY = "verify"


VERIFY = VerifyKey.VERIFY
Key = str | VolumeKey | VerifyKey
"""A VolumeAttachment's name; a PersistentVolume that is being deleted and has our finalizer;
or the verification."""
VERIFY_S = 60.0
"""As upstream's reconciler sync."""


@dataclass(frozen=True)
class AttacherOptions:
    """`workers`: how many requests to storages may be in flight at once. `concurrency`: how many of one
    plugin or driver; of several, each may have three quarters of the workers at most. `verify_period_s`:
    seconds between two questions to the storage what is attached; 0: never."""

    workers: int = 16
    concurrency: Mapping[str, int] = field(default_factory=dict[str, int])
    verify_period_s: float = VERIFY_S


class AttacherController(Controller[Key]):
    """Calls the attachers and detachers of plugins and CSI drivers."""

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
        # Errors that this controller stores do not mark a VolumeAttachment: that would end its backoff. One
        # that comes late, when it is attached, does.
        self._records = self.watch(VolumeAttachment, self._touched, matters=_what_matters)
        self._ages = RequestAges()
        self._records.add_handler(self._ages.record_changed)
        self._writes = Writes(client, self._records, self._ages, now)
        self._remembered = RememberedDetaches(client)
        self._records.when_gone(self._remembered.forget)
        self._detaching = Detaching(
            self._writes, self._definitions, self._remembered, self._ages, self._ours, now
        )
        self._records.when_gone(self._detaching.forget)

    def _touched(self, record: VolumeAttachment) -> list[Key]:
        pv = self._volumes.get(record.spec.source.persistent_volume_name or "") if self._volumes else None
        return [record.name, *(self._left_behind(pv) if pv is not None else ())]

    def _left_behind(self, pv: PersistentVolume) -> list[Key]:
        """The key of a PersistentVolume that is being deleted and carries the attacher's finalizer, which
        upstream's attacher sets while the volume is attached."""
        return [VolumeKey(pv.name)] if pv.deleting and self._finalizers_on(pv) else []

    def _finalizers_on(self, pv: PersistentVolume) -> set[str]:
        return set(self._ours.values()).intersection(pv.metadata.finalizers)

    async def started(self) -> None:
        try:
            await self._remembered.begin()
        except KubeError as error:  # tried again before the first detach
            self.log.warning("DeletionsNotKnown", error=str(error))
        if self._options.verify_period_s:
            self.queue.add_after(VERIFY, self._options.verify_period_s)

    async def reconcile(self, key: Key) -> None:
        """Takes one VolumeAttachment as far as it goes now."""
        if isinstance(key, VerifyKey):
            await self._verify()
            self.queue.add_after(VERIFY, self._options.verify_period_s)
            return
        if isinstance(key, VolumeKey):
            await self._release_volume(key.name)
            return
        try:
            await self._take_further(key)
        finally:
            self._slots.pass_on(key)

    async def _take_further(self, key: str) -> None:
        """Takes one VolumeAttachment a step further, until nothing is left to do."""
        record, stored = self._records.get(key), False
        while record is not None:
            decision = decide(record, stored=stored, ours=self._ours)
            action = decision.action
            if action in (Action.IGNORE, Action.SETTLED):
                return
            driver = plugin_name(record)
            if not self._slots.take(driver, key):
                return
            try:
                self.log.info(
                    action.value, record=key, node=record.spec.node_name, reason=decision.reason.message
                )
                record, stored = await self._carry_out(action, record), action is Action.STORE_INTENT
            finally:
                self._slots.free(driver)

    async def _release_volume(self, name: str) -> None:
        """Removes the attacher's finalizer from a PersistentVolume that has no VolumeAttachment any more."""
        pv = await self.client.find(PersistentVolume, name)
        if pv is None or not self._left_behind(pv):
            return
        records = (await self.client.list(VolumeAttachment)).items
        if not any(record.spec.source.persistent_volume_name == name for record in records):
            rest = [each for each in pv.metadata.finalizers if each not in self._finalizers_on(pv)]
            await self.client.revise(pv, {"metadata": {"finalizers": rest}})

    async def _verify(self) -> None:
        """What fails for one VolumeAttachment waits for the next time, and keeps no other from its
        correction: tried again at once, the storage would be asked about everything."""
        for plugin, ours in (await self._recorded()).items():
            for record, said in await asked(plugin, ours, self.log):
                if self._records.get(record.name) is not record:
                    continue  # written since: what the storage has said was about an earlier state
                if status := correction(record, said):
                    try:
                        await self._correct(record, status)
                    except KubeError as error:
                        self.log.warning("VolumeNotCorrected", record=record.name, error=str(error))

    async def _recorded(self) -> Mapping[AttachableVolumePlugin, Recorded]:
        found: defaultdict[AttachableVolumePlugin, list[tuple[VolumeAttachment, VolumeSpec]]] = defaultdict(
            list
        )
        for record in self._records.items():
            if not is_verified(record, self._ours):
                continue
            try:
                found[self._definitions.plugin(record)].append((record, await self._definitions.spec(record)))
            except (VolumeError, KubeError) as error:  # its plugin, or its definition, is not there to ask
                self.log.warning("VolumeNotVerified", record=record.name, error=str(error))
        return found

    async def _correct(self, record: VolumeAttachment, status: dict[str, Any]) -> None:
        try:
            written = await self.client.revise(record, {"status": status}, subresource="status")
        except (Conflict, NotFound):  # written or deleted since: the answer is about an earlier state
            return
        stays = status.get("attached", True)
        if not stays:  # nothing else says any more that its attach was answered
            self._ages.answered(record, *requests.times(record, ATTACH_REQUESTED_AT)[-1:])
        self._records.accept(written)
        code = "AttachedElsewhere" if stays else "NotAttachedAnyMore"
        self.log.warning(code, record=record.name, node=record.spec.node_name)

    async def _carry_out(self, action: Action, record: VolumeAttachment) -> VolumeAttachment | None:
        """Returns the record with which the worker goes on; None if there is nothing to go on with. What the
        storage raises is stored on the record, and what the API server refuses, too."""
        try:
            match action:
                case Action.STORE_INTENT:
                    return await self._store_intent(record)
                case Action.ATTACH:
                    return await self._attach(record)
                case Action.DETACH:
                    return await self._detach(record)
                case Action.FORGET_ERROR:
                    await self._writes.forget_error(record)
                    return None
                case Action.IGNORE | Action.SETTLED:
                    return None
                case _:
                    assert_never(action)
        except KubeError as error:
            if is_refusal(error):
                with suppress(KubeError):
                    await self._writes.store_error(record, _field_for(action), error)
            raise
        except Exception as error:
            await self._writes.store_error(record, _field_for(action), error)
            raise

    # --- attach

    async def _store_intent(self, record: VolumeAttachment) -> VolumeAttachment:
        ours = self._ours[record.spec.attacher]
        finalizers = [*(f for f in record.metadata.finalizers if f != ours), ours]
        sent = requests.times(record, ATTACH_REQUESTED_AT)
        if sent:
            sent = self._ages.still_valid(record, sent, await self._definitions.validity_s(record))
        stamp = requests.begun(sent, self.now())
        notes = {**await self._definitions.notes(record), ATTACH_REQUESTED_AT: stamp}
        patch = {"metadata": {"finalizers": finalizers, "annotations": notes}}
        return await self._writes.revise(record, patch)

    async def _attach(self, record: VolumeAttachment) -> VolumeAttachment | None:
        plugin = self._definitions.plugin(record)
        try:
            spec = await self._definitions.spec(record, live=True)
            _check_lock(record, spec.persistent_volume)
            _check_reclaim(record, spec.persistent_volume)
            self.client.check_leading()
            self._ages.sends(record, ATTACH_REQUESTED_AT)
            with operation(plugin.get_plugin_name(), "volume_attach"):
                attachment = await plugin.attacher_of(record.metadata.annotations).attach(
                    spec, record.spec.node_name
                )
        except (StorageRefused, NotAsked):  # certainly not done: the request is not outstanding
            await self._writes.withdraw(record, ATTACH_REQUESTED_AT)
            raise
        status = {"attached": True, "attachmentMetadata": dict(attachment), "attachError": None}
        metrics.done(
            plugin.get_plugin_name(), "volume_attach", record.metadata.creation_timestamp, self.now()
        )
        return await self._writes.store_attached(record, status)

    async def _detach(self, record: VolumeAttachment) -> None:
        if left_s := await self._detaching.detach(record):
            self.queue.add_after(record.name, left_s)


def _field_for(action: Action) -> str:
    return "detachError" if action is Action.DETACH else "attachError"


def _check_lock(record: VolumeAttachment, persistent_volume: PersistentVolume | None) -> None:
    """Raises LockNotHeld if the epoch of the VolumeAttachment is not the lock's (docs/protocol.md C14)."""
    if persistent_volume is None or is_current(record, persistent_volume):
        return
    volume = persistent_volume.name
    if ATTACH_EPOCH in record.metadata.annotations:
        raise LockNotHeld(
            f"VolumeAttachment {record.name} is not of the epoch to which PersistentVolume {volume} is locked: another "
            f"node was granted the volume since. Nothing was asked of the storage"
        )
    raise LockNotHeld(
        f"VolumeAttachment {record.name} was made without the lock that Mooring's attach/detach controller keeps on "
        f"PersistentVolume {volume}: before that lock, or by another controller. Nothing was asked of the storage. If "
        f"Mooring's controller is not to come back, `mooring uninstall` takes its locks away"
    )


def _check_reclaim(record: VolumeAttachment, persistent_volume: PersistentVolume | None) -> None:
    """Raises NotAsked if the volume is to be deleted or emptied: since it was marked so, the reclaimer may
    have seen that it has no VolumeAttachment (docs/protocol.md, "Reclaim")."""
    if persistent_volume is not None and to_be_reclaimed(persistent_volume):
        raise NotAsked(
            f"VolumeAttachment {record.name}: the claim of PersistentVolume {persistent_volume.name} is gone, and its "
            f"reclaim policy is {persistent_volume.spec.persistent_volume_reclaim_policy}. Nothing was asked of the "
            f"storage"
        )


def _what_matters(record: VolumeAttachment) -> tuple[object, ...]:
    epoch, attached = record.metadata.annotations.get(ATTACH_EPOCH), record.status.attached
    late_error = attached and record.status.attach_error is not None
    return record.uid, record.deleting, record.metadata.finalizers, attached, late_error, epoch

"""The attacher: makes VolumeAttachments true, those of plugin volumes and those of the CSI drivers that it can call.

One worker for a VolumeAttachment at a time, a cap on how many are worked on at once (and on those of one driver),
backoff for each. Before a request to the storage: finalizer and request time are stored, and the lock is checked. After
it: the answer. An answer that never came leaves the record as it was, and the request is made again: every request is
idempotent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from mooring.controllers.attacher import metrics, requests
from mooring.controllers.attacher.decide import Step, decide
from mooring.controllers.attacher.definitions import Definitions, plugin_name
from mooring.controllers.attacher.detaching import Detaching
from mooring.controllers.attacher.slots import Slots
from mooring.controllers.attacher.tenure import Tenure
from mooring.controllers.attacher.verification import denied, is_verified
from mooring.controllers.attacher.writes import Writes
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import Conflict, KubeError, NotFound
from mooring.kube.objects import PersistentVolume, VolumeAttachment
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
from mooring.volumes.spec import VolumeSpec

VERIFY = "*"
"""The key under which everything that is attached is verified."""
VOLUME = "volume:"
"""Before the name of a PersistentVolume: the keys of those that are going and are kept for our sake."""
VERIFY_S = 60.0
"""As upstream's reconciler sync."""


@dataclass(frozen=True)
class AttacherOptions:
    """`workers`: how many requests to storages at once, the cap of the origin document; `concurrency`: how many of one
    plugin or driver; where there are several, none has more than three quarters of the workers. `verify_period_s`: how
    often the storage is asked what is attached; 0: never."""

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
        self._ours = plugins.attachers()
        # One storage that does not answer must not take all workers from the others.
        otherwise = max(1, options.workers * 3 // 4) if len(self._ours) > 1 else None
        self._slots = Slots(options.concurrency, self.queue.add, otherwise=otherwise)
        drivers = self._ours.keys() - {ATTACHER}
        self._volumes = self.watch(PersistentVolume, self._left_behind) if drivers else None
        self._definitions = Definitions(client, plugins, self._volumes)
        # What this controller notes of its own errors does not matter: it would end their backoff.
        self._records = self.watch(VolumeAttachment, self._touched, matters=_what_matters)
        self._writes = Writes(client, self._records, now)
        self._tenure = Tenure(client)
        self._records.add_handler(self._tenure.gone)
        self._detaching = Detaching(self._writes, self._definitions, self._tenure, self._ours, now)

    def _touched(self, record: VolumeAttachment) -> list[str]:
        pv = self._volumes.get(record.spec.source.persistent_volume_name or "") if self._volumes else None
        return [record.name, *(self._left_behind(pv) if pv is not None else ())]

    def _left_behind(self, pv: PersistentVolume) -> list[str]:
        """A volume that is going, and that upstream's attacher keeps for as long as it is attached."""
        return [f"{VOLUME}{pv.name}"] if pv.deleting and self._theirs(pv) else []

    def _theirs(self, pv: PersistentVolume) -> set[str]:
        return set(self._ours.values()).intersection(pv.metadata.finalizers)

    async def started(self) -> None:
        try:
            await self._tenure.begin()
        except KubeError as error:  # tried again before the first detach
            self.log.warning("DeletionsNotKnown", error=str(error))
        if self._options.verify_period_s:
            self.queue.add_after(VERIFY, self._options.verify_period_s)

    async def reconcile(self, key: str) -> None:
        """Takes one VolumeAttachment a step further, until nothing is left to do."""
        if key == VERIFY:
            self.queue.add_after(VERIFY, self._options.verify_period_s)
            await self._verify()
            return
        if key.startswith(VOLUME):
            await self._let_volume_go(key.removeprefix(VOLUME))
            return
        record, stored = self._records.get(key), False
        while record is not None:
            step, reason = decide(record, stored=stored, ours=self._ours)
            if step in (Step.IGNORE, Step.SETTLED):
                return
            driver = plugin_name(record)
            if not self._slots.take(driver, key):
                return
            try:
                self.log.info(step.value, record=key, node=record.spec.node_name, reason=reason.message)
                record, stored = await self._take(step, record), step is Step.STORE_INTENT
            finally:
                self._slots.free(driver)

    async def _let_volume_go(self, name: str) -> None:
        """What upstream's attacher has put on the volume is taken off when the volume is attached nowhere."""
        pv = await self.client.find(PersistentVolume, name)
        if pv is None or not self._left_behind(pv):
            return
        records = (await self.client.list(VolumeAttachment)).items
        if not any(record.spec.source.persistent_volume_name == name for record in records):
            rest = [each for each in pv.metadata.finalizers if each not in self._theirs(pv)]
            await self.client.revise(pv, {"metadata": {"finalizers": rest or None}})

    async def _verify(self) -> None:
        recorded: defaultdict[AttachableVolumePlugin, list[tuple[VolumeAttachment, VolumeSpec]]] = defaultdict(list)
        for record in self._records.items():
            if not is_verified(record, self._ours):
                continue
            try:
                recorded[self._definitions.plugin(record)].append((record, await self._definitions.spec(record)))
            except VolumeError as error:  # nobody can be asked about it
                self.log.warning("VolumeNotVerified", record=record.name, error=str(error))
        for plugin, ours in recorded.items():
            for record in await denied(plugin, ours, self.log):
                await self._tell_lost(record)

    async def _tell_lost(self, record: VolumeAttachment) -> None:
        now = self._records.get(record.name)
        if now is None or now.metadata.resource_version != record.metadata.resource_version:
            return  # written since: the storage was asked about something else
        self.log.warning("NotAttachedAnyMore", record=record.name, node=record.spec.node_name)
        try:
            patch = {"status": {"attached": False}}
            self._records.accept(await self.client.revise(record, patch, subresource="status"))
        except (Conflict, NotFound):  # as above; the cache does not know it yet
            return

    async def _take(self, step: Step, record: VolumeAttachment) -> VolumeAttachment | None:
        acts: dict[Step, Callable[[VolumeAttachment], Awaitable[VolumeAttachment | None]]] = {
            Step.STORE_INTENT: self._store_intent,
            Step.ATTACH: self._attach,
            Step.DETACH: self._detach,
        }
        field = "detachError" if step is Step.DETACH else "attachError"
        try:
            return await acts[step](record)
        except KubeError:
            raise
        except Exception as error:
            await self._writes.store_error(record, field, error)
            raise

    # --- attach

    async def _store_intent(self, record: VolumeAttachment) -> VolumeAttachment:
        ours = self._ours[record.spec.attacher]
        finalizers = [*(f for f in record.metadata.finalizers if f != ours), ours]
        sent = requests.times(record, ATTACH_REQUESTED_AT)
        stamp = requests.begun(sent, self.now(), await self._definitions.validity_s(record) if sent else 0.0)
        notes = {**await self._definitions.notes(record), ATTACH_REQUESTED_AT: stamp}
        patch = {"metadata": {"finalizers": finalizers, "annotations": notes}}
        return await self._writes.revise(record, patch)

    async def _attach(self, record: VolumeAttachment) -> VolumeAttachment:
        plugin = self._definitions.plugin(record)
        try:
            spec = await self._definitions.spec(record)
            _check_lock(record, spec.persistent_volume)
            self.client.check_leading()
            with metrics.operation(plugin.get_plugin_name(), "volume_attach"):
                attachment = await plugin.attacher_of(record.metadata.annotations).attach(spec, record.spec.node_name)
        except (StorageRefused, NotAsked):  # certainly not done: this request is not outstanding
            await self._writes.withdraw(record, ATTACH_REQUESTED_AT)
            raise
        status = {"attached": True, "attachmentMetadata": dict(attachment), "attachError": None}
        metrics.done(plugin.get_plugin_name(), "volume_attach", record.metadata.creation_timestamp, self.now())
        return await self._writes.store_status(record, status)

    async def _detach(self, record: VolumeAttachment) -> None:
        if left_s := await self._detaching.detach(record):
            self.queue.add_after(record.name, left_s)


def _check_lock(record: VolumeAttachment, persistent_volume: PersistentVolume | None) -> None:
    """Raises LockNotHeld for a VolumeAttachment of another epoch than the lock's (protocol.md C14)."""
    if persistent_volume is not None and not is_current(record, persistent_volume):
        raise LockNotHeld(
            f"VolumeAttachment {record.name} is not of the epoch to which PersistentVolume {persistent_volume.name} is "
            f"locked: another node was granted the volume since. Nothing was asked of the storage"
        )


def _what_matters(record: VolumeAttachment) -> tuple[object, ...]:
    epoch = record.metadata.annotations.get(ATTACH_EPOCH)
    return record.uid, record.deleting, record.metadata.finalizers, record.status.attached, epoch

"""The provisioner: makes volumes for claims, and reclaims released volumes (`reclaim`).

The storage is asked first, and the PersistentVolume written after it, under a name made from the claim's uid:
the next try finds whatever was interrupted.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import assert_never

from mooring.controllers.provisioning import originals
from mooring.controllers.provisioning.askers import ASKED_BY
from mooring.controllers.provisioning.begun_claims import BegunClaims
from mooring.controllers.provisioning.decide import (
    ClaimAction,
    VolumeAction,
    body_of,
    decide_claim,
    decide_volume,
    volume_name,
    wants_volume,
)
from mooring.controllers.provisioning.reclaim import Reclaimer
from mooring.controllers.provisioning.request import Requests
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import AlreadyExists, KubeError
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import (
    Node,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.kube.reason import Reason
from mooring.kube.times import Now
from mooring.volumes.errors import (
    InvalidSpec,
    NodeUnsuited,
    NotAsked,
    PluginError,
    StorageFull,
    StorageRefused,
)
from mooring.volumes.interfaces import (
    ProvisionableVolumePlugin,
    Provisioner,
    VolumeOptions,
)
from mooring.volumes.matching import (
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    WAIT_FOR_FIRST_CONSUMER,
)
from mooring.volumes.migration import migrated
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.reclaim import WITHOUT_CLAIM
from mooring.volumes.spec import VolumeSpec

Key = ClaimKey | VolumeKey

RETRY_IN_USE_S = 1.0
CERTAIN = (StorageRefused, NotAsked, InvalidSpec)
"""Errors after which this try has certainly made nothing."""


class ProvisioningController(Controller[Key]):
    """Calls the plugins' provisioners and deleters."""

    name = "mooring-provisioner"

    def __init__(
        self, client: Client, plugins: PluginManager, *, now: Now, random: Random, static_volumes: bool = True
    ) -> None:
        """`static_volumes`: whether volumes that no provisioner made are reclaimed here, too. A process that
        serves a single CSI driver leaves them to the cluster's own provisioner."""
        super().__init__(client, now=now, random=random)
        self._plugins = plugins
        self._static_volumes = static_volumes
        self._begun_by: dict[str, StorageClass] = {}
        """Uids of claims that this process began → the class; it may be deleted before the claim."""
        self._begun_for: dict[str, Node] = {}
        """Uids of claims that this process began → the selected node as it was last seen; it may be deleted
        before the volume is made."""
        self._ours = {
            p.get_plugin_name() for p in plugins.plugins if isinstance(p, ProvisionableVolumePlugin)
        }
        # Who asks does not mark a claim: two that ask would wake each other for ever.
        self._claims = self.watch(
            PersistentVolumeClaim,
            _touched_by_claim,
            matters=_what_matters_of_claim,
            indexers={originals.INDEX: originals.copied_from},
        )
        self._originals = originals.Originals(client, self._claims)
        self._begun = BegunClaims(client, self._claims)
        self._claims.when_gone(self._forget)
        # Why a volume could not be deleted does not mark it: that would end its backoff.
        self._volumes = self.watch(
            PersistentVolume, lambda pv: [VolumeKey(pv.name)], matters=_what_matters_of_volume
        )
        self._classes = self.watch(StorageClass, self._claims_of_class)
        self._requests = Requests(client, plugins, self._claims, self._volumes, self._originals)
        attachments = self.watch(
            VolumeAttachment,
            _volumes_of,
            matters=lambda record: record.uid,
            indexers={"volume": _volume_names},
        )
        self._reclaimer = Reclaimer(
            client, plugins, self._volumes, attachments, self.recorder, self.log, self._try_again
        )

    def _forget(self, claim: PersistentVolumeClaim) -> None:
        self._begun_by.pop(claim.uid, None)
        self._begun_for.pop(claim.uid, None)

    def _try_again(self, pv: PersistentVolume) -> None:
        self.queue.add_after(VolumeKey(pv.name), RETRY_IN_USE_S)

    def _claims_of_class(self, storage_class: StorageClass) -> list[Key]:
        name = storage_class.name
        return [
            ClaimKey(claim.key) for claim in self._claims.items() if claim.spec.storage_class_name == name
        ]

    def concerned(self, key: Key) -> list[tuple[Object | None, str]]:
        if isinstance(key, ClaimKey):
            return [(self._claims.get(key.name), "ProvisioningFailed")]
        return [(self._volumes.get(key.name), "VolumeFailedDelete")]

    async def reconcile(self, key: Key) -> None:
        """Takes one claim or one volume as far as it goes now."""
        if isinstance(key, ClaimKey):
            if (claim := self._claims.get(key.name)) is not None:
                await self._reconcile_claim(claim)
            await self._originals.let_go(key.name)
        elif (pv := self._volumes.get(key.name)) is not None:
            await self._reconcile_volume(pv)

    async def _reconcile_volume(self, pv: PersistentVolume) -> None:
        decision = decide_volume(pv, self._ours, deletable=self._deletable(pv))
        match decision.action:
            case VolumeAction.DELETE:
                await self._reclaimer.delete(pv)
            case VolumeAction.RECYCLE:
                await self._reclaimer.recycle(pv)
            case VolumeAction.RELEASE:
                await self._reclaimer.release(pv)
            case VolumeAction.FAIL:
                await self._reclaimer.fail(pv, decision.reason)
            case VolumeAction.KEEP:
                return
            case _:
                assert_never(decision.action)

    def _deletable(self, pv: PersistentVolume) -> bool | None:
        """Whether a plugin of this process deletes volumes with this source. CSI drivers delete what they
        made, and volumes of former in-tree plugins are theirs; those are not for plugins."""
        if not self._static_volumes or pv.spec.csi is not None or migrated(pv.spec) is not None:
            return None
        try:
            self._plugins.find_deletable_plugin_by_spec(VolumeSpec.of_persistent_volume(pv))
        except PluginError:
            return False
        return True

    async def _reconcile_claim(self, claim: PersistentVolumeClaim) -> None:
        storage_class = self._classes.get(claim.storage_class) or self._begun_by.get(claim.uid)
        made = self._volumes.get(volume_name(claim)) is not None
        decision = decide_claim(claim, storage_class, self._ours, made=made)
        match decision.action:
            case ClaimAction.PROVISION:
                assert storage_class is not None
                await self._confirm_class(storage_class)
                if self._claims.knows(claim):  # else its end was told already
                    self._begun_by[claim.uid] = storage_class
                await self._provision(claim, storage_class)
            case ClaimAction.FINISH:
                await self._begun.end(claim)
            case ClaimAction.ASK:
                if claim.metadata.annotations.get(STORAGE_PROVISIONER) in self._ours:
                    self.recorder.once(claim, "Warning", decision.reason)
            case ClaimAction.SETTLED:
                self._begun.forget(claim)
                self._forget(claim)
            case _:
                assert_never(decision.action)

    async def _confirm_class(self, storage_class: StorageClass) -> None:
        """Conflict if the class is another one by now, which is how its parameters are changed: by the former
        one a volume would be unencrypted, say, or be deleted with its claim, for good. What was begun by one
        that is gone goes on."""
        if self._classes.get(storage_class.name) is not None:
            await self._classes.confirm(storage_class)

    async def _provision(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> None:
        plugin, options = await self._prepare(claim, storage_class)
        claim = await self._begun.begin(claim)
        await self._create(claim, await self._make(claim, storage_class, plugin, options))
        await self._begun.end(claim)

    async def _prepare(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass
    ) -> tuple[ProvisionableVolumePlugin, VolumeOptions]:
        """What is wrong with a request is no word of the storage: it says nothing of an earlier try, and
        before the first one nothing has begun."""
        try:
            return await self._requests.prepare(claim, storage_class, first=self._begun.is_certain(claim))
        except KubeError:
            raise
        except Exception as error:
            await self._failed(claim, storage_class, NotAsked(str(error)))
            raise

    async def _make(
        self,
        claim: PersistentVolumeClaim,
        storage_class: StorageClass,
        plugin: ProvisionableVolumePlugin,
        options: VolumeOptions,
    ) -> PersistentVolume:
        try:
            node = await self._selected_node(claim, storage_class)
            asked = replace(options, claim=claim, selected_node=node)
            return await self._ask(claim, plugin.new_provisioner(asked))
        except KubeError:
            raise
        except Exception as error:
            await self._failed(claim, storage_class, error)
            raise

    async def _failed(
        self, claim: PersistentVolumeClaim, storage_class: StorageClass, error: Exception
    ) -> None:
        """Gives a claim back to the scheduler, or lets it go, if nothing is there for it; and says why."""
        if isinstance(error, (StorageFull, NodeUnsuited)) and self._can_go_elsewhere(claim, storage_class):
            await self._choose_another_node(claim)
        elif self._is_nothing_there(claim, error) and not wants_volume(claim, storage_class, self._ours):
            await self._begun.give_up(claim)
        self.recorder.once(
            claim, "Warning", Reason("ProvisioningFailed", f"failed to provision volume: {error}")
        )

    async def _ask(self, claim: PersistentVolumeClaim, provisioner: Provisioner) -> PersistentVolume:
        """Asks the storage. From then on something may be there, also if the volume is made, and cannot be
        stored: only an error that certainly had no effect leaves what was certain before."""
        self.client.check_leading()
        try:
            made = await provisioner.provision()
        except CERTAIN:
            raise
        except BaseException:
            self._begun.may_be_made(claim)
            raise
        self._begun.may_be_made(claim)
        return made

    def _is_nothing_there(self, claim: PersistentVolumeClaim, error: Exception) -> bool:
        """Whether nothing was made: the try certainly had no effect, and the storage says so, or no earlier
        try can have had any."""
        says_so = isinstance(error, CERTAIN) and not isinstance(error, NotAsked)
        return says_so or self._begun.is_certain(claim)

    def _can_go_elsewhere(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> bool:
        delayed = storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        return delayed and self._begun.is_certain(claim)

    async def _choose_another_node(self, claim: PersistentVolumeClaim) -> None:
        """Has the scheduler choose another node: the volume cannot be made for this one, and
        nothing was made."""
        await self._begun.end(claim, SELECTED_NODE)

    async def _selected_node(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Node | None:
        """The node that the scheduler has chosen. One that has gone is left for another, as upstream has it
        (ProvisioningReschedule), unless a volume may have been made for it: that is asked for where it was,
        as the other volumes of its pod are."""
        name = claim.metadata.annotations.get(SELECTED_NODE)
        if not name:
            return None
        node = await self.client.find(Node, name)
        if node is None and self._can_go_elsewhere(claim, storage_class):
            raise NodeUnsuited(f"the selected node {name} does not exist")
        if node is not None and claim.uid in self._begun_by:  # else the claim has gone meanwhile
            self._begun_for[claim.uid] = node
        known = self._begun_for.get(claim.uid)
        return node or (known if known is not None and known.name == name else None)

    async def _create(self, claim: PersistentVolumeClaim, made: PersistentVolume) -> None:
        body = body_of(made, claim)
        try:
            self._volumes.accept(await self.client.create(PersistentVolume, body))
        except AlreadyExists:  # a cache that does not show it yet would have it made again and again
            if (live := await self.client.find(PersistentVolume, made.name)) is not None:
                self._volumes.accept(live)
            return
        self.log.info("Provisioned", claim=claim.key, volume=made.name)
        self.recorder.event(
            claim, "Normal", "ProvisioningSucceeded", f"Successfully provisioned volume {made.name}"
        )


def _touched_by_claim(claim: PersistentVolumeClaim) -> list[Key]:
    """The claim, and the one that it is to be a copy of."""
    return [ClaimKey(key) for key in (claim.key, *originals.copied_from(claim))]


def _what_matters_of_claim(claim: PersistentVolumeClaim) -> tuple[object, ...]:
    annotations = {key: value for key, value in claim.metadata.annotations.items() if key != ASKED_BY}
    return claim.uid, claim.deleting, annotations, claim.metadata.finalizers, claim.spec, claim.status


def _what_matters_of_volume(pv: PersistentVolume) -> tuple[object, ...]:
    metadata = pv.metadata
    without_claim = pv.status.phase in WITHOUT_CLAIM
    return pv.uid, pv.deleting, metadata.annotations, metadata.finalizers, pv.spec, without_claim


def _volume_names(record: VolumeAttachment) -> list[str]:
    name = record.spec.source.persistent_volume_name
    return [name] if name else []


def _volumes_of(record: VolumeAttachment) -> list[Key]:
    return [VolumeKey(name) for name in _volume_names(record)]

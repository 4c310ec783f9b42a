"""The modifier: gives volumes the attributes that their claims ask for, by calling their
plugin or CSI driver.

Keys are claims. As upstream's resizer does it: `status.modifyVolumeStatus` says what is being done
(Pending: the class is missing; InProgress; Infeasible: the storage refuses),
`status.currentVolumeAttributesClassName` what is true.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any, assert_never

from mooring.controllers.modification.decide import Action, decide
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import KubeError
from mooring.kube.objects import Object, PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass
from mooring.kube.reason import Reason
from mooring.kube.times import Now
from mooring.volumes.errors import InvalidSpec, PluginError
from mooring.volumes.interfaces import ModifiableVolumePlugin, VolumePlugin
from mooring.volumes.matching import reserved_for
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

RETURNED = "mooring.dev/modified-back"
"""Annotation of a PersistentVolume whose claim has returned to the class that it names: the version then."""


class ModificationController(Controller[str]):
    """Calls `modify_volume`. Volumes of other drivers are left to those drivers' resizers."""

    name = "mooring-modifier"

    def __init__(self, client: Client, plugins: PluginManager, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._plugins = plugins
        # Neither a refusal that this controller stores marks a claim, nor what others note on its volume:
        # that would end its backoff.
        self._claims = self.watch(PersistentVolumeClaim, lambda claim: [claim.key], matters=_what_matters)
        self._volumes = self.watch(PersistentVolume, _claim_of, matters=lambda pv: (pv.uid, pv.spec))
        self._classes = self.watch(VolumeAttributesClass, self._claims_of_class)

    def _claims_of_class(self, of_class: VolumeAttributesClass) -> list[str]:
        claims = self._claims.items()
        return [claim.key for claim in claims if claim.spec.volume_attributes_class_name == of_class.name]

    def concerned(self, key: str) -> list[tuple[Object | None, str]]:
        return [(self._claims.get(key), "VolumeModifyFailed")]

    async def reconcile(self, key: str) -> None:
        """Takes one claim a step further. The write of each step marks the claim again."""
        claim = self._claims.get(key)
        pv = (
            self._volumes.get(claim.spec.volume_name)
            if claim is not None and claim.spec.volume_name
            else None
        )
        if claim is None or pv is None or not reserved_for(pv, claim):
            return
        plugin = self._maker(pv)
        if plugin is None:
            return
        wanted = self._classes.get(claim.spec.volume_attributes_class_name or "")
        can_modify = isinstance(plugin, ModifiableVolumePlugin)
        decision = decide(claim, pv, wanted, plugin.get_plugin_name(), can_modify=can_modify)
        reason = decision.reason
        match decision.action:
            case Action.SETTLED:
                return
            case Action.WAIT:
                self.recorder.once(claim, "Warning", reason)
                if not _returns(claim, pv):
                    await self._under_way(claim, "Pending")
            case Action.REFUSE:
                self.recorder.once(claim, "Warning", reason)
                await self._under_way(claim, "Infeasible")
            case Action.BEGIN:
                await self._under_way(claim, "InProgress")
                self.recorder.event(claim, "Normal", *reason)
            case Action.MODIFY:
                assert wanted is not None, f"{claim.key} is to be modified without a class"
                assert isinstance(plugin, ModifiableVolumePlugin)
                await self._modify(claim, pv, plugin, wanted)
            case Action.FINISH:
                await self._volumes.confirm(pv)  # another process may have changed it since
                await self._finish(claim, reason)
            case _:
                assert_never(decision.action)

    def _maker(self, pv: PersistentVolume) -> VolumePlugin | None:
        """The plugin or driver of this process that makes such volumes; None for another's volume."""
        spec = VolumeSpec.of_persistent_volume(pv)
        try:
            return self._plugins.find_plugin_by_name(
                self._plugins.find_plugin_by_spec(spec).get_driver_name(spec)
            )
        except PluginError:
            return None

    async def _modify(
        self,
        claim: PersistentVolumeClaim,
        pv: PersistentVolume,
        plugin: ModifiableVolumePlugin,
        wanted: VolumeAttributesClass,
    ) -> None:
        if returns := _returns(claim, pv):
            pv = await self._keep_class(pv)
        await self._claims.confirm(claim)
        await self._volumes.confirm(pv)  # it may be another disk's by now
        await self._classes.confirm(wanted)  # its parameters are changed by making it anew
        self.client.check_leading()
        try:
            await plugin.modify_volume(VolumeSpec.of_persistent_volume(pv), wanted.parameters)
        except KubeError:
            raise
        except Exception as error:
            self.recorder.once(
                claim, "Warning", Reason("VolumeModifyFailed", f"the volume was not changed: {error}")
            )
            if isinstance(error, InvalidSpec) and not returns:
                with suppress(KubeError):  # the next try stores it: what counts is the storage's error
                    await self._under_way(claim, "Infeasible")
            raise
        if not returns:
            patch = {"spec": {"volumeAttributesClassName": wanted.name}}
            self._volumes.accept(await self.client.revise(pv, patch))
        self.log.info("Modified", claim=claim.key, volume=pv.name, attributes=wanted.name)
        done = f"its volume has the attributes of {wanted.name}"
        await self._finish(claim, Reason("VolumeModifySuccessful", done))

    async def _keep_class(self, pv: PersistentVolume) -> PersistentVolume:
        """A write of the class that its claim has left may be on its way still: it is refused from now on
        (docs/protocol.md, C3: a change of nothing leaves late writes valid)."""
        marked = {"metadata": {"annotations": {RETURNED: pv.metadata.resource_version}}}
        kept = await self.client.revise(pv, marked)
        self._volumes.accept(kept)
        return kept

    async def _under_way(self, claim: PersistentVolumeClaim, status: str) -> None:
        target = claim.spec.volume_attributes_class_name
        wanted = {"targetVolumeAttributesClassName": target, "status": status}
        held = claim.status.modify_volume_status
        if held is None or (held.target_volume_attributes_class_name, held.status) != (target, status):
            await self._status(claim, {"modifyVolumeStatus": wanted})

    async def _finish(self, claim: PersistentVolumeClaim, reason: Reason) -> None:
        current = claim.spec.volume_attributes_class_name
        await self._status(claim, {"currentVolumeAttributesClassName": current, "modifyVolumeStatus": None})
        self.recorder.event(claim, "Normal", *reason)

    async def _status(self, claim: PersistentVolumeClaim, status: dict[str, Any]) -> None:
        self._claims.accept(await self.client.revise(claim, {"status": status}, subresource="status"))


def _returns(claim: PersistentVolumeClaim, pv: PersistentVolume) -> bool:
    """Whether it returns to the class that its volume has: its status goes on saying what may have been
    made."""
    return pv.spec.volume_attributes_class_name == claim.spec.volume_attributes_class_name


def _what_matters(claim: PersistentVolumeClaim) -> tuple[object, ...]:
    """What is decided upon of a claim."""
    spec, status = claim.spec, claim.status
    under_way = status.modify_volume_status
    return (
        claim.uid,
        claim.deleting,
        spec.volume_name,
        spec.volume_attributes_class_name,
        status.phase,
        status.current_volume_attributes_class_name,
        under_way.target_volume_attributes_class_name if under_way is not None else None,
    )


def _claim_of(pv: PersistentVolume) -> list[str]:
    reference = pv.spec.claim_ref
    return [f"{reference.namespace}/{reference.name}"] if reference is not None else []

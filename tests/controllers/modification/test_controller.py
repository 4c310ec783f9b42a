"""Attributes of volumes follow their claims."""

from __future__ import annotations

from functools import partial

import pytest
from controller_stage import DriverStage, Play
from played_driver import NAME
from requests_sent import marked

from mooring.controllers.modification.controller import ModificationController
from mooring.csi.errors import Code
from mooring.kube.client import WatchEvent
from mooring.kube.errors import Conflict, Unreachable
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.errors import InvalidSpec, OutcomeUnknown, StorageRefused


class ModifierStage(DriverStage):
    """A bound claim whose volume is to become gold."""

    async def set_up(self) -> None:
        self.controller = self.make(ModificationController, plugins=self.driver())
        gold = {"metadata": {"name": "gold"}, "driverName": NAME, "parameters": {"iops": "9"}}
        self.controller.cache(VolumeAttributesClass).accept(
            await self.api.create(VolumeAttributesClass, gold)
        )
        spec = {"accessModes": ["ReadWriteOnce"], "volumeName": "pv", "volumeAttributesClassName": "gold"}
        resources = {"resources": {"requests": {"storage": "1Gi"}}}
        claim = {"metadata": {"name": "c"}, "spec": {**spec, **resources}}
        made = await self.api.create(PersistentVolumeClaim, claim, "default")
        await self.api.patch(
            PersistentVolumeClaim, "c", {"status": {"phase": "Bound"}}, "default", subresource="status"
        )
        volume = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": NAME, "volumeHandle": "v"},
            "claimRef": {"namespace": "default", "name": "c", "uid": made.uid},
        }
        await self.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": volume})

    async def wants(self, of_class: str) -> None:
        patch = {"spec": {"volumeAttributesClassName": of_class}}
        await self.api.patch(PersistentVolumeClaim, "c", patch, "default")

    async def turns_to_silver(self) -> None:
        """It is gold, and its claim asks for silver: the storage is asked next."""
        await self.set_up()
        for _ in range(3):
            await self.step()
        silver = {"metadata": {"name": "silver"}, "driverName": NAME, "parameters": {"iops": "5"}}
        self.controller.cache(VolumeAttributesClass).accept(
            await self.api.create(VolumeAttributesClass, silver)
        )
        await self.wants("silver")
        await self.step()

    async def step(self) -> PersistentVolumeClaim:
        await self.fill(self.controller, PersistentVolumeClaim, PersistentVolume)
        await self.controller.reconcile("default/c")
        return await self.api.get(PersistentVolumeClaim, "c", "default")


@pytest.fixture
def play(play: Play) -> Play:
    return partial(play, stage=ModifierStage)


def test_first_the_claim_says_what_is_wanted_then_the_storage_is_asked_then_all_say_so(play: Play):
    async def story(stage: ModifierStage) -> None:
        await stage.set_up()
        begun = (await stage.step()).status.modify_volume_status
        assert begun is not None
        assert (begun.target_volume_attributes_class_name, begun.status) == ("gold", "InProgress")
        assert stage.storage.attributes == {}
        await stage.step()
        assert stage.storage.attributes == {"v": {"iops": "9"}}
        assert (await stage.api.get(PersistentVolume, "pv")).spec.volume_attributes_class_name == "gold"
        done = (await stage.step()).status
        assert (done.current_volume_attributes_class_name, done.modify_volume_status) == ("gold", None)
        await stage.step()
        assert stage.storage.methods() == ["ControllerModifyVolume"]

    play(story)


def test_what_the_storage_refuses_is_infeasible_and_tried_again(play: Play):
    async def story(stage: ModifierStage) -> None:
        await stage.set_up()
        await stage.step()
        stage.storage.failing["ControllerModifyVolume"].errors = [Code.INVALID_ARGUMENT]
        with pytest.raises(InvalidSpec):
            await stage.step()
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert claim.status.modify_volume_status is not None
        assert claim.status.modify_volume_status.status == "Infeasible"
        await stage.step()
        assert stage.storage.attributes == {"v": {"iops": "9"}}

    play(story)


def test_what_the_storage_cannot_do_now_is_not_called_infeasible(play: Play):
    """Found by the simulation: EC2 optimizes a volume for a while after each change, and
    refuses the next one."""

    async def story(stage: ModifierStage) -> None:
        await stage.set_up()
        await stage.step()
        stage.storage.failing["ControllerModifyVolume"].errors = [Code.FAILED_PRECONDITION]
        with pytest.raises(StorageRefused):
            await stage.step()
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert claim.status.modify_volume_status is not None
        assert claim.status.modify_volume_status.status == "InProgress"

    play(story)


def test_a_refusal_that_is_stored_does_not_end_its_backoff(play: Play):
    """Found by the simulation: the storage was asked again at once."""

    async def story(stage: ModifierStage) -> None:
        await stage.set_up()
        await stage.step()
        await stage.fill(stage.controller, PersistentVolumeClaim, PersistentVolume)
        await marked(stage.controller)
        stage.storage.failing["ControllerModifyVolume"].errors = [Code.INVALID_ARGUMENT]
        with pytest.raises(InvalidSpec):
            await stage.controller.reconcile("default/c")
        assert await marked(stage.controller) == []
        await stage.api.patch(PersistentVolume, "pv", {"metadata": {"labels": {"example.com/seen": "yes"}}})
        await stage.fill(stage.controller, PersistentVolume)
        assert await marked(stage.controller) == [], "what others note does not, either"
        await stage.wants("silver")
        await stage.fill(stage.controller, PersistentVolumeClaim)
        assert await marked(stage.controller) == ["default/c"]

    play(story)


def test_a_claim_that_returns_to_its_class_while_a_change_is_not_answered_is_changed_back(play: Play):
    """The change that it does not want any more may have been made, or may be yet."""

    async def story(stage: ModifierStage) -> None:
        await stage.turns_to_silver()
        how = stage.storage.failing["ControllerModifyVolume"]
        how.errors, how.after = [Code.DEADLINE_EXCEEDED], True
        with pytest.raises(OutcomeUnknown):
            await stage.step()
        assert stage.storage.attributes == {"v": {"iops": "5"}}
        await stage.wants("gold")
        how.errors, how.after = [Code.FAILED_PRECONDITION], False
        with pytest.raises(StorageRefused):
            await stage.step()
        done = (await stage.step()).status
        assert stage.storage.attributes == {"v": {"iops": "9"}}
        assert (done.current_volume_attributes_class_name, done.modify_volume_status) == ("gold", None)
        await stage.step()
        assert stage.storage.methods() == ["ControllerModifyVolume"] * 4

    play(story)


def test_a_class_that_a_claim_has_left_does_not_get_onto_its_volume_late(play: Play):
    """The storage has changed the volume, and the write that says so is not answered (85050 of the swarm)."""

    async def story(stage: ModifierStage) -> None:
        await stage.turns_to_silver()
        late = stage.wire.late(request("PATCH", "persistentvolumes/pv"))
        with pytest.raises(Unreachable):
            await stage.step()
        await stage.wants("gold")
        assert (await stage.step()).status.modify_volume_status is None
        assert stage.storage.attributes == {"v": {"iops": "9"}}
        assert await late.deliver() == 409
        assert (await stage.api.get(PersistentVolume, "pv")).spec.volume_attributes_class_name == "gold"

    play(story)


def test_a_claim_that_returns_to_a_class_that_has_gone_goes_on_saying_what_may_have_been_made(play: Play):
    async def story(stage: ModifierStage) -> None:
        await stage.turns_to_silver()
        classes = stage.controller.cache(VolumeAttributesClass)
        how = stage.storage.failing["ControllerModifyVolume"]
        how.errors, how.after = [Code.DEADLINE_EXCEEDED], True
        with pytest.raises(OutcomeUnknown):
            await stage.step()
        former = await stage.api.get(VolumeAttributesClass, "gold")
        await stage.api.delete(VolumeAttributesClass, "gold")
        classes.apply(WatchEvent("DELETED", former, former.metadata.resource_version))
        await stage.wants("gold")
        said = (await stage.step()).status.modify_volume_status
        assert said is not None
        assert said.target_volume_attributes_class_name == "silver"
        gold = {"metadata": {"name": "gold"}, "driverName": NAME, "parameters": {"iops": "9"}}
        classes.accept(await stage.api.create(VolumeAttributesClass, gold))
        assert (await stage.step()).status.modify_volume_status is None
        assert stage.storage.attributes == {"v": {"iops": "9"}}

    play(story)


def test_a_claim_does_not_say_that_its_volume_has_what_another_process_has_changed_since(play: Play):
    """The watch of volumes stood still, that of claims did not: the claim says InProgress, as the other
    process is to give the volume its former attributes again (547 with attributes)."""

    async def story(stage: ModifierStage) -> None:
        await stage.set_up()
        for _ in range(3):
            await stage.step()
        silver = {"spec": {"volumeAttributesClassName": "silver"}}
        await stage.api.patch(PersistentVolume, "pv", silver)
        target = {"targetVolumeAttributesClassName": "gold", "status": "InProgress"}
        status = {"status": {"modifyVolumeStatus": target}}
        await stage.api.patch(PersistentVolumeClaim, "c", status, "default", subresource="status")
        await stage.fill(stage.controller, PersistentVolumeClaim)
        with pytest.raises(Conflict):
            await stage.controller.reconcile("default/c")
        told = (await stage.api.get(PersistentVolumeClaim, "c", "default")).status.modify_volume_status
        assert told is not None
        assert told.status == "InProgress"
        await stage.controller.reconcile("default/c")
        assert (await stage.api.get(PersistentVolume, "pv")).spec.volume_attributes_class_name == "gold"

    play(story)

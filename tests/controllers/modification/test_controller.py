"""Attributes of volumes follow their claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from played_driver import NAME, Storage, plugin

from mooring.controllers.modification.controller import ModificationController
from mooring.csi.errors import Code
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, VolumeAttributesClass
from mooring.volumes.errors import StorageRefused
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.names import CSI_PLUGIN
from mooring.volumes.plugin_manager import PluginManager

Desk = Callable[[Any], Any]


class Bench:
    """A bound claim whose volume is to become gold."""

    def __init__(self, desk: Any) -> None:
        self.api, self.storage = desk.api, Storage()
        host = ControllerVolumeHost(desk.now, {CSI_PLUGIN: {NAME: "here"}}, desk.api)
        plugins = PluginManager([plugin(self.storage)], host)
        self.controller = desk.make(ModificationController, plugins=plugins)

    async def set_up(self) -> None:
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

    async def step(self) -> PersistentVolumeClaim:
        self.controller.cache(PersistentVolumeClaim).accept(
            await self.api.get(PersistentVolumeClaim, "c", "default")
        )
        self.controller.cache(PersistentVolume).accept(await self.api.get(PersistentVolume, "pv"))
        await self.controller.reconcile("default/c")
        return await self.api.get(PersistentVolumeClaim, "c", "default")


def test_first_the_claim_says_what_is_wanted_then_the_storage_is_asked_then_all_say_so(desk: Desk):
    async def scene(desk: Any) -> None:
        bench = Bench(desk)
        await bench.set_up()
        begun = (await bench.step()).status.modify_volume_status
        assert begun is not None
        assert (begun.target_volume_attributes_class_name, begun.status) == ("gold", "InProgress")
        assert bench.storage.attributes == {}
        await bench.step()
        assert bench.storage.attributes == {"v": {"iops": "9"}}
        assert (await bench.api.get(PersistentVolume, "pv")).spec.volume_attributes_class_name == "gold"
        done = (await bench.step()).status
        assert (done.current_volume_attributes_class_name, done.modify_volume_status) == ("gold", None)
        await bench.step()
        assert bench.storage.methods() == ["ControllerModifyVolume"]

    desk(scene)


def test_what_the_storage_refuses_is_infeasible_and_tried_again(desk: Desk):
    async def scene(desk: Any) -> None:
        bench = Bench(desk)
        await bench.set_up()
        await bench.step()
        bench.storage.failing["ControllerModifyVolume"].errors = [Code.INVALID_ARGUMENT]
        with pytest.raises(StorageRefused):
            await bench.step()
        claim = await bench.api.get(PersistentVolumeClaim, "c", "default")
        assert claim.status.modify_volume_status is not None
        assert claim.status.modify_volume_status.status == "Infeasible"
        await bench.step()
        assert bench.storage.attributes == {"v": {"iops": "9"}}

    desk(scene)

"""What the resizer writes, and in which order. The test plays the node's part."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mooring.controllers.expansion.controller import ExpansionController
from mooring.kube.objects import Event, PersistentVolume, PersistentVolumeClaim, StorageClass
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.interfaces import ExpandableVolumePlugin, Expansion
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.plugins.hostpath import HostPathPlugin
from mooring.volumes.spec import VolumeSpec

Desk = Callable[[Any], Any]
MIB = 1024 * 1024


class Elastic(HostPathPlugin, ExpandableVolumePlugin):
    """Grows by whole 100 MiB."""

    on_node = True
    failure: Exception | None = None

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def expand_volume_device(self, spec: VolumeSpec, new_size: int) -> Expansion:
        self.asked.append(new_size)
        if self.failure is not None:
            raise self.failure
        return Expansion(-(-new_size // (100 * MIB)) * 100 * MIB, self.on_node)


class Bench:
    """A bound claim c of volume pv, class k, and a controller whose cache is kept up to date."""

    def __init__(self, desk: Any) -> None:
        self.api = desk.api
        # The namespace of the bundled plugin is reserved; this one is made here.
        self.plugin = Elastic()
        self.plugin.get_plugin_name = lambda: "example.com/elastic"  # type: ignore[method-assign]
        manager = PluginManager([self.plugin], ControllerVolumeHost(desk.now))
        self.controller = desk.make(ExpansionController, plugins=manager)

    async def set_up(self, grows: bool = True) -> None:
        body = {
            "metadata": {"name": "k"},
            "provisioner": "example.com/elastic",
            "allowVolumeExpansion": grows,
        }
        self.controller.cache(StorageClass).accept(await self.api.create(StorageClass, body))
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "k", "volumeName": "pv"}
        requests = {"resources": {"requests": {"storage": "100Mi"}}}
        claim = {"metadata": {"name": "c"}, "spec": {**spec, **requests}}
        made = await self.api.create(PersistentVolumeClaim, claim, "default")
        status = {"status": {"phase": "Bound", "capacity": {"storage": "100Mi"}}}
        await self.api.patch(PersistentVolumeClaim, "c", status, "default", subresource="status")
        volume = {
            "capacity": {"storage": "100Mi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "k",
            "hostPath": {"path": "/srv/data"},
            "claimRef": {"namespace": "default", "name": "c", "uid": made.uid},
        }
        await self.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": volume})

    async def ask(self, size: str) -> None:
        patch = {"spec": {"resources": {"requests": {"storage": size}}}}
        await self.api.patch(PersistentVolumeClaim, "c", patch, "default")

    async def step(self) -> PersistentVolumeClaim:
        self.controller.cache(PersistentVolumeClaim).accept(
            await self.api.get(PersistentVolumeClaim, "c", "default")
        )
        self.controller.cache(PersistentVolume).accept(await self.api.get(PersistentVolume, "pv"))
        await self.controller.reconcile("default/c")
        return await self.api.get(PersistentVolumeClaim, "c", "default")

    async def capacity(self) -> Any:
        return (await self.api.get(PersistentVolume, "pv")).spec.capacity["storage"]

    async def events(self) -> list[str]:
        writing = asyncio.create_task(self.controller.recorder.run())
        await self.controller.recorder.flush()
        writing.cancel()
        return sorted(event.reason for event in (await self.api.list(Event)).items)


def conditions(claim: PersistentVolumeClaim) -> list[str]:
    return [each.type for each in claim.status.conditions]


def test_first_the_storage_then_the_volume_then_the_node_is_asked(desk: Desk):
    async def scene(desk: Any):
        bench = Bench(desk)
        await bench.set_up()
        await bench.ask("150Mi")
        assert conditions(await bench.step()) == ["Resizing"]
        assert await bench.capacity() == "200Mi"
        assert conditions(await bench.step()) == ["FileSystemResizePending"]
        last = await bench.step()
        assert last.status.capacity["storage"] == "100Mi", "the file system has not grown yet"
        assert bench.plugin.asked == [150 * MIB]
        assert await bench.events() == ["FileSystemResizeRequired", "Resizing"]

    desk(scene)


def test_without_a_file_system_the_claim_has_its_size_at_once(desk: Desk):
    async def scene(desk: Any):
        bench = Bench(desk)
        bench.plugin.on_node = False
        await bench.set_up()
        await bench.ask("150Mi")
        await bench.step()
        done = await bench.step()
        assert done.status.capacity["storage"] == "200Mi"
        assert conditions(done) == []
        assert await bench.events() == ["Resizing", "VolumeResizeSuccessful"]

    desk(scene)


def test_a_class_that_does_not_allow_it_is_named(desk: Desk):
    async def scene(desk: Any):
        bench = Bench(desk)
        await bench.set_up(grows=False)
        await bench.ask("150Mi")
        await bench.step()
        assert bench.plugin.asked == []
        assert await bench.events() == ["VolumeResizeFailed"]

    desk(scene)


def test_a_storage_that_cannot_grow_it_is_quoted_and_asked_again(desk: Desk):
    async def scene(desk: Any):
        bench = Bench(desk)
        await bench.set_up()
        await bench.ask("150Mi")
        bench.plugin.failure = OSError("the shelf is full")
        for _ in range(2):
            with pytest.raises(OSError, match="full"):
                await bench.step()
        assert await bench.events() == ["Resizing", "VolumeResizeFailed"]
        bench.plugin.failure = None
        await bench.step()
        assert await bench.capacity() == "200Mi"

    desk(scene)

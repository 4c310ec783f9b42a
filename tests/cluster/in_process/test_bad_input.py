"""What users get wrong: an event that says so each time, nothing hangs, and the right input then works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from world import World

from mooring.kube.objects import PersistentVolume, StorageClass
from mooring.simulation.parts.array_plugin import DISK

Play = Callable[[Any], Any]


async def works_with(world: World, name: str) -> None:
    """Another pod with a claim of its own is not hindered."""
    await world.claim(f"{name}-claim")
    await world.create_pod(name, f"{name}-claim")
    await world.until(lambda: world.running(name))


async def persistent_volume(world: World, name: str, disk: str) -> None:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disk",
        "flexVolume": {"driver": DISK, "options": {"disk": disk} if disk else {}},
    }
    await world.api.create(PersistentVolume, {"metadata": {"name": name}, "spec": spec})


def test_a_class_that_does_not_exist_is_named_and_waited_for(play: Play):
    async def story(world: World):
        await world.start()
        await world.claim("c", "fast")
        await world.create_pod("p", "c")
        await world.until(lambda: world.event("ProvisioningFailed", '"fast" not found'))
        await works_with(world, "other")
        await world.storage_class("fast")
        await world.until(lambda: world.running("p"))

    play(story)


def test_a_class_whose_parameters_are_wrong_says_which(play: Play):
    async def story(world: World):
        await world.start()
        await world.storage_class("wrong", parameters={"bad": "1"})
        await world.claim("c", "wrong")
        await world.until(lambda: world.event("ProvisioningFailed", "parameter bad"))
        await works_with(world, "other")

    play(story)


def test_a_class_with_a_provisioner_that_nobody_is_says_whom_it_waits_for(play: Play):
    async def story(world: World):
        await world.start()
        await world.storage_class("foreign", "example.org/other")
        await world.claim("c", "foreign")
        await world.until(lambda: world.event("ExternalProvisioning", "example.org/other"))
        await works_with(world, "other")

    play(story)


def test_a_volume_that_the_claim_names_and_that_does_not_exist_is_named_and_waited_for(play: Play):
    async def story(world: World):
        await world.start()
        await world.claim("c", volumeName="pv-absent")
        await world.create_pod("p", "c")
        await world.until(lambda: world.event("FailedBinding", "pv-absent"))
        await works_with(world, "other")
        world.array.disks.add("d")
        await persistent_volume(world, "pv-absent", "d")
        await world.until(lambda: world.running("p"))

    play(story)


def test_a_volume_whose_disk_is_missing_says_so_to_the_pod_until_the_disk_is_there(play: Play):
    async def story(world: World):
        await world.start()
        await persistent_volume(world, "pv", "missing")
        await world.claim("c", volumeName="pv")
        await world.create_pod("p", "c")
        await world.until(lambda: world.event("FailedAttachVolume", "no volume missing"))
        await works_with(world, "other")
        world.array.disks.add("missing")
        await world.until(lambda: world.running("p"))

    play(story)


def test_a_volume_that_does_not_name_its_disk_harms_no_other(play: Play):
    async def story(world: World):
        await world.start()
        await persistent_volume(world, "pv", "")
        await world.claim("c", volumeName="pv")
        await world.create_pod("p", "c")
        await works_with(world, "other")
        await world.until(lambda: world.event("FailedMount", "does not name its disk"))

    play(story)


def test_a_claim_that_does_not_exist_is_named_and_waited_for(play: Play):
    async def story(world: World):
        await world.start()
        await world.create_pod("p", "c")
        await world.until(lambda: world.event("FailedScheduling", '"c" not found'))
        await world.claim("c")
        await world.until(lambda: world.running("p"))

    play(story)


def test_a_storage_that_fails_is_asked_less_and_less(play: Play):
    async def story(world: World):
        await world.start()
        asked = 0

        async def attach(disk: str, node: str) -> None:
            nonlocal asked
            asked += 1
            await asyncio.sleep(1)
            raise TimeoutError("the array does not answer")

        world.array.attach = attach  # type: ignore[method-assign]
        await world.claim("c")
        await world.create_pod("p", "c")
        await world.until(lambda: world.event("FailedAttachVolume", "does not answer"))
        await asyncio.sleep(600)
        assert 8 <= asked <= 14

    play(story)


def test_a_class_that_is_removed_while_claims_wait_for_it_is_waited_for_again(play: Play):
    async def story(world: World):
        await world.start()
        await world.storage_class("later", "example.com/disk", volumeBindingMode="WaitForFirstConsumer")
        await world.claim("c", "later")
        await world.until(lambda: world.event("WaitForFirstConsumer"))
        await world.api.delete(StorageClass, "later")
        await world.create_pod("p", "c")
        await world.until(lambda: world.event("ProvisioningFailed", '"later" not found'))
        await world.storage_class("later")
        await world.until(lambda: world.running("p"))

    play(story)

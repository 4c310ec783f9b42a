"""What users get wrong: an event that says so each time, nothing hangs, and the right input then works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from in_process_cluster import InProcessCluster

from mooring.kube.objects import PersistentVolume, StorageClass
from mooring.simulation.parts.array_plugin import DISK

Play = Callable[[Any], Any]


async def works_with(cluster: InProcessCluster, name: str) -> None:
    """Another pod with a claim of its own is not hindered."""
    await cluster.claim(f"{name}-claim")
    await cluster.create_pod(name, f"{name}-claim")
    await cluster.until(lambda: cluster.running(name))


async def persistent_volume(cluster: InProcessCluster, name: str, disk: str) -> None:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disk",
        "flexVolume": {"driver": DISK, "options": {"disk": disk} if disk else {}},
    }
    await cluster.api.create(PersistentVolume, {"metadata": {"name": name}, "spec": spec})


def test_a_class_that_does_not_exist_is_named_and_waited_for(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.claim("c", "fast")
        await cluster.create_pod("p", "c")
        await cluster.until(lambda: cluster.event("ProvisioningFailed", '"fast" not found'))
        await works_with(cluster, "other")
        await cluster.storage_class("fast")
        await cluster.until(lambda: cluster.running("p"))

    play(story)


def test_a_class_whose_parameters_are_wrong_says_which(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.storage_class("wrong", parameters={"bad": "1"})
        await cluster.claim("c", "wrong")
        await cluster.until(lambda: cluster.event("ProvisioningFailed", "parameter bad"))
        await works_with(cluster, "other")

    play(story)


def test_a_class_with_a_provisioner_that_nobody_is_says_whom_it_waits_for(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.storage_class("foreign", "example.org/other")
        await cluster.claim("c", "foreign")
        await cluster.until(lambda: cluster.event("ExternalProvisioning", "example.org/other"))
        await works_with(cluster, "other")

    play(story)


def test_a_volume_that_the_claim_names_and_that_does_not_exist_is_named_and_waited_for(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.claim("c", volumeName="pv-absent")
        await cluster.create_pod("p", "c")
        await cluster.until(lambda: cluster.event("FailedBinding", "pv-absent"))
        await works_with(cluster, "other")
        cluster.array.disks.add("d")
        await persistent_volume(cluster, "pv-absent", "d")
        await cluster.until(lambda: cluster.running("p"))

    play(story)


def test_a_volume_whose_disk_is_missing_says_so_to_the_pod_until_the_disk_is_there(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await persistent_volume(cluster, "pv", "missing")
        await cluster.claim("c", volumeName="pv")
        await cluster.create_pod("p", "c")
        await cluster.until(lambda: cluster.event("FailedAttachVolume", "no volume missing"))
        await works_with(cluster, "other")
        cluster.array.disks.add("missing")
        await cluster.until(lambda: cluster.running("p"))

    play(story)


def test_a_volume_that_does_not_name_its_disk_harms_no_other(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await persistent_volume(cluster, "pv", "")
        await cluster.claim("c", volumeName="pv")
        await cluster.create_pod("p", "c")
        await works_with(cluster, "other")
        await cluster.until(lambda: cluster.event("FailedMount", "does not name its disk"))

    play(story)


def test_a_claim_that_does_not_exist_is_named_and_waited_for(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.create_pod("p", "c")
        await cluster.until(lambda: cluster.event("FailedScheduling", '"c" not found'))
        await cluster.claim("c")
        await cluster.until(lambda: cluster.running("p"))

    play(story)


def test_a_storage_that_fails_is_asked_less_and_less(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        asked = 0

        async def attach(disk: str, node: str) -> None:
            nonlocal asked
            asked += 1
            await asyncio.sleep(1)
            raise TimeoutError("the array does not answer")

        cluster.array.attach = attach  # type: ignore[method-assign]
        await cluster.claim("c")
        await cluster.create_pod("p", "c")
        await cluster.until(lambda: cluster.event("FailedAttachVolume", "does not answer"))
        await asyncio.sleep(600)
        assert 8 <= asked <= 14

    play(story)


def test_a_class_that_is_removed_while_claims_wait_for_it_is_waited_for_again(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.storage_class("later", "example.com/disk", volumeBindingMode="WaitForFirstConsumer")
        await cluster.claim("c", "later")
        await cluster.until(lambda: cluster.event("WaitForFirstConsumer"))
        await cluster.api.delete(StorageClass, "later")
        await cluster.create_pod("p", "c")
        await cluster.until(lambda: cluster.event("ProvisioningFailed", '"later" not found'))
        await cluster.storage_class("later")
        await cluster.until(lambda: cluster.running("p"))

    play(story)

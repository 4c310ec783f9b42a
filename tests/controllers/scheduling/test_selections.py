"""A node that was taken back from a claim is not chosen again at once."""

from __future__ import annotations

import asyncio

import pytest
from controller_stage import ControllerStage, Play

from mooring.controllers.scheduling.controller import SchedulingController
from mooring.kube.objects import CSINode, Node, PersistentVolumeClaim, Pod, StorageClass
from mooring.volumes.matching import SELECTED_NODE

DRIVER = {
    "metadata": {"name": "n"},
    "spec": {"drivers": [{"name": "csi.example.com", "nodeID": "n", "topologyKeys": []}]},
}
CHOSEN = {"metadata": {"annotations": {SELECTED_NODE: None}}}


async def prepare(stage: ControllerStage) -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    await stage.api.create(Node, {"metadata": {"name": "n"}, "status": ready})
    made = {"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    await stage.api.create(StorageClass, {"metadata": {"name": "made"}, **made})
    spec = {
        "storageClassName": "made",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    await stage.api.create(PersistentVolumeClaim, {"metadata": {"name": "c"}, "spec": spec}, "default")
    volumes = [{"name": "c", "persistentVolumeClaim": {"claimName": "c"}}]
    body = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": body}, "default")


async def taken_back(stage: ControllerStage, seconds: float) -> int:
    """How often a node is chosen while a provisioner takes each choice back at once."""
    number, until = 0, asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < until:
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        if SELECTED_NODE in claim.metadata.annotations:
            number += 1
            await stage.api.patch(PersistentVolumeClaim, "c", CHOSEN, "default")
        await asyncio.sleep(0.01)
    return number


def test_a_choice_that_is_taken_back_again_and_again_is_made_every_ten_seconds(play: Play):
    async def story(stage: ControllerStage):
        await prepare(stage)
        task = asyncio.create_task(stage.make(SchedulingController).run())
        assert 5 <= await taken_back(stage, 60) <= 12
        assert 3 <= await taken_back(stage, 60) <= 7
        task.cancel()

    play(story)


def test_when_a_driver_registers_the_next_choice_does_not_wait(play: Play):
    async def story(stage: ControllerStage):
        await prepare(stage)
        task = asyncio.create_task(stage.make(SchedulingController).run())
        await taken_back(stage, 60)
        node = {"metadata": {"name": "n"}, "spec": {"drivers": []}}
        await stage.api.create(CSINode, node)
        assert await taken_back(stage, 0.5) >= 1
        task.cancel()

    play(story)


@pytest.mark.parametrize("end", ["gone", "another in its place", "placed"])
def test_no_node_is_chosen_for_the_claims_of_a_pod_that_has_gone(play: Play, end: str):
    """The watch of pods is late. A volume would be made where its successor, which wants to be elsewhere, can
    never use it."""

    async def story(stage: ControllerStage):
        await prepare(stage)
        scheduler = stage.make(SchedulingController)
        await stage.fill(scheduler, Node, StorageClass, PersistentVolumeClaim, Pod)
        scheduler.cache(CSINode).accept(await stage.api.create(CSINode, DRIVER))
        pod = await stage.api.get(Pod, "p", "default")
        if end == "placed":
            target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
            binding = {"apiVersion": "v1", "kind": "Binding", **target}
            await stage.api.create_raw(Pod, binding, name="p", namespace="default", sub="binding")
        else:
            await stage.api.delete(Pod, "p", "default", grace_period_seconds=0)
        if end == "another in its place":
            spec = {"nodeSelector": {"zone": "b"}, "containers": [{"name": "c", "image": "i"}]}
            await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
        await scheduler.reconcile(pod.key)
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert SELECTED_NODE not in claim.metadata.annotations

    play(story)

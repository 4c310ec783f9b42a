"""A node that was taken back from a claim is not chosen again at once."""

from __future__ import annotations

import asyncio

from controller_stage import ControllerStage, Play

from mooring.controllers.scheduling.controller import SchedulingController
from mooring.controllers.scheduling.selections import FIRST_S, LONGEST_S, Selections
from mooring.kube.objects import CSINode, Node, PersistentVolumeClaim, Pod, StorageClass
from mooring.volumes.matching import SELECTED_NODE

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
        assert 5 <= await taken_back(stage, 60) <= 10
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
        assert await taken_back(stage, 0.5) == 1
        task.cancel()

    play(story)


def test_the_rest_grows_to_its_longest_and_ends_with_the_claim():
    held = Selections()
    rests: list[float] = []
    for _ in range(6):
        held.note("c", 0.0)
        rests.append(held.rest(["c", "other"], 0.0))
    assert rests == [FIRST_S, 2.0, 4.0, 8.0, LONGEST_S, LONGEST_S]
    assert held.rest(["c"], 4.0) == LONGEST_S - 4.0
    held.forget("c")
    assert held.rest(["c"], 0.0) == 0.0

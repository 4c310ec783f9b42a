"""What is asked of the API server for a claim and for a volume, and what becomes of a lost request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from provisioning_scenes import events, released, restarted, waiting_claim
from requests_sent import Step, brief, lose_each, writes

from mooring.controllers.provisioning.controller import Key
from mooring.kube.errors import Unreachable
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.errors import StorageFull, StorageRefused
from mooring.volumes.matching import SELECTED_NODE

CLAIM, VOLUME = ClaimKey("default/c"), VolumeKey("pv")
Scene = Callable[[ControllerStage], Awaitable[tuple[Any, Key]]]
"""Sets up what there is; returns the controller, and the key that is worked on."""


class Refusing:
    """A storage that makes nothing."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def provision(self) -> PersistentVolume:
        raise self._error


def refuses(controller: Any, error: Exception) -> None:
    (plugin,) = controller._plugins.plugins
    plugin.new_provisioner = lambda _: Refusing(error)


async def it_is_asked_for(stage: ControllerStage) -> tuple[Any, Key]:
    controller, _ = await waiting_claim(stage)
    return controller, CLAIM


async def it_has_a_node(stage: ControllerStage) -> tuple[Any, Key]:
    controller, _ = await waiting_claim(stage, mode="WaitForFirstConsumer")
    await stage.api.create(Node, {"metadata": {"name": "n"}})
    await chosen(stage, controller)
    return controller, CLAIM


async def chosen(stage: ControllerStage, controller: Any) -> None:
    """The scheduler has chosen the node n."""
    annotations = {"metadata": {"annotations": {SELECTED_NODE: "n"}}}
    claim = await stage.api.patch(PersistentVolumeClaim, "c", annotations, "default")
    controller.cache(PersistentVolumeClaim).accept(claim)


async def its_node_has_no_room(stage: ControllerStage) -> tuple[Any, Key]:
    controller, key = await it_has_a_node(stage)
    refuses(controller, StorageFull("no room"))
    return controller, key


async def it_goes_and_is_refused(stage: ControllerStage) -> tuple[Any, Key]:
    controller, _ = await waiting_claim(stage)
    stage.wire.lose(request("POST", "persistentvolumes"))
    with suppress(Unreachable):
        await controller.reconcile(CLAIM)
    await stage.api.delete(PersistentVolumeClaim, "c", "default")
    await stage.fill(controller, PersistentVolumeClaim)
    refuses(controller, StorageRefused("there is no such type"))
    return controller, CLAIM


async def another_has_begun_it(stage: ControllerStage) -> tuple[Any, Key]:
    controller, _ = await waiting_claim(stage)
    refuses(controller, StorageRefused("there is no such type"))
    with suppress(StorageRefused):
        await controller.reconcile(CLAIM)
    return await restarted(stage), CLAIM


async def it_is_made(stage: ControllerStage) -> tuple[Any, Key]:
    controller, _ = await waiting_claim(stage)
    stage.wire.unanswered(request("POST", "persistentvolumes"))
    with suppress(Unreachable):
        await controller.reconcile(CLAIM)
    await stage.fill(controller, PersistentVolume)
    return controller, CLAIM


async def it_is_made_and_not_known_yet(stage: ControllerStage) -> tuple[Any, Key]:
    controller, _ = await waiting_claim(stage)
    stage.wire.unanswered(request("POST", "persistentvolumes"))
    with suppress(Unreachable):
        await controller.reconcile(CLAIM)
    return controller, CLAIM


async def it_was_made_here(stage: ControllerStage) -> tuple[Any, Key]:
    return await released(stage), VOLUME


async def it_is_held(stage: ControllerStage) -> tuple[Any, Key]:
    controller = await released(stage)
    held = {"metadata": {"finalizers": ["mooring.dev/provisioned", "example.com/hold"]}}
    controller.cache(PersistentVolume).accept(await stage.api.patch(PersistentVolume, "pv", held))
    return controller, VOLUME


async def an_administrator_made_it(stage: ControllerStage) -> tuple[Any, Key]:
    return await released(stage, by=""), VOLUME


async def it_is_to_be_emptied(stage: ControllerStage) -> tuple[Any, Key]:
    return await released(stage, policy="Recycle"), VOLUME


async def nothing_deletes_it(stage: ControllerStage) -> tuple[Any, Key]:
    return await released(stage, by="", nfs={"server": "s", "path": "/p"}), VOLUME


async def it_is_retained(stage: ControllerStage) -> tuple[Any, Key]:
    controller = await released(stage, policy="Retain")
    held = {"metadata": {"finalizers": ["mooring.dev/provisioned"]}}
    await stage.api.patch(PersistentVolume, "pv", held)
    await stage.api.delete(PersistentVolume, "pv")
    controller.cache(PersistentVolume).accept(await stage.api.get(PersistentVolume, "pv"))
    return controller, VOLUME


BEGIN = SIGN = END = "PATCH persistentvolumeclaims/c, unchanged"
MADE = "POST persistentvolumes pvc"
EMPTIED = RELEASED = "PATCH persistentvolumes/pv, unchanged"
GONE = "DELETE persistentvolumes/pv, the same"
FAILED = "PATCH persistentvolumes/pv/status, the same"
SCENES: list[Any] = [
    pytest.param(scene, expected, id=scene.__name__.replace("_", " "))
    for scene, expected in (
        (it_is_asked_for, [BEGIN, MADE, END]),
        (it_has_a_node, [BEGIN, MADE, END]),
        (its_node_has_no_room, [BEGIN, END]),
        (it_goes_and_is_refused, [END]),
        (another_has_begun_it, [SIGN, MADE, END]),
        (it_is_made, [END]),
        (it_is_made_and_not_known_yet, [MADE, END]),
        (it_was_made_here, [GONE]),
        (it_is_held, [RELEASED, GONE]),
        (an_administrator_made_it, [GONE]),
        (it_is_to_be_emptied, [EMPTIED, RELEASED]),
        (nothing_deletes_it, [FAILED]),
        (it_is_retained, [RELEASED]),
    )
]


@pytest.mark.parametrize(("scene", "expected"), SCENES)
def test_what_is_asked_for_is_refused_upon_anything_but_what_was_read(
    play: Play, scene: Scene, expected: list[str]
):
    async def story(stage: ControllerStage):
        controller, key = await scene(stage)
        sent = writes(stage.wire)
        with suppress(StorageFull, StorageRefused):
            await controller.reconcile(key)
        assert [brief(each) for each in sent] == expected

    play(story)


@pytest.mark.parametrize(("scene", "expected"), SCENES)
def test_a_key_comes_back_whichever_of_its_requests_has_no_answer(
    play: Play, scene: Scene, expected: list[str]
):
    """Else what was left undone would stay so until something else changed."""

    async def begin(stage: ControllerStage) -> Step:
        controller, key = await scene(stage)
        return lambda: controller.reconcile(key)

    lose_each(play, begin, (StorageFull, StorageRefused))


@pytest.mark.parametrize("scene", [it_has_a_node, it_was_made_here, an_administrator_made_it])
def test_an_api_server_that_does_not_answer_is_no_failure_of_the_storage(play: Play, scene: Scene):
    async def story(stage: ControllerStage, lost: int | None = None) -> int:
        controller, key = await scene(stage)
        before = len(stage.wire.sent)
        if lost is not None:
            reads = count()
            stage.wire.lose(lambda each: each.method == "GET" and next(reads) == lost)
            with pytest.raises(Unreachable):
                await controller.reconcile(key)
            assert await events(stage, controller) == []
            assert len(stage.array.disks) == (key is VOLUME)
            return 0
        await controller.reconcile(key)
        return sum(each.startswith("GET") for each in stage.wire.sent[before:])

    for lost in range(play(story)):
        play(lambda stage, lost=lost: story(stage, lost))

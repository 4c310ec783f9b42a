"""A claim that ends is kept by pods that may have its volume, and by no others; a volume by its claim."""

from __future__ import annotations

import pytest
from binding_scenes import BOUND, COMPLETED, add_claim, add_pod, add_volume, on
from controller_stage import ControllerStage, Play

from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, Pod

CLAIM, VOLUME = ClaimKey("default/c"), VolumeKey("pv")
OTHER = {"namespace": "default", "name": "other", "uid": "o"}


@pytest.mark.parametrize(("claim", "node", "kept"), [("c", "n", True), ("c", "", False), ("d", "n", False)])
def test_a_claim_that_ends_is_kept_by_a_pod_that_has_it_and_a_node(
    play: Play, claim: str, node: str, kept: bool
):
    async def story(stage: ControllerStage):
        await add_claim(stage)
        await add_pod(stage, claim, node)
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        controller = await on(stage)
        await controller.reconcile(CLAIM)
        assert (await stage.api.find(PersistentVolumeClaim, "c", "default") is not None) is kept

    play(story)


def test_the_api_server_is_not_asked_for_pods_while_the_cache_shows_one_that_uses_the_claim(play: Play):
    async def story(stage: ControllerStage):
        await add_claim(stage)
        await add_pod(stage)
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        controller = await on(stage)
        await stage.fill(controller, Pod)
        before = len(stage.wire.sent)
        await controller.reconcile(CLAIM)
        assert stage.wire.sent[before:] == []

    play(story)


@pytest.mark.parametrize(
    ("annotations", "reference", "kept"),
    [(COMPLETED, None, True), ({}, None, False), (COMPLETED, OTHER, False)],
)
def test_a_volume_that_ends_is_kept_for_a_claim_that_was_bound_to_it_and_has_not_lost_it(
    play: Play, annotations: dict[str, str], reference: dict[str, str] | None, kept: bool
):
    async def story(stage: ControllerStage):
        await add_claim(stage, {}, annotations, volumeName="pv")
        await add_volume(stage, "Released" if reference else "Available", claimRef=reference)
        await stage.api.delete(PersistentVolume, "pv")
        await (await on(stage)).reconcile(VOLUME)
        assert (await stage.api.find(PersistentVolume, "pv") is not None) is kept

    play(story)


@pytest.mark.parametrize("known", ["nothing", "its predecessor"])
def test_a_volume_is_not_released_because_a_late_cache_does_not_show_its_claim(play: Play, known: str):
    """What is released is deleted, with its data."""

    async def story(stage: ControllerStage):
        if known == "its predecessor":
            await add_claim(stage, held=())
        controller = await on(stage)
        if known == "its predecessor":
            await stage.api.delete(PersistentVolumeClaim, "c", "default")
        reference = await add_claim(stage, BOUND, COMPLETED, volumeName="pv")
        await add_volume(stage, "Bound", claimRef=reference)
        await stage.fill(controller, PersistentVolume)
        await controller.reconcile(VOLUME)
        assert (await stage.api.get(PersistentVolume, "pv")).status.phase == "Bound"

    play(story)


def test_a_volume_is_released_although_its_claim_has_a_successor_of_that_name(play: Play):
    async def story(stage: ControllerStage):
        await add_claim(stage)
        await add_volume(stage, "Bound", claimRef={"namespace": "default", "name": "c", "uid": "former"})
        await (await on(stage)).reconcile(VOLUME)
        assert (await stage.api.get(PersistentVolume, "pv")).status.phase == "Released"

    play(story)


@pytest.mark.parametrize("reserved", [True, False])
def test_the_api_server_is_asked_for_a_claim_only_where_the_volume_may_have_lost_it(
    play: Play, reserved: bool
):
    async def story(stage: ControllerStage):
        reference = await add_claim(stage, BOUND, COMPLETED, volumeName="pv")
        if reserved:
            await add_volume(stage, claimRef={**reference, "uid": ""})
        else:
            await add_volume(stage, "Bound", claimRef=reference)
        controller = await on(stage)
        before = len(stage.wire.sent)
        await controller.reconcile(VOLUME)
        assert stage.wire.sent[before:] == []

    play(story)

"""A claim that ends is kept by pods that may have its volume, and by no others."""

from __future__ import annotations

import pytest
from binding_scenes import add_claim, add_pod, on
from controller_stage import ControllerStage, Play

from mooring.kube.keys import ClaimKey
from mooring.kube.objects import PersistentVolumeClaim, Pod

CLAIM = ClaimKey("default/c")


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

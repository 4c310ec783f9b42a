"""What a Deployment's status says beside its numbers, also where others have written to it."""

from __future__ import annotations

from typing import Any

import pytest
from controller_stage import ControllerStage, Play

from mooring.controllers.replicaset.deployment import DeploymentController
from mooring.kube.objects import Deployment

TEMPLATE = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SPEC = {"replicas": 1, "selector": {"matchLabels": {"app": "d"}}, "template": TEMPLATE}
BODY = {"metadata": {"name": "d"}, "spec": SPEC}
FROZEN = {
    "type": "example.com/Frozen",
    "status": "True",
    "reason": "Holiday",
    "lastUpdateTime": "2026-01-01T00:00:00Z",
}
FAILED = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate"}


async def with_condition(stage: ControllerStage, condition: dict[str, Any]) -> DeploymentController:
    """A controller that has written the status of a Deployment, to which another has added a condition."""
    await stage.api.create(Deployment, BODY, "default")
    controller = stage.make(DeploymentController)
    for _ in range(2):  # the second time with the generation that the first one's annotation has made
        await stage.fill(controller, Deployment)
        await controller.reconcile("default/d")
    patch = {"status": {"conditions": [condition]}}
    await stage.api.patch(Deployment, "d", patch, "default", subresource="status", strategy="strategic")
    await stage.fill(controller, Deployment)
    return controller


@pytest.mark.parametrize(
    ("condition", "stays"),
    [(FROZEN, True), (FAILED, False)],
    ids=["another's", "one of upstream's controller, which is not here to take it back"],
)
def test_a_condition_of_others_stays_and_is_not_written_again_and_again(
    play: Play, condition: dict[str, Any], stays: bool
):
    async def story(stage: ControllerStage):
        controller = await with_condition(stage, condition)
        await controller.reconcile("default/d")
        found = await stage.api.get(Deployment, "d", "default")
        held = {each.type: each for each in found.status.conditions}
        assert (condition["type"] in held) is stays
        assert {"Available", "Progressing"} <= held.keys()
        if stays:
            assert held[FROZEN["type"]].reason == "Holiday"
            assert held[FROZEN["type"]].last_update_time == FROZEN["lastUpdateTime"]
        await controller.reconcile("default/d")
        again = await stage.api.get(Deployment, "d", "default")
        assert again.metadata.resource_version == found.metadata.resource_version

    play(story)


def test_a_condition_without_times_keeps_no_rollout_waiting(play: Play):
    async def story(stage: ControllerStage):
        message = "is progressing."
        bare = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}
        timeless = {**bare, "lastUpdateTime": None, "lastTransitionTime": None}
        controller = await with_condition(stage, timeless)
        (progressing,) = (
            each
            for each in controller.cache(Deployment).items()[0].status.conditions
            if each.type == "Progressing"
        )
        assert progressing.message.endswith(message)
        assert progressing.last_update_time is None
        await controller.reconcile("default/d")
        found = await stage.api.get(Deployment, "d", "default")
        assert all(each.last_update_time and each.last_transition_time for each in found.status.conditions)

    play(story)

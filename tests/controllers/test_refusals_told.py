"""What the API server refuses a controller is told where users look, in the API server's words."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from provisioning_scenes import waiting_claim
from refusals import WHY, refuse

from mooring.controllers.ephemeral.controller import EphemeralController
from mooring.kube.errors import Forbidden
from mooring.kube.keys import ClaimKey
from mooring.kube.objects import Event, Pod
from mooring.simulation.parts.faulty_transport import request

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
EPHEMERAL = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}


async def told(stage: ControllerStage, controller: Any, key: Any) -> list[tuple[str, str, bool]]:
    """The events after two tries that are refused: of what, reason, whether it says why."""
    for _ in range(2):
        with pytest.raises(Forbidden):
            await controller._reconcile(key)
    writing = asyncio.create_task(controller.recorder.run())
    await controller.recorder.flush()
    writing.cancel()
    events = (await stage.api.list(Event)).items
    return [(each.involved_object.name, each.reason, WHY in each.message) for each in events]


def test_a_pod_says_that_a_quota_refuses_the_claim_of_its_ephemeral_volume(play: Play):
    async def story(stage: ControllerStage):
        spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [EPHEMERAL]}
        await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
        controller = stage.make(EphemeralController)
        await stage.fill(controller, Pod)
        refuse(stage, request("POST", "persistentvolumeclaims"))
        assert await told(stage, controller, "default/p") == [("p", "FailedBinding", True)]

    play(story)


def test_a_claim_says_that_the_volume_that_was_made_for_it_may_not_be_stored(play: Play):
    async def story(stage: ControllerStage):
        controller, _ = await waiting_claim(stage)
        refuse(stage, request("POST", "persistentvolumes"))
        found = await told(stage, controller, ClaimKey("default/c"))
        assert ("c", "ProvisioningFailed", True) in found

    play(story)


def test_a_refusal_that_lasts_is_told_again_when_its_event_has_expired(play: Play):
    """The API server keeps events for an hour."""

    async def story(stage: ControllerStage):
        controller, _ = await waiting_claim(stage)
        refuse(stage, request("POST", "persistentvolumes"))
        for _ in range(2):
            assert ("c", "ProvisioningFailed", True) in await told(stage, controller, ClaimKey("default/c"))
            for each in (await stage.api.list(Event)).items:
                await stage.api.delete(Event, each.name, each.namespace)

    play(story)

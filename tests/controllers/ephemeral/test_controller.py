"""The ephemeral volume controller: what it does where its cache is old."""

from __future__ import annotations

import pytest
from controller_stage import ControllerStage, Play

from mooring.controllers.ephemeral.controller import EphemeralController
from mooring.kube.objects import PersistentVolumeClaim, Pod

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
POD = {
    "metadata": {"name": "p"},
    "spec": {
        "containers": [{"name": "main", "image": "app"}],
        "volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}],
    },
}


@pytest.mark.parametrize("gone", [False, True])
def test_a_claim_is_made_only_for_a_pod_that_is_still_there(play: Play, gone: bool):
    async def story(stage: ControllerStage) -> bool:
        await stage.api.create(Pod, POD, "default")
        controller = stage.make(EphemeralController)
        await stage.fill(controller, Pod)
        if gone:
            await stage.api.delete(Pod, "p", "default", grace_period_seconds=0)
        await controller.reconcile("default/p")
        return await stage.api.find(PersistentVolumeClaim, "p-data", "default") is not None

    assert play(story) is not gone

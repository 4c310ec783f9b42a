"""What the API server refuses a controller is told where users look, in the API server's words."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from binding_scenes import add_claim, add_volume
from controller_stage import ControllerStage, Play
from provisioning_scenes import waiting_claim
from refusals import WHY, refuse
from tests.controllers.expansion.test_controller import ResizerStage
from tests.controllers.modification.test_controller import ModifierStage
from tests.controllers.scheduling.test_claims import prepare
from tests.controllers.snapshots.test_roles import SnapshotHalves

from mooring.controllers.binding.controller import BindingController
from mooring.controllers.ephemeral.controller import EphemeralController
from mooring.controllers.scheduling.controller import SchedulingController
from mooring.kube.errors import Forbidden
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import Event, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.kube.objects.snapshots import VolumeSnapshotContent
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


def test_a_claim_says_that_its_status_may_not_say_that_it_grows(play: Play):
    async def story(stage: ResizerStage):
        await stage.set_up()
        await stage.ask("950Mi")
        await stage.fill(stage.controller, PersistentVolumeClaim, PersistentVolume)
        refuse(stage, request("PATCH", "persistentvolumeclaims/c/status"))
        found = await told(stage, stage.controller, "default/c")
        assert ("c", "VolumeResizeFailed", True) in found

    play(story, stage=ResizerStage)


def test_a_claim_says_that_its_status_may_not_say_that_it_is_modified(play: Play):
    async def story(stage: ModifierStage):
        await stage.set_up()
        await stage.fill(stage.controller, PersistentVolumeClaim, PersistentVolume)
        refuse(stage, request("PATCH", "persistentvolumeclaims/c/status"))
        found = await told(stage, stage.controller, "default/c")
        assert ("c", "VolumeModifyFailed", True) in found

    play(story, stage=ModifierStage)


def test_a_snapshot_says_that_its_content_may_not_be_made(play: Play):
    async def story(stage: SnapshotHalves):
        await stage.set_up()
        await stage.fill(stage.first, *(informer.kind for informer in stage.first.caches))
        refuse(stage, request("POST", "volumesnapshotcontents"))
        assert ("s", "SnapshotFailed", True) in await told(stage, stage.first, "default/s")

    play(story, stage=SnapshotHalves)


def test_a_content_says_that_what_is_begun_may_not_be_stored_and_so_does_its_snapshot(play: Play):
    async def story(stage: SnapshotHalves):
        await stage.set_up()
        await stage.ask()
        content = await stage.content()
        assert content is not None
        await stage.fill(stage.second, VolumeSnapshotContent)
        refuse(stage, request("PATCH", f"volumesnapshotcontents/{content.name}", "being-created"))
        found = await told(stage, stage.second, content.name)
        assert (content.name, "SnapshotFailed", True) in found
        await stage.ask()
        snapshot = await stage.snapshot()
        assert snapshot is not None and snapshot.status.error is not None
        assert WHY in (snapshot.status.error.message or "")

    play(story, stage=SnapshotHalves)


def test_a_pod_says_that_it_may_not_be_bound(play: Play):
    async def story(stage: ControllerStage):
        await prepare(stage, {}, {})
        controller = stage.make(SchedulingController)
        await stage.fill(controller, *(informer.kind for informer in controller.caches))
        refuse(stage, request("POST", "pods/p/binding"))
        assert ("p", "FailedScheduling", True) in await told(stage, controller, "default/p")

    play(story)


@pytest.mark.parametrize(
    ("phase", "key", "about"), [("Available", ClaimKey("default/c"), "c"), ("", VolumeKey("pv"), "pv")]
)
def test_a_claim_and_a_volume_say_that_they_may_not_be_bound(play: Play, phase: str, key: Any, about: str):
    async def story(stage: ControllerStage):
        await add_volume(stage, phase=phase)
        await add_claim(stage)
        controller = stage.make(BindingController)
        await stage.fill(controller, PersistentVolume, PersistentVolumeClaim)
        refuse(stage, request("PATCH", "persistentvolumes/pv"))
        assert (about, "FailedBinding", True) in await told(stage, controller, key)

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

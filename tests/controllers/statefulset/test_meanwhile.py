"""What becomes known while a step of a set writes counts for what the step does next."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from controller_stage import ControllerStage, Play
from set_scenes import KEY, add_set, change_set, on, settled

from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.controllers.statefulset.decide import POD_NAME
from mooring.kube.errors import Conflict
from mooring.kube.objects import PersistentVolumeClaim, Pod, StatefulSet
from mooring.simulation.parts.faulty_transport import Fault, Match, request

Begun = tuple[asyncio.Task[None], Fault]
ANOTHER = {"metadata": {"annotations": {"edition": "2"}}}
UNREADY = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
UNNAMED = {"metadata": {"labels": {POD_NAME: None}}}
HELD = {"metadata": {"finalizers": ["example.com/hold"]}}
NAMES_A_POD = request("PATCH", "pods/db-0")
MAKES_A_CLAIM = request("POST", "persistentvolumeclaims", "data-db-0")


async def begun(stage: ControllerStage, controller: StatefulSetController, match: Match) -> Begun:
    """A step of the set that waits for the answer to this request; and what lets it go on."""
    held = stage.wire.hold(match)
    step = asyncio.create_task(controller.reconcile(KEY))
    await held.arrived.wait()
    return step, held


async def know(stage: ControllerStage, controller: StatefulSetController, name: str) -> None:
    """The controller's watch tells of the pod as it is now."""
    controller.cache(Pod).accept(await stage.api.get(Pod, name, "default"))


def test_an_update_takes_no_pod_down_beside_one_that_became_unready_meanwhile(play: Play):
    """maxUnavailable is 1. The answer to the write of a label may be seconds away."""

    async def story(stage: ControllerStage):
        await add_set(stage, 3)
        await settled(stage)
        await stage.api.patch(Pod, "db-0", UNNAMED, "default")
        await change_set(stage, template=ANOTHER)
        controller = await on(stage)
        step, held = await begun(stage, controller, NAMES_A_POD)
        await stage.api.patch(Pod, "db-1", UNREADY, "default", subresource="status")
        await know(stage, controller, "db-1")
        held.release()
        await step
        assert not [sent for sent in stage.wire.sent if sent.startswith("DELETE") and "/pods/" in sent]

    play(story)


async def waiting_for_claims(stage: ControllerStage) -> StatefulSetController:
    """A controller that knows two pods whose claims are gone, and the first has lost its label."""
    await add_set(stage, 2, podManagementPolicy="Parallel")
    await (await on(stage)).reconcile(KEY)
    await stage.api.patch(Pod, "db-0", UNNAMED, "default")
    await stage.api.patch(Pod, "db-1", HELD, "default")
    for name in ("data-db-0", "data-db-1"):
        await stage.api.patch(PersistentVolumeClaim, name, {"metadata": {"finalizers": None}}, "default")
        await stage.api.delete(PersistentVolumeClaim, name, "default")
    return await on(stage)


async def scaled_meanwhile(stage: ControllerStage, before: int, after: int) -> None:
    """A step of the set, which wants something else while the step gives a pod its label back."""
    await stage.api.patch(Pod, "db-0", UNNAMED, "default")
    await change_set(stage, replicas=before)
    controller = await on(stage)
    step, held = await begun(stage, controller, NAMES_A_POD)
    controller.cache(StatefulSet).accept(await change_set(stage, replicas=after))
    held.release()
    with contextlib.suppress(Conflict):
        await step


@pytest.mark.parametrize("match", [NAMES_A_POD, MAKES_A_CLAIM])
def test_no_claim_is_made_for_a_pod_that_began_to_end_meanwhile(play: Play, match: Match):
    """A volume would be made that nothing uses (61269 of the swarm)."""

    async def story(stage: ControllerStage):
        controller = await waiting_for_claims(stage)
        step, held = await begun(stage, controller, match)
        await stage.api.delete(Pod, "db-1", "default")
        await know(stage, controller, "db-1")
        held.release()
        await step
        claims = [each.name for each in (await stage.api.list(PersistentVolumeClaim)).items]
        assert claims == ["data-db-0"]

    play(story)


def test_no_pod_is_asked_for_that_another_controller_has_made_meanwhile(play: Play):
    """Nor are its claims, for which it does not wait any more (88003 of the swarm)."""

    async def story(stage: ControllerStage):
        await add_set(stage, 2, podManagementPolicy="Parallel")
        controller = await on(stage)
        step, held = await begun(stage, controller, MAKES_A_CLAIM)
        await settled(stage)
        await know(stage, controller, "db-1")
        stage.wire.sent.clear()
        held.release()
        with contextlib.suppress(Conflict):
            await step
        assert not [sent for sent in stage.wire.sent if sent.startswith("POST") and "claims" in sent]

    play(story)


def test_no_pod_is_scaled_away_that_is_wanted_again_meanwhile(play: Play):
    """It would take its claim with it, and what is there."""

    async def story(stage: ControllerStage):
        await add_set(stage, 2, persistentVolumeClaimRetentionPolicy={"whenScaled": "Delete"})
        await settled(stage)
        await scaled_meanwhile(stage, 1, 2)
        assert not [sent for sent in stage.wire.sent if sent.startswith("DELETE") and "/pods/" in sent]
        await (await on(stage)).reconcile(KEY)
        claim = await stage.api.get(PersistentVolumeClaim, "data-db-1", "default")
        assert claim.metadata.owner_references == ()

    play(story)


def test_no_pod_is_made_with_a_claim_that_stays_when_it_is_not_wanted_any_more(play: Play):
    async def story(stage: ControllerStage):
        await add_set(stage, 1)
        await settled(stage)
        await scaled_meanwhile(stage, 2, 1)
        claims = [each.name for each in (await stage.api.list(PersistentVolumeClaim)).items]
        assert claims == ["data-db-0"]

    play(story)


def test_a_controller_that_has_stood_by_scales_no_pod_away_that_is_wanted_again(play: Play):
    """Its watch of sets stood still while its predecessor scaled down, and up again: the pod would go, and
    its claim with it."""

    async def story(stage: ControllerStage):
        policy = {"whenScaled": "Delete", "whenDeleted": "Retain"}
        await add_set(stage, 1, persistentVolumeClaimRetentionPolicy=policy)
        await settled(stage)
        late = await on(stage)
        await change_set(stage, replicas=2)
        await settled(stage)
        await stage.fill(late, Pod, PersistentVolumeClaim)
        with pytest.raises(Conflict):
            await late.reconcile(KEY)
        assert not (await stage.api.get(Pod, "db-1", "default")).deleting
        claim = await stage.api.get(PersistentVolumeClaim, "data-db-1", "default")
        assert not claim.metadata.owner_references

    play(story)

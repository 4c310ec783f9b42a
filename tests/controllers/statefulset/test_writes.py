"""What one step of a set asks of the API server, and in which order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from controller_stage import ControllerStage, Play
from requests_sent import Step, brief, lose_each, writes
from set_scenes import KEY, add_set, change_set, on, settled

from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.controllers.statefulset.decide import POD_NAME
from mooring.kube.objects import PersistentVolumeClaim, Pod

Scene = Callable[[ControllerStage], Awaitable[StatefulSetController]]
ANOTHER = {"metadata": {"annotations": {"edition": "2"}}}
OWNED = {"whenDeleted": "Delete", "whenScaled": "Delete"}


async def it_is_new(stage: ControllerStage) -> StatefulSetController:
    await add_set(stage)
    return await on(stage)


async def it_is_smaller(stage: ControllerStage) -> StatefulSetController:
    await add_set(stage, 2, persistentVolumeClaimRetentionPolicy=OWNED)
    await settled(stage)
    await change_set(stage, replicas=1)
    return await on(stage)


async def it_is_to_have_its_claims(stage: ControllerStage) -> StatefulSetController:
    await add_set(stage)
    await settled(stage)
    await change_set(stage, persistentVolumeClaimRetentionPolicy=OWNED)
    return await on(stage)


async def it_is_another(stage: ControllerStage) -> StatefulSetController:
    await add_set(stage)
    await settled(stage)
    await change_set(stage, template=ANOTHER)
    return await on(stage)


async def it_has_outlived_a_revision(stage: ControllerStage) -> StatefulSetController:
    await it_is_another(stage)
    await settled(stage)
    await change_set(stage, revisionHistoryLimit=0)
    return await on(stage)


async def all_is_to_be_mended(stage: ControllerStage) -> StatefulSetController:
    """The template is another; db-0 has lost its owner and the label of its name, db-1 waits for a claim that
    is gone, db-2 is gone; and the claims are to go with the set."""
    await add_set(stage, 3, podManagementPolicy="Parallel")
    await settled(stage)
    await change_set(stage, template=ANOTHER, persistentVolumeClaimRetentionPolicy=OWNED)
    lost = {"metadata": {"ownerReferences": None, "labels": {POD_NAME: None}}}
    await stage.api.patch(Pod, "db-0", lost, "default")
    pending = {"status": {"phase": "Pending"}}
    await stage.api.patch(Pod, "db-1", pending, "default", subresource="status")
    unprotected = {"metadata": {"finalizers": None}}
    await stage.api.patch(PersistentVolumeClaim, "data-db-1", unprotected, "default")
    await stage.api.delete(PersistentVolumeClaim, "data-db-1", "default")
    await stage.api.delete(Pod, "db-2", "default", grace_period_seconds=0)
    return await on(stage)


async def nothing_is_to_be_done(stage: ControllerStage) -> StatefulSetController:
    await add_set(stage)
    return await settled(stage)


SCENES: list[tuple[Scene, list[str]]] = [
    (
        it_is_new,
        [
            "POST controllerrevisions db",
            "POST persistentvolumeclaims data-db-0",
            "POST pods db-0",
            "PATCH statefulsets/db/status, unchanged",
        ],
    ),
    (
        it_is_smaller,
        [
            "PATCH persistentvolumeclaims/data-db-1, unchanged",  # before the pod goes, it goes with the pod
            "DELETE pods/db-1, the same",
            "PATCH statefulsets/db/status, unchanged",
        ],
    ),
    (
        it_is_to_have_its_claims,
        [
            "PATCH persistentvolumeclaims/data-db-0, unchanged",
            "PATCH statefulsets/db/status, unchanged",
        ],
    ),
    (
        it_is_another,
        [
            "POST controllerrevisions db",
            "DELETE pods/db-0, the same",
            "PATCH statefulsets/db/status, unchanged",
        ],
    ),
    (
        it_has_outlived_a_revision,
        ["PATCH statefulsets/db/status, unchanged", "DELETE controllerrevisions/db, the same"],
    ),
    (
        all_is_to_be_mended,
        [
            "POST controllerrevisions db",
            "PATCH pods/db-0, unchanged",  # it is the set's again
            "PATCH pods/db-0, unchanged",  # and has its name
            "PATCH persistentvolumeclaims/data-db-0, unchanged",
            "PATCH persistentvolumeclaims/data-db-2, unchanged",
            "POST persistentvolumeclaims data-db-1",
            "POST pods db-2",
            "PATCH statefulsets/db/status, unchanged",
        ],
    ),
    (nothing_is_to_be_done, []),
]
NAMED = [pytest.param(scene, expected, id=scene.__name__.replace("_", " ")) for scene, expected in SCENES]


@pytest.mark.parametrize(("scene", "expected"), NAMED)
def test_one_step_goes_from_what_is_known_to_what_is_said(play: Play, scene: Scene, expected: list[str]):
    """The revision is there before its pods; what is the set's, before it is counted; claims, before pods go
    or come; and the status tells of what was done."""

    async def story(stage: ControllerStage):
        controller = await scene(stage)
        sent = writes(stage.wire)
        await controller.reconcile(KEY)
        assert [brief(each) for each in sent] == expected

    play(story)


@pytest.mark.parametrize(("scene", "expected"), NAMED)
def test_a_set_comes_back_whichever_of_its_requests_has_no_answer(
    play: Play, scene: Scene, expected: list[str]
):
    """Else what was left undone would stay so until something else changed."""

    async def begin(stage: ControllerStage) -> Step:
        controller = await scene(stage)
        return lambda: controller.reconcile(KEY)

    lose_each(play, begin)


@pytest.mark.parametrize("scene", [it_is_new, it_is_to_have_its_claims, nothing_is_to_be_done])
def test_what_is_done_is_not_asked_for_again(play: Play, scene: Scene):
    """Although no watch has told of it yet."""

    async def story(stage: ControllerStage):
        controller = await scene(stage)
        await controller.reconcile(KEY)
        sent = writes(stage.wire)
        await controller.reconcile(KEY)
        assert sent == []

    play(story)

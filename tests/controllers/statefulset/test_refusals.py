"""What the API server refuses of one pod or claim of a set keeps no other waiting, and the set says it."""

from __future__ import annotations

from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from refusals import WHY, refuse
from requests_sent import told
from set_scenes import KEY, add_set, change_set, on, settled

from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.kube.errors import Forbidden
from mooring.kube.objects import PersistentVolumeClaim, Pod
from mooring.simulation.parts.faulty_transport import Match, request

WITH_PODS = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"}}
PARALLEL: dict[str, Any] = {"podManagementPolicy": "Parallel"}


async def refused(stage: ControllerStage, match: Match) -> StatefulSetController:
    """A controller that knows everything now, of which what matches is refused, has taken a step."""
    controller = await on(stage)
    refuse(stage, match)
    with pytest.raises(Forbidden, match=WHY):
        await controller.reconcile(KEY)
    return controller


async def reasons(stage: ControllerStage, controller: StatefulSetController) -> set[str]:
    """Of the events of the set that say why."""
    events = await told(stage, controller)
    return {reason for about, _, reason, message in events if about == "StatefulSet db" and WHY in message}


async def pods(stage: ControllerStage) -> list[str]:
    return [each.name for each in (await stage.api.list(Pod)).items if not each.deleting]


async def claim_is_missing(stage: ControllerStage, name: str) -> None:
    """A pod waits that was made when a late cache showed its claim."""
    unprotected = {"metadata": {"finalizers": None}}
    await stage.api.patch(PersistentVolumeClaim, name, unprotected, "default")
    await stage.api.delete(PersistentVolumeClaim, name, "default")
    waits = {"status": {"phase": "Pending"}}
    pod = name.removeprefix("data-")
    await stage.api.patch(Pod, pod, waits, "default", subresource="status")


def test_a_claim_that_may_not_be_made_keeps_neither_another_nor_the_sets_pods(play: Play):
    async def story(stage: ControllerStage):
        await add_set(stage, 3, **PARALLEL)
        await settled(stage)
        for ordinal in (0, 1):
            await claim_is_missing(stage, f"data-db-{ordinal}")
        await stage.api.delete(Pod, "db-2", "default", grace_period_seconds=0)
        controller = await refused(stage, request("POST", "persistentvolumeclaims", "data-db-0"))
        assert await stage.api.find(PersistentVolumeClaim, "data-db-1", "default") is not None
        assert await pods(stage) == ["db-0", "db-1", "db-2"]
        assert await reasons(stage, controller) == {"FailedCreate"}

    play(story)


def test_a_pod_whose_labels_may_not_be_written_keeps_no_other_from_its_labels_or_from_being_made(play: Play):
    async def story(stage: ControllerStage):
        await add_set(stage, 3)
        await settled(stage)
        unnamed = {"metadata": {"labels": {"statefulset.kubernetes.io/pod-name": None}}}
        for name in ("db-0", "db-1"):
            await stage.api.patch(Pod, name, unnamed, "default")
        await stage.api.delete(Pod, "db-2", "default", grace_period_seconds=0)
        controller = await refused(stage, request("PATCH", "pods/db-0", "pod-name"))
        named = await stage.api.get(Pod, "db-1", "default")
        assert named.metadata.labels["statefulset.kubernetes.io/pod-name"] == "db-1"
        assert await pods(stage) == ["db-0", "db-1", "db-2"]
        assert await reasons(stage, controller) == {"FailedUpdate"}

    play(story)


def test_a_pod_stays_until_its_claim_has_the_owner_with_which_it_is_to_go_and_keeps_no_other(play: Play):
    """The claim would stay for ever."""

    async def story(stage: ControllerStage):
        await add_set(stage, 3, **PARALLEL, **WITH_PODS)
        await settled(stage)
        await change_set(stage, replicas=1)
        controller = await refused(stage, request("PATCH", "persistentvolumeclaims/data-db-1"))
        assert await pods(stage) == ["db-0", "db-1"]
        claim = await stage.api.get(PersistentVolumeClaim, "data-db-2", "default")
        assert claim.controller is not None
        assert await reasons(stage, controller) == {"FailedUpdate"}

    play(story)


def test_no_claim_goes_with_its_pod_that_is_to_stay_but_may_not_be_written(play: Play):
    """It was to go with its pod, which was scaled away; the user has taken that back, and updates the set."""

    async def story(stage: ControllerStage):
        await add_set(stage, 2, **WITH_PODS)
        await settled(stage)
        await change_set(stage, replicas=1)
        controller = await on(stage)
        refusals = refuse(stage, request("DELETE", "pods/db-1"))
        with pytest.raises(Forbidden):
            await controller.reconcile(KEY)
        refusals.end()
        template = {"metadata": {"labels": {"app": "db"}}}
        containers = {"spec": {"containers": [{"name": "c", "image": "newer"}]}}
        await change_set(stage, replicas=2, template={**template, **containers})
        await refused(stage, request("PATCH", "persistentvolumeclaims/data-db-1"))
        assert await pods(stage) == ["db-0", "db-1"]

    play(story)

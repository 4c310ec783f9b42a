"""What a set says of its pods, also when a step fails."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from controller_stage import ControllerStage, Play
from msgspec.structs import replace
from requests_sent import told
from set_scenes import KEY, add_set, change_set, make_ready, on, settled

from mooring.controllers.statefulset.status import status_of
from mooring.kube.errors import Conflict, Unreachable
from mooring.kube.objects import (
    Condition,
    ControllerRevision,
    ObjectMeta,
    Pod,
    PodStatus,
    StatefulSet,
    StatefulSetSpec,
    StatefulSetStatus,
)
from mooring.kube.revisions import REVISION
from mooring.simulation.parts.faulty_transport import request


async def status(stage: ControllerStage) -> StatefulSetStatus:
    return (await stage.api.get(StatefulSet, "db", "default")).status


async def replaced(stage: ControllerStage, name: str) -> None:
    """Another pod of this name is there."""
    pod = await stage.api.get(Pod, name, "default")
    await stage.api.delete(Pod, name, "default", grace_period_seconds=0)
    body = {"metadata": {"name": name, "labels": pod.metadata.labels}}
    await stage.api.create(Pod, {**body, "spec": {"containers": [{"name": "c", "image": "i"}]}}, "default")


def test_the_status_counts_pods_by_what_they_are(play: Play):
    """db-0 is of the template before, db-1 of the new one and not ready for long enough, db-2 not ready."""

    async def story(stage: ControllerStage):
        partition = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        await add_set(stage, 3, podManagementPolicy="Parallel", updateStrategy=partition, minReadySeconds=60)
        await settled(stage)
        (former,) = (await stage.api.list(ControllerRevision)).items
        await change_set(stage, template={"metadata": {"annotations": {"edition": "2"}}})
        for name in ("db-1", "db-2"):
            controller = await on(stage)
            await controller.reconcile(KEY)
            await stage.api.delete(Pod, name, "default", grace_period_seconds=0)
        await (await on(stage)).reconcile(KEY)
        since = "2029-12-31T23:59:30Z"
        await make_ready(stage, 1, since=since)
        await (await on(stage)).reconcile(KEY)
        (new,) = [
            each for each in (await stage.api.list(ControllerRevision)).items if each.name != former.name
        ]
        assert await status(stage) == StatefulSetStatus(
            observed_generation=2,
            replicas=3,
            ready_replicas=2,
            available_replicas=1,
            current_replicas=1,
            updated_replicas=2,
            current_revision=former.name,
            update_revision=new.name,
            collision_count=0,
        )

    play(story)


def test_a_pod_that_a_step_deletes_is_no_more_of_any_revision(play: Play):
    """It is there until it has ended; the cache does not show that it ends yet."""

    async def story(stage: ControllerStage):
        await add_set(stage)
        controller = await settled(stage)
        await change_set(stage, replicas=0)
        controller = await on(stage)
        await controller.reconcile(KEY)
        found = await status(stage)
        assert (found.replicas, found.current_replicas, found.updated_replicas) == (1, 0, 0)

    play(story)


def test_a_step_that_fails_says_so_and_hides_nothing(play: Play):
    """A pod of the same name is another one by now: it is not deleted in its stead."""

    async def story(stage: ControllerStage):
        await add_set(stage, 2)
        await settled(stage)
        await change_set(stage, replicas=1)
        controller = await on(stage)
        await replaced(stage, "db-1")
        with pytest.raises(Conflict) as raised:
            await controller.reconcile(KEY)
        assert await stage.api.find(Pod, "db-1", "default") is not None
        assert (await status(stage)).observed_generation == 2
        message = f"delete Pod db-1 failed: {raised.value}"
        assert await told(stage, controller) == [("StatefulSet db", "Warning", "FailedDelete", message)]

    play(story)


def test_a_set_is_tried_again_after_a_pause_if_its_failure_cannot_be_told_either(play: Play):
    """A conflict alone is tried again at once; an API server that does not answer is not."""

    async def story(stage: ControllerStage):
        await add_set(stage, 2)
        await settled(stage)
        await change_set(stage, replicas=1)
        controller = await on(stage)
        await replaced(stage, "db-1")
        stage.wire.lose(request("PATCH", "statefulsets/db/status"))
        with pytest.raises(Unreachable):
            await controller.reconcile(KEY)

    play(story)


def test_a_status_that_comes_late_brings_no_former_revision_back(play: Play):
    """Its revision may be gone by then, and a pod below the partition be made of the new template (84061 of
    the swarm)."""

    async def story(stage: ControllerStage):
        await add_set(stage)
        controller = await settled(stage)
        await change_set(stage, template={"metadata": {"annotations": {"edition": "2"}}})
        controller = await on(stage)
        late = stage.wire.late(request("PATCH", "statefulsets/db/status"))
        with pytest.raises(Unreachable):
            await controller.reconcile(KEY)
        await settled(stage)
        updated = await status(stage)
        assert updated.current_revision == updated.update_revision
        assert await late.deliver() == 409
        assert await status(stage) == updated

    play(story)


def test_a_set_tells_of_what_it_makes_and_deletes(play: Play):
    async def story(stage: ControllerStage):
        await add_set(stage)
        controller = await on(stage)
        await controller.reconcile(KEY)
        await make_ready(stage, 0)
        await change_set(stage, replicas=0)
        await stage.fill(controller, StatefulSet, Pod)
        await controller.reconcile(KEY)
        made = "create Pod db-0 in StatefulSet db successful"
        assert await told(stage, controller) == [
            ("StatefulSet db", "Normal", "SuccessfulCreate", "create Claim data-db-0 successful"),
            ("StatefulSet db", "Normal", "SuccessfulCreate", made),
            ("StatefulSet db", "Normal", "SuccessfulDelete", "delete Pod db-0: is not wanted"),
        ]

    play(story)


NOW = datetime(2030, 1, 1, tzinfo=UTC)


def of(revision: str, *, ready: bool = True) -> Pod:
    conditions = (Condition(type="Ready", status="True" if ready else "False"),)
    return Pod(
        metadata=ObjectMeta(labels={REVISION: revision}),
        status=PodStatus(phase="Running", conditions=conditions),
    )


@pytest.mark.parametrize(
    ("pods", "current"),
    [
        pytest.param([of("new"), of("new")], "new", id="all are new, and ready"),
        pytest.param([of("new"), of("old")], "old", id="not while one is of the revision before"),
        pytest.param([of("new"), of("new", ready=False)], "old", id="not while one is not ready"),
        pytest.param([of("new")], "old", id="not while one is missing"),
        pytest.param([of("new"), of("new"), of("new")], "old", id="not while one is too many"),
        pytest.param([of("new"), of("new"), of("old", ready=False)], "old", id="nor if that is an old one"),
    ],
)
def test_an_update_is_complete_when(pods: list[Pod], current: str):
    before = StatefulSetStatus(current_revision="old")
    of_set = StatefulSet(spec=StatefulSetSpec(replicas=2), status=before)
    assert status_of(of_set, pods, "new", (), NOW).current_revision == current


def test_the_first_revision_of_a_set_is_its_current_one_before_there_are_pods():
    of_set = StatefulSet(spec=StatefulSetSpec(replicas=2))
    assert status_of(of_set, [], "new", (), NOW).current_revision == "new"


def test_pods_that_end_are_there_and_of_no_revision():
    """Each is left out for its own reason: one that ends, and one that is deleted just now."""
    pods = [of("new") for _ in range(3)]
    ending = replace(pods[1], metadata=replace(pods[1].metadata, deletion_timestamp="t"))
    going = replace(pods[2], metadata=replace(pods[2].metadata, uid="going"))
    of_set = StatefulSet(spec=StatefulSetSpec(replicas=3))
    found = status_of(of_set, [pods[0], ending, going], "new", {"going"}, NOW)
    assert (found.replicas, found.ready_replicas, found.current_replicas, found.updated_replicas) == (
        3,
        2,
        1,
        1,
    )

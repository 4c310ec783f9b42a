"""When a set is looked at, and when again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from msgspec.structs import replace
from requests_sent import marked
from set_scenes import KEY, add_set, make_ready, on, settled

from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.kube.client import WatchEvent
from mooring.kube.objects import (
    ControllerRevision,
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
)


def owned(kind: str, name: str = "any") -> Pod:
    owner = OwnerReference(api_version="apps/v1", kind=kind, name="db", uid="u", controller=True)
    return Pod(metadata=ObjectMeta(name=name, namespace="default", owner_references=(owner,)))


def named(name: str, namespace: str = "default", kind: Any = Pod, ends: str | None = None) -> Any:
    metadata = ObjectMeta(name=name, namespace=namespace, deletion_timestamp=ends)
    return kind(metadata=metadata)


async def worked_on(controller: StatefulSetController) -> None:
    """Works on the set until nothing marks it any more."""
    controller.queue.add(KEY)
    while await marked(controller):
        await controller.reconcile(KEY)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param(owned("StatefulSet"), [KEY], id="its pod"),
        pytest.param(owned("ReplicaSet", "db-0"), [], id="not the pod of an owner of another kind"),
        pytest.param(named("db-0"), [KEY], id="a pod of no owner that has one of its names"),
        pytest.param(named("db-x"), [], id="not one that has another name"),
        pytest.param(named("db-0", "other"), [], id="not one of another namespace"),
        pytest.param(named("data-db-0", kind=PersistentVolumeClaim), [], id="not its claim"),
        pytest.param(
            named("data-db-0", kind=PersistentVolumeClaim, ends="t"), [KEY], id="its claim that ends"
        ),
        pytest.param(
            named("data-my-0", kind=PersistentVolumeClaim, ends="t"), [], id="not another's that ends"
        ),
        pytest.param(owned("ControllerRevision"), [], id="not what something else owns"),
    ],
)
def test_a_set_is_looked_at_with(play: Play, changed: Any, expected: list[str]):
    async def story(stage: ControllerStage):
        await add_set(stage)
        controller = await on(stage)
        controller.cache(type(changed)).apply(WatchEvent("ADDED", changed, "1000"))
        assert await marked(controller) == expected

    play(story)


def test_a_set_is_looked_at_when_its_claim_is_gone_and_not_when_one_is_new(play: Play):
    """It waits for the end of a claim that goes with a former pod."""

    async def story(stage: ControllerStage):
        await add_set(stage)
        controller = await on(stage)
        claim = named("data-db-0", kind=PersistentVolumeClaim)
        told = (("ADDED", []), ("MODIFIED", []), ("DELETED", [KEY]))
        for version, (type_, expected) in enumerate(told, 1000):
            newer = replace(claim, metadata=replace(claim.metadata, resource_version=f"{version}"))
            controller.cache(PersistentVolumeClaim).apply(WatchEvent(type_, newer, f"{version}"))
            assert await marked(controller) == expected

    play(story)


def test_a_set_is_looked_at_when_its_revision_is_gone(play: Play):
    async def story(stage: ControllerStage):
        await add_set(stage)
        controller = await settled(stage)
        (revision,) = (await stage.api.list(ControllerRevision)).items
        controller.cache(ControllerRevision).apply(WatchEvent("DELETED", revision, "1000"))
        assert await marked(controller) == [KEY]

    play(story)


def test_a_key_of_a_set_that_is_gone_needs_no_work(play: Play):
    async def story(stage: ControllerStage):
        await stage.make(StatefulSetController).reconcile(KEY)
        assert stage.wire.sent == []

    play(story)


def test_a_set_is_looked_at_again_when_the_first_of_its_pods_becomes_available(play: Play):
    """Nothing else tells of it: the pods do not change."""

    async def story(stage: ControllerStage):
        await add_set(stage, 2, podManagementPolicy="Parallel", minReadySeconds=20)
        controller = await settled(stage)
        for ordinal, since in enumerate(("2029-12-31T23:59:50Z", "2030-01-01T00:00:00Z")):
            await make_ready(stage, ordinal, since=since)
        controller = await on(stage)
        await worked_on(controller)
        await asyncio.sleep(9)
        assert await marked(controller) == []
        await asyncio.sleep(1)
        assert await marked(controller) == [KEY]
        await controller.reconcile(KEY)
        assert (await stage.api.get(StatefulSet, "db", "default")).status.available_replicas == 1

    play(story)


def test_a_set_whose_pods_are_available_is_not_looked_at_again(play: Play):
    async def story(stage: ControllerStage):
        await add_set(stage, minReadySeconds=60)
        controller = await settled(stage)  # its pod has been ready for 60 seconds, to the second
        await controller.reconcile(KEY)
        assert KEY not in controller.queue

    play(story)


def test_the_name_of_a_pod_that_another_owner_has_is_tried_again(play: Play):
    async def story(stage: ControllerStage):
        await add_set(stage)
        taken = {"metadata": {"name": "db-0"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        controller = await on(stage)
        await stage.api.create(Pod, taken, "default")
        await worked_on(controller)
        await stage.api.delete(Pod, "db-0", "default", grace_period_seconds=0)
        assert controller.queue.is_delayed(KEY), "not at once, and again and again"
        await asyncio.sleep(15)
        assert await marked(controller) == [KEY]

    play(story)


def test_a_set_that_is_made_anew_does_not_wait_for_what_its_predecessor_did_too_often(play: Play):
    async def story(stage: ControllerStage):
        await add_set(stage)
        controller = await on(stage)

        async def with_pod() -> bool:
            """Whether a pod is made; it goes at once."""
            await controller.reconcile(KEY)
            pod = await stage.api.find(Pod, "db-0", "default")
            if pod is not None:
                await stage.api.delete(Pod, "db-0", "default", grace_period_seconds=0)
                controller.cache(Pod).apply(WatchEvent("DELETED", pod, "1000"))
            return pod is not None

        assert [await with_pod() for _ in range(3)] == [True, True, False]
        live = await stage.api.get(StatefulSet, "db", "default")
        now = live.metadata.resource_version
        controller.cache(StatefulSet).apply(WatchEvent("DELETED", live, now))
        await controller.reconcile(KEY)
        controller.cache(StatefulSet).apply(WatchEvent("ADDED", live, now))
        assert await with_pod()

    play(story)

"""What the controller does beyond its decisions."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Generator
from pathlib import Path

import pytest
from controller_stage import ControllerStage, Play

from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.controllers.statefulset.decide import POD_NAME
from mooring.kube.client import WatchEvent
from mooring.kube.objects import ControllerRevision, PersistentVolumeClaim, Pod, StatefulSet
from mooring.kube.revisions import REVISION
from mooring.simulation.cluster.workloads import bodies

READY = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}


def test_a_pod_that_waits_for_a_claim_which_went_after_it_was_made_gets_another(play: Play):
    """Its claim was being deleted when the pod was made, and a stale cache did not show it:
    found by the simulation."""

    async def story(stage: ControllerStage):
        ((_, body, namespace),) = bodies("disk", "db", 1)
        stateful_set = await stage.api.create(StatefulSet, body, namespace)
        controller = stage.make(StatefulSetController)
        controller.cache(StatefulSet).accept(stateful_set)
        await controller.reconcile("default/db")
        claim = await stage.api.get(PersistentVolumeClaim, "data-db-0", "default")
        await stage.api.patch(
            PersistentVolumeClaim, claim.name, {"metadata": {"finalizers": None}}, "default"
        )
        await stage.api.delete(PersistentVolumeClaim, claim.name, "default")
        controller.cache(PersistentVolumeClaim).apply(
            WatchEvent("DELETED", claim, claim.metadata.resource_version)
        )
        assert (await stage.api.get(Pod, "db-0", "default")).status.phase == "Pending"
        await controller.reconcile("default/db")
        assert (await stage.api.get(PersistentVolumeClaim, "data-db-0", "default")).uid != claim.uid

    play(story)


@contextlib.contextmanager
def little_memory() -> Generator[None]:
    """MemoryError for what takes a GiB more than there is."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**30, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_a_set_of_as_many_pods_as_can_be_written_is_one_as_any_other(play: Play):
    """A number that was mistyped must not take the controllers' memory."""

    async def story(stage: ControllerStage):
        ((_, body, namespace),) = bodies("disk", "db", 1)
        body["spec"] |= {"replicas": 2**31 - 1, **ORDERED}
        await stage.api.create(StatefulSet, body, namespace)
        controller = stage.make(StatefulSetController)
        with little_memory():
            for _ in range(2):
                await stage.fill(controller, StatefulSet, Pod, PersistentVolumeClaim)
                await controller.reconcile("default/db")
        assert [each.name for each in (await stage.api.list(Pod)).items] == ["db-0"]
        (claim,) = (await stage.api.list(PersistentVolumeClaim)).items
        assert [each.name for each in claim.metadata.owner_references] == ["db"]

    play(story)


ORDERED = {
    "podManagementPolicy": "OrderedReady",
    "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
}


@pytest.mark.parametrize("scaled_away", [True, False])
def test_a_pod_that_is_scaled_away_or_ends_gets_no_claim_any_more(play: Play, scaled_away: bool):
    """A volume would be made that nothing uses: found by the simulation (D7)."""

    async def story(stage: ControllerStage):
        controller = await staged(stage, replicas=2)
        claim = await stage.api.get(PersistentVolumeClaim, "data-db-0", "default")
        await stage.api.patch(
            PersistentVolumeClaim, claim.name, {"metadata": {"finalizers": None}}, "default"
        )
        await stage.api.delete(PersistentVolumeClaim, claim.name, "default")
        controller.cache(PersistentVolumeClaim).apply(WatchEvent("DELETED", claim, "1000000"))
        if scaled_away:
            none = {"spec": {"replicas": 0}}
            scaled = await stage.api.patch(StatefulSet, "db", none, "default")
            controller.cache(StatefulSet).accept(scaled)
        else:
            held = {"metadata": {"finalizers": ["example.com/hold"]}}
            await stage.api.patch(Pod, "db-0", held, "default")
            await stage.api.delete(Pod, "db-0", "default")
            controller.cache(Pod).accept(await stage.api.get(Pod, "db-0", "default"))
        await controller.reconcile("default/db")
        assert await stage.api.find(PersistentVolumeClaim, claim.name, "default") is None

    play(story)


def test_a_claim_that_goes_without_having_been_shown_as_being_deleted_has_its_set_looked_at(
    play: Play, monkeypatch: pytest.MonkeyPatch
):
    """A user has stripped its protection."""

    async def story(stage: ControllerStage):
        controller = await staged(stage)
        claim = await stage.api.get(PersistentVolumeClaim, "data-db-0", "default")
        marked: list[str] = []
        monkeypatch.setattr(controller.queue, "add", marked.append)
        controller.cache(PersistentVolumeClaim).apply(
            WatchEvent("DELETED", claim, claim.metadata.resource_version)
        )
        assert marked == ["default/db"]

    play(story)


def test_a_set_that_is_made_anew_has_its_own_revision_beside_that_of_its_predecessor(play: Play):
    """Both have the same template, so the same name: found by the simulation (D3, S31)."""

    async def story(stage: ControllerStage):
        controller = await staged(stage)
        first = await stage.api.get(StatefulSet, "db", "default")
        (former,) = (await stage.api.list(ControllerRevision)).items
        await stage.api.delete(StatefulSet, "db", "default")
        ((_, body, namespace),) = bodies("disk", "db", 1)
        stateful_set = await stage.api.create(StatefulSet, body, namespace)
        now = stateful_set.metadata.resource_version
        controller.cache(StatefulSet).apply(WatchEvent("DELETED", first, now))
        controller.cache(StatefulSet).apply(WatchEvent("ADDED", stateful_set, now))
        controller.cache(ControllerRevision).accept(former)
        await controller.reconcile("default/db")
        for gone in (former, None):  # that of the former set goes; then a user deletes the other one
            kept = (await stage.api.list(ControllerRevision)).items
            (present,) = (each for each in kept if each.name != former.name)
            assert present.controller is not None
            assert present.controller.uid == stateful_set.uid
            await stage.api.delete(ControllerRevision, (gone or present).name, "default")
            while len(controller.queue):
                controller.queue.done(await controller.queue.get())
            controller.cache(ControllerRevision).apply(WatchEvent("DELETED", gone or present, "1000002"))
            assert "default/db" in controller.queue
            await controller.reconcile("default/db")
        assert len((await stage.api.list(ControllerRevision)).items) == 1

    play(story)


async def staged(stage: ControllerStage, replicas: int = 1) -> StatefulSetController:
    """A controller that has looked once at the set default/db."""
    ((_, body, namespace),) = bodies("disk", "db", replicas)
    stateful_set = await stage.api.create(StatefulSet, body, namespace)
    controller = stage.make(StatefulSetController)
    controller.cache(StatefulSet).accept(stateful_set)
    await controller.reconcile("default/db")
    return controller


def test_a_pod_is_not_made_on_a_claim_that_goes_with_the_former_pod(play: Play):
    """Scaled down and up again, with whenScaled: Delete, before the garbage collector has seen it."""

    async def story(stage: ControllerStage):
        controller = await staged(stage)
        pod = await stage.api.get(Pod, "db-0", "default")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
        owned = {"metadata": {"ownerReferences": [owner]}}
        claim = await stage.api.patch(PersistentVolumeClaim, "data-db-0", owned, "default")
        controller.cache(PersistentVolumeClaim).accept(claim)
        await stage.api.delete(Pod, "db-0", "default")
        controller.cache(Pod).apply(WatchEvent("DELETED", pod, "1000000"))
        await controller.reconcile("default/db")
        assert await stage.api.find(Pod, "db-0", "default") is None
        assert await stage.api.get(PersistentVolumeClaim, "data-db-0", "default") == claim

    play(story)


def test_a_pod_gets_the_label_of_its_name_back(play: Play):
    async def story(stage: ControllerStage):
        controller = await staged(stage)
        lost = {"metadata": {"labels": {POD_NAME: None}}}
        controller.cache(Pod).accept(await stage.api.patch(Pod, "db-0", lost, "default"))
        await controller.reconcile("default/db")
        assert (await stage.api.get(Pod, "db-0", "default")).metadata.labels[POD_NAME] == "db-0"

    play(story)


async def at_work(stage: ControllerStage) -> asyncio.Task[None]:
    """A controller with a set of one pod without claims."""
    ((_, body, namespace),) = bodies("plain", "db", 1)
    await stage.api.create(StatefulSet, body, namespace)
    return asyncio.create_task(stage.make(StatefulSetController).run())


def test_pods_that_the_set_itself_replaces_are_made_at_once_however_often(play: Play):
    """A user who changes the template six times within seconds, as upstream's tables do."""

    async def story(stage: ControllerStage):
        task = await at_work(stage)
        for edition in range(6):
            await asyncio.sleep(0.2)
            await stage.api.patch(Pod, "db-0", READY, "default", subresource="status")
            change = {"spec": {"template": {"metadata": {"annotations": {"edition": str(edition)}}}}}
            await stage.api.patch(StatefulSet, "db", change, "default")
        await asyncio.sleep(0.2)
        pod = await stage.api.get(Pod, "db-0", "default")
        assert pod.metadata.annotations["edition"] == "5"
        task.cancel()

    play(story)


def test_a_pod_that_another_controller_makes_anew_of_another_view_is_replaced_ever_more_slowly(play: Play):
    """87005 of the swarm: two StatefulSet controllers at once, one with a late cache of the set, replaced
    each other's pod six times a second."""

    async def story(stage: ControllerStage):
        task = await at_work(stage)
        uids: set[str] = set()
        for _ in range(6000):
            pod = await stage.api.find(Pod, "db-0", "default")
            if pod is not None and pod.uid not in uids:
                uids.add(pod.uid)
                late = {"metadata": {"labels": {REVISION: "db-late"}}}
                await stage.api.patch(Pod, "db-0", late, "default")
            await asyncio.sleep(0.01)
        assert 5 <= len(uids) <= 12
        task.cancel()

    play(story)


@pytest.mark.parametrize("ready", [False, True])
def test_a_pod_that_goes_again_and_again_is_made_ever_more_slowly(play: Play, ready: bool):
    """Found by the simulation: a pod that each time is evicted at once was made twenty times a second; later,
    that one that is ready for an instant was, too."""

    async def story(stage: ControllerStage):
        task = await at_work(stage)
        uids: set[str] = set()
        for _ in range(6000):
            pod = await stage.api.find(Pod, "db-0", "default")
            if pod is not None:
                uids.add(pod.uid)
                if ready:
                    await stage.api.patch(Pod, "db-0", READY, "default", subresource="status")
                    await asyncio.sleep(0.01)
                await stage.api.delete(Pod, "db-0", "default")
            await asyncio.sleep(0.01)
        assert 5 <= len(uids) <= 12
        task.cancel()

    play(story)

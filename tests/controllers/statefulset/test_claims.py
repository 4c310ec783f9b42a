"""A pod is made on claims that stay; and a set has the pods and the revisions that are its own."""

from __future__ import annotations

from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from msgspec.structs import replace
from requests_sent import writes
from set_scenes import KEY, add_set, change_set, make_ready, on, settled

from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.kube.client import WatchEvent
from mooring.kube.objects import ControllerRevision, PersistentVolumeClaim, Pod

CLAIM = "data-db-0"
DELETE = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"}}


async def pod_is_made(stage: ControllerStage, controller: StatefulSetController) -> bool:
    await controller.reconcile(KEY)
    return await stage.api.find(Pod, "db-0", "default") is not None


async def claim_goes(stage: ControllerStage) -> None:
    """At once."""
    unprotected = {"metadata": {"finalizers": None}}
    await stage.api.patch(PersistentVolumeClaim, CLAIM, unprotected, "default")
    await stage.api.delete(PersistentVolumeClaim, CLAIM, "default")


async def pod_goes(stage: ControllerStage) -> None:
    await stage.api.delete(Pod, "db-0", "default", grace_period_seconds=0)


@pytest.mark.parametrize("ends", [False, True])
def test_a_pod_is_made_on_a_claim_that_is_there_unless_that_ends(play: Play, ends: bool):
    async def story(stage: ControllerStage):
        await add_set(stage)
        await settled(stage)
        await pod_goes(stage)
        if ends:
            await stage.api.delete(PersistentVolumeClaim, CLAIM, "default")
        assert await pod_is_made(stage, await on(stage)) is not ends

    play(story)


def test_a_pod_is_made_on_a_claim_that_the_cache_does_not_show_yet(play: Play):
    async def story(stage: ControllerStage):
        await add_set(stage)
        await settled(stage)
        await pod_goes(stage)
        controller = await on(stage)
        claim = controller.cache(PersistentVolumeClaim).get(f"default/{CLAIM}")
        controller.cache(PersistentVolumeClaim).apply(WatchEvent("DELETED", claim, "1000"))
        assert await pod_is_made(stage, controller)

    play(story)


@pytest.mark.parametrize(("phase", "made"), [("Pending", True), ("Running", False), ("Failed", False)])
def test_only_a_pod_that_has_not_started_gets_another_claim(play: Play, phase: str, made: bool):
    """One that runs has its volume still: another claim would be another volume."""

    async def story(stage: ControllerStage):
        await add_set(stage)
        await settled(stage)
        status = {"status": {"phase": phase}}
        await stage.api.patch(Pod, "db-0", status, "default", subresource="status")
        await claim_goes(stage)
        await (await on(stage)).reconcile(KEY)
        assert (await stage.api.find(PersistentVolumeClaim, CLAIM, "default") is not None) is made

    play(story)


def test_the_owners_of_a_claim_that_ends_are_left(play: Play):
    async def story(stage: ControllerStage):
        await add_set(stage)
        await settled(stage)
        await change_set(stage, **DELETE)
        await stage.api.delete(PersistentVolumeClaim, CLAIM, "default")
        controller = await on(stage)
        sent = writes(stage.wire)
        await controller.reconcile(KEY)
        assert [path for _, path, _ in sent] == ["statefulsets/db/status"]

    play(story)


def test_a_claim_is_the_sets_while_its_identity_stays_and_its_pods_when_that_goes(play: Play):
    async def story(stage: ControllerStage):
        policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
        await add_set(stage, 2, persistentVolumeClaimRetentionPolicy=policy)
        await settled(stage)
        await change_set(stage, replicas=1)
        await (await on(stage)).reconcile(KEY)
        claims = (await stage.api.list(PersistentVolumeClaim)).items
        owners = {claim.name: claim.controller for claim in claims}
        assert {name: owner and (owner.kind, owner.name) for name, owner in owners.items()} == {
            "data-db-0": ("StatefulSet", "db"),
            "data-db-1": ("Pod", "db-1"),
        }

    play(story)


def test_a_claim_that_goes_with_its_set_is_the_sets_from_the_beginning(play: Play):
    """The set may be deleted before anything else is written: its claim would stay for ever."""

    async def story(stage: ControllerStage):
        await add_set(stage, **DELETE)
        sent = writes(stage.wire)
        await (await on(stage)).reconcile(KEY)
        made = [body for method, path, body in sent if (method, path) == ("POST", "persistentvolumeclaims")]
        owners = [each["metadata"]["ownerReferences"] for each in made]
        assert [[(owner["kind"], owner["name"]) for owner in each] for each in owners] == [
            [("StatefulSet", "db")]
        ]

    play(story)


def foreign(name: str, app: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"name": name, "labels": {"app": app}}, "spec": spec}


@pytest.mark.parametrize(
    ("name", "app", "owner"), [("db-0", "db", "db"), ("db-0", "other", None), ("my-0", "db", None)]
)
def test_a_pod_that_has_no_owner_is_adopted_if_its_name_and_labels_are_the_sets(
    play: Play, name: str, app: str, owner: str | None
):
    async def story(stage: ControllerStage):
        await add_set(stage)
        await stage.api.create(Pod, foreign(name, app), "default")
        controller = await on(stage)
        await controller.reconcile(KEY)
        found = (await stage.api.get(Pod, name, "default")).controller
        assert (found and found.name) == owner

    play(story)


def test_a_pod_that_ends_does_not_get_its_labels_back(play: Play):
    async def story(stage: ControllerStage):
        await add_set(stage)
        await settled(stage)
        lost = {"metadata": {"labels": {"statefulset.kubernetes.io/pod-name": None}, "finalizers": ["a.b/c"]}}
        await stage.api.patch(Pod, "db-0", lost, "default")
        await stage.api.delete(Pod, "db-0", "default")
        controller = await on(stage)
        sent = writes(stage.wire)
        await controller.reconcile(KEY)
        assert [path for _, path, _ in sent if path.startswith("pods")] == []

    play(story)


def test_below_the_partition_a_pod_is_made_anew_of_the_template_before(play: Play):
    async def story(stage: ControllerStage):
        await add_set(stage, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 1}})
        await settled(stage)
        before = await stage.api.get(Pod, "db-0", "default")
        await change_set(stage, template={"metadata": {"annotations": {"edition": "2"}}})
        await (await on(stage)).reconcile(KEY)
        await pod_goes(stage)
        await (await on(stage)).reconcile(KEY)
        after = await stage.api.get(Pod, "db-0", "default")
        assert (after.metadata.labels, after.metadata.annotations) == (before.metadata.labels, {})
        assert after.uid != before.uid

    play(story)


def test_a_pod_of_the_present_revision_is_made_of_the_sets_own_template(play: Play):
    """A revision that kube-controller-manager made says the same in other words."""

    async def story(stage: ControllerStage):
        await add_set(stage)
        await settled(stage)
        (revision,) = (await stage.api.list(ControllerRevision)).items
        spec = revision.data["spec"]["template"]["spec"]
        own = spec["containers"]
        other = [{**each, "workingDir": None} for each in own]
        template = {**revision.data["spec"]["template"], "spec": {**spec, "containers": other}}
        data = {"spec": {"template": template}}
        await pod_goes(stage)
        controller = await on(stage)
        newer = replace(revision.metadata, resource_version="1000")
        kept = replace(revision, data=data, metadata=newer)
        controller.cache(ControllerRevision).apply(WatchEvent("MODIFIED", kept, "1000"))
        sent = writes(stage.wire)
        await controller.reconcile(KEY)
        ((_, _, body), *_) = sent
        assert body["spec"]["containers"] == own

    play(story)


def test_revisions_that_pods_are_of_are_kept_beyond_the_limit(play: Play):
    async def story(stage: ControllerStage):
        await add_set(stage, revisionHistoryLimit=0, updateStrategy={"type": "OnDelete"})
        await settled(stage)
        for edition in "23":
            await change_set(stage, template={"metadata": {"annotations": {"edition": edition}}})
            for _ in range(2):  # the status tells of the one before, until it has been written
                await (await on(stage)).reconcile(KEY)
        assert await revisions(stage) == [1, 3]
        await pod_goes(stage)
        for _ in range(3):
            await (await on(stage)).reconcile(KEY)
            await make_ready(stage, 0)
        assert await revisions(stage) == [3]

    play(story)


def test_a_revision_between_the_current_and_the_newest_is_kept_while_a_pod_is_of_it(play: Play):
    async def story(stage: ControllerStage):
        await add_set(stage, revisionHistoryLimit=0, updateStrategy={"type": "OnDelete"})
        await settled(stage)
        for edition in "23":
            await change_set(stage, template={"metadata": {"annotations": {"edition": edition}}})
            if edition == "2":
                await pod_goes(stage)
            for _ in range(2):
                await (await on(stage)).reconcile(KEY)
        assert await revisions(stage) == [1, 2, 3]

    play(story)


async def revisions(stage: ControllerStage) -> list[int]:
    return sorted(each.revision for each in (await stage.api.list(ControllerRevision)).items)

"""StatefulSets in a whole cluster: updates, retention of claims, identities that come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from world import World

from mooring.kube.objects import ControllerRevision, PersistentVolumeClaim, Pod, StatefulSet
from mooring.simulation.cluster.controllers import ATTACHING, PLACING, WATCHING

Play = Callable[[Any], Any]
EVERYTHING = (ATTACHING, PLACING, WATCHING, ("cleanup",))


async def pods(world: World) -> list[Pod]:
    return sorted((await world.api.list(Pod, "default")).items, key=lambda pod: pod.name)


async def patch(world: World, **spec: Any) -> None:
    await world.api.patch(StatefulSet, "app", {"spec": spec}, "default")


async def versions(world: World) -> list[str]:
    """The annotation `v` of each pod that is ready, in the order of the identities."""
    ready = [pod for pod in await pods(world) if await world.running(pod.name)]
    return [pod.metadata.annotations.get("v", "1") for pod in ready]


def template(version: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {"v": version}}}


async def settles_at(world: World, *expected: str) -> None:
    async def reached() -> bool:
        return await versions(world) == list(expected)

    await world.until(reached)


async def claims(world: World) -> set[str]:
    return {each.name for each in (await world.api.list(PersistentVolumeClaim, "default")).items}


def test_an_update_goes_through_all_and_back(play: Play):
    async def story(world: World):
        await world.start()
        await world.stateful_set(replicas=3)
        await settles_at(world, "1", "1", "1")
        await patch(world, template=template("2"))
        await settles_at(world, "2", "2", "2")
        await patch(world, template={"metadata": {"annotations": {"v": None}}})
        await settles_at(world, "1", "1", "1")
        revisions = sorted(
            (await world.api.list(ControllerRevision, "default")).items, key=lambda each: each.revision
        )
        status = (await world.api.get(StatefulSet, "app", "default")).status
        assert [each.revision for each in revisions] == [2, 3], (
            "the first template is the newest revision again"
        )
        assert status.current_revision == status.update_revision == revisions[-1].name

    play(story)


def test_a_pod_below_the_partition_comes_back_as_it_was(play: Play):
    async def story(world: World):
        await world.start()
        await world.stateful_set(replicas=3)
        await settles_at(world, "1", "1", "1")
        held_back = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        await patch(world, template=template("2"), updateStrategy=held_back)
        await settles_at(world, "1", "1", "2")
        await world.api.delete(Pod, "app-0", "default")
        await asyncio.sleep(60)
        await settles_at(world, "1", "1", "2")

    play(story)


def test_claims_go_with_what_the_policy_names(play: Play):
    async def story(world: World):
        await world.start(controllers=EVERYTHING)
        await world.stateful_set(replicas=3)
        await patch(
            world, persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "Delete"}
        )
        await settles_at(world, "1", "1", "1")
        await patch(world, replicas=1)

        async def left(*names: str) -> bool:
            return await claims(world) == set(names)

        await world.until(lambda: left("data-app-0"))
        await patch(world, replicas=2)
        await settles_at(world, "1", "1")
        await world.api.delete(StatefulSet, "app", "default")
        await world.until(left)
        await world.until(lambda: not world.array.disks)

    play(story)


def test_claims_stay_where_nobody_asked_for_their_deletion(play: Play):
    async def story(world: World):
        await world.start(controllers=EVERYTHING)
        await world.stateful_set(replicas=2)
        await settles_at(world, "1", "1")
        await patch(world, replicas=1)
        await settles_at(world, "1")
        await world.api.delete(StatefulSet, "app", "default")
        await asyncio.sleep(300)
        assert await claims(world) == {"data-app-0", "data-app-1"}
        assert await pods(world) == []

    play(story)


def test_an_identity_whose_claim_is_being_deleted_waits_until_it_is_gone(play: Play):
    async def story(world: World):
        await world.start(controllers=EVERYTHING)
        await world.stateful_set()
        await settles_at(world, "1")
        (first,) = world.array.disks
        await world.api.delete(PersistentVolumeClaim, "data-app-0", "default")
        await world.api.delete(Pod, "app-0", "default")
        await world.until(lambda: first not in world.array.disks)
        await settles_at(world, "1")
        assert len(world.array.disks) == 1

    play(story)

"""StatefulSets in a whole cluster: updates, retention of claims, identities that come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from in_process_cluster import InProcessCluster

from mooring.kube.objects import ControllerRevision, PersistentVolumeClaim, Pod, StatefulSet
from mooring.simulation.cluster.controllers import ATTACHING, PLACING, WATCHING

Play = Callable[[Any], Any]
EVERYTHING = (ATTACHING, PLACING, WATCHING, ("cleanup",))


async def pods(cluster: InProcessCluster) -> list[Pod]:
    return sorted((await cluster.api.list(Pod, "default")).items, key=lambda pod: pod.name)


async def patch(cluster: InProcessCluster, **spec: Any) -> None:
    await cluster.api.patch(StatefulSet, "app", {"spec": spec}, "default")


async def versions(cluster: InProcessCluster) -> list[str]:
    """The annotation `v` of each pod that is ready, in the order of the identities."""
    ready = [pod for pod in await pods(cluster) if await cluster.running(pod.name)]
    return [pod.metadata.annotations.get("v", "1") for pod in ready]


def template(version: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {"v": version}}}


async def settles_at(cluster: InProcessCluster, *expected: str) -> None:
    async def reached() -> bool:
        return await versions(cluster) == list(expected)

    await cluster.until(reached)


async def claims(cluster: InProcessCluster) -> set[str]:
    return {each.name for each in (await cluster.api.list(PersistentVolumeClaim, "default")).items}


def test_an_update_goes_through_all_and_back(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.stateful_set(replicas=3)
        await settles_at(cluster, "1", "1", "1")
        await patch(cluster, template=template("2"))
        await settles_at(cluster, "2", "2", "2")
        await patch(cluster, template={"metadata": {"annotations": {"v": None}}})
        await settles_at(cluster, "1", "1", "1")
        revisions = sorted(
            (await cluster.api.list(ControllerRevision, "default")).items, key=lambda each: each.revision
        )
        status = (await cluster.api.get(StatefulSet, "app", "default")).status
        assert [each.revision for each in revisions] == [2, 3], (
            "the first template is the newest revision again"
        )
        assert status.current_revision == status.update_revision == revisions[-1].name

    play(story)


def test_a_pod_below_the_partition_comes_back_as_it_was(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.stateful_set(replicas=3)
        await settles_at(cluster, "1", "1", "1")
        held_back = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
        await patch(cluster, template=template("2"), updateStrategy=held_back)
        await settles_at(cluster, "1", "1", "2")
        await cluster.api.delete(Pod, "app-0", "default")
        await asyncio.sleep(60)
        await settles_at(cluster, "1", "1", "2")

    play(story)


def test_claims_go_with_what_the_policy_names(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start(controllers=EVERYTHING)
        await cluster.stateful_set(replicas=3)
        await patch(
            cluster, persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete", "whenScaled": "Delete"}
        )
        await settles_at(cluster, "1", "1", "1")
        await patch(cluster, replicas=1)

        async def left(*names: str) -> bool:
            return await claims(cluster) == set(names)

        await cluster.until(lambda: left("data-app-0"))
        await patch(cluster, replicas=2)
        await settles_at(cluster, "1", "1")
        await cluster.api.delete(StatefulSet, "app", "default")
        await cluster.until(left)
        await cluster.until(lambda: not cluster.array.disks)

    play(story)


def test_claims_stay_where_nobody_asked_for_their_deletion(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start(controllers=EVERYTHING)
        await cluster.stateful_set(replicas=2)
        await settles_at(cluster, "1", "1")
        await patch(cluster, replicas=1)
        await settles_at(cluster, "1")
        await cluster.api.delete(StatefulSet, "app", "default")
        await asyncio.sleep(300)
        assert await claims(cluster) == {"data-app-0", "data-app-1"}
        assert await pods(cluster) == []

    play(story)


def test_an_identity_whose_claim_is_being_deleted_waits_until_it_is_gone(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start(controllers=EVERYTHING)
        await cluster.stateful_set()
        await settles_at(cluster, "1")
        (first,) = cluster.array.disks
        await cluster.api.delete(PersistentVolumeClaim, "data-app-0", "default")
        await cluster.api.delete(Pod, "app-0", "default")
        await cluster.until(lambda: first not in cluster.array.disks)
        await settles_at(cluster, "1")
        assert len(cluster.array.disks) == 1

    play(story)

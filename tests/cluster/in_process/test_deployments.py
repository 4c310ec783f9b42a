"""Deployments in a whole cluster: availability first, and what that means for a volume that cannot be in two
places."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from world import World, pod_spec

from mooring.kube.objects import Deployment, Pod, ReplicaSet

Play = Callable[[Any], Any]


async def deploy(world: World, replicas: int, **spec: Any) -> None:
    labels = {"app": "web"}
    plain = {"containers": [{"name": "main", "image": "app", "command": ["run"]}]}
    pod = {**pod_spec(), **spec.pop("pod", plain)}
    body = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
        **spec,
    }
    await world.api.create(Deployment, {"metadata": {"name": "web"}, "spec": body}, "default")


async def rolled_out(world: World) -> bool:
    found = await world.api.get(Deployment, "web", "default")
    status, spec = found.status, found.spec
    return (
        status.observed_generation == found.metadata.generation
        and status.updated_replicas == status.replicas == status.available_replicas == spec.replicas
    )


async def condition(world: World, kind: str) -> tuple[str, str]:
    found = await world.api.get(Deployment, "web", "default")
    return next(((c.status, c.reason) for c in found.status.conditions if c.type == kind), ("", ""))


async def pods(world: World) -> list[Pod]:
    return (await world.api.list(Pod, "default", label_selector="app=web")).items


NEXT = {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}}


def test_a_deployment_rolls_forward_and_back(play: Play):
    async def story(world: World):
        await world.start()
        await deploy(world, 3)
        await world.until(lambda: rolled_out(world))
        first = {pod.name for pod in await pods(world)}
        await world.api.patch(Deployment, "web", NEXT, "default")
        await world.until(lambda: rolled_out(world))
        assert first.isdisjoint({pod.name for pod in await pods(world)})
        assert await condition(world, "Progressing") == ("True", "NewReplicaSetAvailable")
        back = {"spec": {"template": {"metadata": {"annotations": {"v": None}}}}}
        await world.api.patch(Deployment, "web", back, "default")
        await world.until(lambda: rolled_out(world))
        sets = (await world.api.list(ReplicaSet, "default")).items
        revisions = {
            each.metadata.annotations["deployment.kubernetes.io/revision"]: each.spec.replicas
            for each in sets
        }
        assert revisions == {"2": 0, "3": 3}, "the first template became the newest revision again"

    play(story)


def test_it_scales_both_ways_and_replaces_what_is_deleted(play: Play):
    async def story(world: World):
        await world.start()
        await deploy(world, 2)
        await world.until(lambda: rolled_out(world))
        for replicas in (4, 1):
            await world.api.patch(Deployment, "web", {"spec": {"replicas": replicas}}, "default")
            await world.until(lambda: rolled_out(world))
        (only,) = [pod for pod in await pods(world) if not pod.deleting]
        await world.api.delete(Pod, only.name, "default")
        await world.until(lambda: rolled_out(world))
        assert [pod.name for pod in await pods(world) if not pod.deleting] != [only.name]

    play(story)


def test_a_rollout_that_does_not_get_on_says_so(play: Play):
    async def story(world: World):
        await world.start()
        await deploy(world, 1, progressDeadlineSeconds=30)
        await world.until(lambda: rolled_out(world))
        nowhere = {"spec": {"template": {"spec": {"nodeSelector": {"no": "where"}}}}}
        await world.api.patch(Deployment, "web", nowhere, "default")

        async def late() -> bool:
            return await condition(world, "Progressing") == ("False", "ProgressDeadlineExceeded")

        await world.until(late)
        assert await condition(world, "Available") == ("True", "MinimumReplicasAvailable")

    play(story)


def test_with_an_exclusive_volume_the_new_pod_waits_for_the_old_ones_detach(play: Play):
    """The documented contrast: a Deployment starts the next pod at once; only the attachment keeps the two
    apart."""

    async def story(world: World):
        await world.start()
        await world.claim("shared")
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}
        await deploy(world, 1, strategy={"type": "Recreate"}, pod={"volumes": [volume]})
        await world.until(lambda: rolled_out(world))
        (first,) = await pods(world)
        await world.drain(first.spec.node_name)
        await world.until(lambda: rolled_out(world))
        await asyncio.sleep(30)
        (second,) = [pod for pod in await pods(world) if not pod.deleting]
        assert second.spec.node_name != first.spec.node_name
        await world.settled(second.spec.node_name)

    play(story)

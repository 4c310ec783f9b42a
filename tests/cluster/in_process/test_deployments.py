"""Deployments in a whole cluster: availability first, and what that means for a volume that cannot be in two
places."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from in_process_cluster import InProcessCluster, pod_spec

from mooring.kube.objects import Deployment, Pod, ReplicaSet

Play = Callable[[Any], Any]


async def deploy(cluster: InProcessCluster, replicas: int, **spec: Any) -> None:
    labels = {"app": "web"}
    plain = {"containers": [{"name": "main", "image": "app", "command": ["run"]}]}
    pod = {**pod_spec(), **spec.pop("pod", plain)}
    body = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
        **spec,
    }
    await cluster.api.create(Deployment, {"metadata": {"name": "web"}, "spec": body}, "default")


async def rolled_out(cluster: InProcessCluster) -> bool:
    found = await cluster.api.get(Deployment, "web", "default")
    status, spec = found.status, found.spec
    return (
        status.observed_generation == found.metadata.generation
        and status.updated_replicas == status.replicas == status.available_replicas == spec.replicas
    )


async def condition(cluster: InProcessCluster, kind: str) -> tuple[str, str]:
    found = await cluster.api.get(Deployment, "web", "default")
    return next(((c.status, c.reason) for c in found.status.conditions if c.type == kind), ("", ""))


async def pods(cluster: InProcessCluster) -> list[Pod]:
    return (await cluster.api.list(Pod, "default", label_selector="app=web")).items


NEXT = {"spec": {"template": {"metadata": {"annotations": {"v": "2"}}}}}


def test_a_deployment_rolls_forward_and_back(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await deploy(cluster, 3)
        await cluster.until(lambda: rolled_out(cluster))
        first = {pod.name for pod in await pods(cluster)}
        await cluster.api.patch(Deployment, "web", NEXT, "default")
        await cluster.until(lambda: rolled_out(cluster))
        assert first.isdisjoint({pod.name for pod in await pods(cluster)})
        assert await condition(cluster, "Progressing") == ("True", "NewReplicaSetAvailable")
        back = {"spec": {"template": {"metadata": {"annotations": {"v": None}}}}}
        await cluster.api.patch(Deployment, "web", back, "default")
        await cluster.until(lambda: rolled_out(cluster))
        sets = (await cluster.api.list(ReplicaSet, "default")).items
        revisions = {
            each.metadata.annotations["deployment.kubernetes.io/revision"]: each.spec.replicas
            for each in sets
        }
        assert revisions == {"2": 0, "3": 3}, "the first template became the newest revision again"

    play(story)


def test_it_scales_both_ways_and_replaces_what_is_deleted(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await deploy(cluster, 2)
        await cluster.until(lambda: rolled_out(cluster))
        for replicas in (4, 1):
            await cluster.api.patch(Deployment, "web", {"spec": {"replicas": replicas}}, "default")
            await cluster.until(lambda: rolled_out(cluster))
        (only,) = [pod for pod in await pods(cluster) if not pod.deleting]
        await cluster.api.delete(Pod, only.name, "default")
        await cluster.until(lambda: rolled_out(cluster))
        assert [pod.name for pod in await pods(cluster) if not pod.deleting] != [only.name]

    play(story)


def test_a_rollout_that_does_not_get_on_says_so(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await deploy(cluster, 1, progressDeadlineSeconds=30)
        await cluster.until(lambda: rolled_out(cluster))
        nowhere = {"spec": {"template": {"spec": {"nodeSelector": {"no": "where"}}}}}
        await cluster.api.patch(Deployment, "web", nowhere, "default")

        async def late() -> bool:
            return await condition(cluster, "Progressing") == ("False", "ProgressDeadlineExceeded")

        await cluster.until(late)
        assert await condition(cluster, "Available") == ("True", "MinimumReplicasAvailable")

    play(story)


def test_with_an_exclusive_volume_the_new_pod_waits_for_the_old_ones_detach(play: Play):
    """The documented contrast: a Deployment starts the next pod at once; only the attachment keeps the two
    apart."""

    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.claim("shared")
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}}
        await deploy(cluster, 1, strategy={"type": "Recreate"}, pod={"volumes": [volume]})
        await cluster.until(lambda: rolled_out(cluster))
        (first,) = await pods(cluster)
        await cluster.drain(first.spec.node_name)
        await cluster.until(lambda: rolled_out(cluster))
        await asyncio.sleep(30)
        (second,) = [pod for pod in await pods(cluster) if not pod.deleting]
        assert second.spec.node_name != first.spec.node_name
        await cluster.settled(second.spec.node_name)

    play(story)

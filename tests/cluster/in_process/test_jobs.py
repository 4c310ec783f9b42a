"""A Job in a whole cluster: its pods end on their nodes, one after the other, on one volume."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from in_process_cluster import InProcessCluster

from mooring.kube.objects import Job, Pod
from mooring.simulation.cluster.workloads import bodies

Play = Callable[[Any], Any]


async def complete(cluster: InProcessCluster) -> bool:
    found = await cluster.api.get(Job, "batch", "default")
    return any(each.type == "Complete" and each.status == "True" for each in found.status.conditions)


def test_pods_of_a_job_end_one_after_the_other_on_one_volume_and_stay_as_they_ended(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        for kind, body, namespace in bodies("job", "batch", 3):
            await cluster.api.create(kind, body, namespace)
        await cluster.until(lambda: complete(cluster))
        status = (await cluster.api.get(Job, "batch", "default")).status
        assert (status.succeeded, status.failed, status.active, status.terminating) == (3, 0, 0, 0)
        pods = (await cluster.api.list(Pod, "default")).items
        assert [pod.status.phase for pod in pods] == ["Succeeded"] * 3
        assert all(not pod.metadata.finalizers for pod in pods)
        starts = sorted(pod.status.start_time or "" for pod in pods)
        assert len(set(starts)) == 3

    play(story)

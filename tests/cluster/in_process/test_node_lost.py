"""What `kubectl get pods` shows of a pod whose node stops answering, as the controllers and the agent write
it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from in_process_cluster import InProcessCluster

TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


async def shows(cluster: InProcessCluster, status: str) -> bool:
    """Whether the STATUS of the one pod is this."""
    answer = await cluster.server.call("GET", "/api/v1/namespaces/default/pods", headers=TABLE)
    table = json.loads(answer.body)
    column = [each["name"] for each in table["columnDefinitions"]].index("Status")
    return [row["cells"][column] for row in table["rows"]] == [status]


def test_a_pod_of_a_silent_node_is_lost_then_terminating_and_runs_again(play: Callable[[Any], Any]):
    async def story(cluster: InProcessCluster):
        await cluster.start(nodes=2)
        await cluster.stateful_set()
        node = await cluster.until(cluster.running)
        assert await shows(cluster, "Running")
        cluster.machines[node].wire.down = True
        await cluster.until(lambda: shows(cluster, "NodeLost"))
        await cluster.until(
            lambda: shows(cluster, "Terminating")
        )  # evicted; only the node can say that it is gone
        cluster.machines[node].wire.down = False
        await cluster.until(lambda: shows(cluster, "Running"))

    play(story)


def test_a_node_that_comes_back_in_time_tells_again_that_its_pods_run(play: Callable[[Any], Any]):
    async def story(cluster: InProcessCluster):
        await cluster.start(nodes=1)
        forever = [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists"} for key in ("unreachable", "not-ready")
        ]
        await cluster.claim("c")
        await cluster.create_pod("p", "c", tolerations=forever)
        node = await cluster.until(lambda: cluster.running("p"))
        cluster.machines[node].wire.down = True
        await cluster.until(lambda: shows(cluster, "NodeLost"))
        cluster.machines[node].wire.down = False
        await cluster.until(lambda: shows(cluster, "Running"))

    play(story)

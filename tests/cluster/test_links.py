"""A node is cut off for real: what the cluster sees of it, and what goes on there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring.cluster.stage import Stage
from mooring.kube.objects import Node, Pod

pytestmark = [pytest.mark.root, pytest.mark.cluster]

COUNT = "i=0; while sleep 0.1; do i=$((i+1)); echo $i; done"
SERVE = "cd /etc && exec python3 -m http.server --bind 0.0.0.0 8080"
ASK = """
import time, urllib.request
while True:
    try:
        print("answer", len(urllib.request.urlopen("http://ADDRESS:8080/hostname", timeout=1).read()) > 0)
    except OSError as error:
        print("silence", "timed out" in str(error))
    time.sleep(0.2)
"""


async def order(stage: Stage, *words: str) -> str:
    status, answer = await stage.command("node", *words)
    if "cannot be cut" in answer:
        pytest.skip(answer)
    assert status == 0, answer
    return answer


async def run(stage: Stage, name: str, node: str, script: list[str]) -> Pod:
    container = {"name": "main", "image": "x", "command": script}
    spec = {"nodeName": node, "tolerations": [{"operator": "Exists"}], "containers": [container]}
    await stage.client.create(Pod, {"metadata": {"name": name}, "spec": spec}, "default")

    async def running() -> Pod | None:
        pod = await stage.client.get(Pod, name, "default")
        return pod if pod.status.phase == "Running" and pod.status.pod_ip else None

    return await stage.until(f"{name} runs", running)


def is_ready(stage: Stage, node: str, wanted: str) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return (await stage.client.get(Node, node)).ready == wanted

    return holds


def last(stage: Stage, node: str, pod: Pod) -> str:
    return (stage.log_of(node, pod.uid, "main").splitlines() or [""])[-1]


def later(stage: Stage, node: str, pod: Pod, holds: Callable[[str], bool]) -> Callable[[], Any]:
    """A line that was written from now on."""
    before = last(stage, node, pod)
    return lambda: (line := last(stage, node, pod)) != before and holds(line)


async def test_a_node_that_is_cut_off_from_the_api_server_is_unknown_goes_on_writing_and_comes_back(
    stage: Stage,
) -> None:
    pod = await run(stage, "writer", "node-1", ["sh", "-c", COUNT])
    assert await order(stage, "cut", "node-1", "--from", "api") == "node-1: cut from the API server"
    await stage.until("node-1 is Unknown", is_ready(stage, "node-1", "Unknown"))
    await stage.until("its pod goes on writing", later(stage, "node-1", pod, lambda line: True))
    assert await is_ready(stage, "node-2", "True")()
    await order(stage, "heal", "node-1")
    await stage.until("node-1 is Ready again", is_ready(stage, "node-1", "True"))


async def test_a_node_that_is_cut_off_from_its_peers_is_ready_and_its_pods_hear_no_other_nodes(
    stage: Stage,
) -> None:
    server = await run(stage, "server", "node-1", ["sh", "-c", SERVE])
    script = ASK.replace("ADDRESS", server.status.pod_ip)
    asking = await run(stage, "asking", "node-2", ["python3", "-uc", script])
    await stage.until("it is answered", later(stage, "node-2", asking, lambda line: "answer" in line))
    await order(stage, "cut", "node-1", "--from", "peers")
    await stage.until("it is silent", later(stage, "node-2", asking, lambda line: "silence True" in line))
    assert await is_ready(stage, "node-1", "True")()
    await order(stage, "heal", "node-1")
    await stage.until("it is answered again", later(stage, "node-2", asking, lambda line: "answer" in line))


async def test_a_node_that_boots_while_it_is_cut_off_stays_so_until_it_is_healed(stage: Stage) -> None:
    await order(stage, "cut", "node-1")
    await stage.until("node-1 is Unknown", is_ready(stage, "node-1", "Unknown"))
    await order(stage, "kill", "node-1")
    await order(stage, "start", "node-1")
    pid = stage.machine("node-1")
    assert pid is not None
    _, answer = await stage.command("node", "cut", "node-1", "--from", "api", "--direction", "in")
    assert answer == "node-1: cut from everything, cut from the API server (in)"
    assert not await is_ready(stage, "node-1", "True")()
    await order(stage, "heal", "node-1")
    await stage.until("node-1 is Ready again", is_ready(stage, "node-1", "True"))

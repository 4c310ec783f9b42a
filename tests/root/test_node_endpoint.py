"""kubectl logs and kubectl exec, through the API server to a real agent and real processes."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from agent_process import AgentProcess, agent_world

from mooring.kube.objects import Node
from mooring.kube.transport import Request

pytestmark = pytest.mark.root

BUILT = Path.home() / ".cache/mooring/assets/1.36.3/kubectl"
KUBECTL = os.environ.get("MOORING_KUBECTL") or (str(BUILT) if BUILT.exists() else shutil.which("kubectl"))
needs_kubectl = pytest.mark.skipif(
    not KUBECTL, reason="needs kubectl: put it on PATH, or name it in MOORING_KUBECTL"
)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[AgentProcess]:
    async with agent_world(tmp_path) as world:
        await world.start()
        yield world


async def kubectl(world: AgentProcess, *words: str, stdin: bytes | None = None) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(str(KUBECTL), "--kubeconfig", str(world.admin_kubeconfig), *words),
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "HOME": str(world.root)},
    )
    out, errors = await process.communicate(stdin)
    return process.returncode or 0, out.decode(), errors.decode()


async def log_of(world: AgentProcess, **query: Any) -> str:
    words = tuple((key, str(value)) for key, value in query.items())
    path = "/api/v1/namespaces/default/pods/web-0/log"
    answer = await world.api.transport.send(Request("GET", path, words))
    return answer.body.decode()


async def start(world: AgentProcess, script: str, **spec: Any) -> None:
    await world.create_pod(script, **{"volumes": [], **spec})
    await world.until(world.running)


async def test_a_log_is_shown_as_it_was_asked_for(world: AgentProcess) -> None:
    await start(world, "for n in 1 2 3; do echo $n; done; echo error >&2; exec sleep 1000")
    await world.until(lambda: written(world, "error"))
    assert sorted((await log_of(world)).split()) == ["1", "2", "3", "error"]
    assert await log_of(world, tailLines=1, stream="Stdout") == "3\n"
    assert await log_of(world, limitBytes=3, stream="Stdout") == "1\n2"
    assert (await log_of(world, timestamps="true", stream="Stderr")).endswith("Z error\n")
    assert await log_of(world, sinceTime="2100-01-01T00:00:00Z") == ""
    assert "is not a whole number" in await log_of(world, tailLines="x")
    assert "container other is not valid for pod web-0" in await log_of(world, container="other")
    assert "previous terminated container" in await log_of(world, previous="true")


async def test_mooring_logs_follows_and_cuts(world: AgentProcess) -> None:
    await world.create_pod("echo one; echo two; exit 0", volumes=[], restartPolicy="Never")
    await world.until(lambda: written(world, "two"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mooring.cli.main", "logs", "web-0", "-f", "--tail", "1"),
        *("--kubeconfig", str(world.admin_kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert (await process.communicate())[0] == b"two\n"


async def written(world: AgentProcess, word: str) -> bool:
    return word in await log_of(world)


async def test_a_log_is_followed_to_the_end_of_its_container(world: AgentProcess) -> None:
    await start(
        world, "echo one; until [ -e /go ]; do sleep 0.05; done; echo two; exit 3", restartPolicy="Never"
    )
    query = (("follow", "true"),)
    path = "/api/v1/namespaces/default/pods/web-0/log"
    answer = await world.api.transport.send(Request("GET", path, query, stream=True))
    assert answer.stream is not None
    heard = b""
    async for piece in answer.stream:
        if not heard:
            assert await kubectl(world, "exec", "web-0", "--", "touch", "/go") == (0, "", "")
        heard += piece
    assert heard == b"one\ntwo\n"


async def test_the_attempt_before_has_its_own_log(world: AgentProcess) -> None:
    script = "if [ -e /data/x ]; then echo second; exec sleep 1000; fi; echo first > /data/x; cat /data/x"
    await start(world, script, volumes=[{"name": "data", "emptyDir": {}}])
    await world.until(lambda: written(world, "second"))
    assert await log_of(world) == "second\n"
    assert await log_of(world, previous="true") == "first\n"


async def test_a_terminal_has_the_size_that_the_client_says(world: AgentProcess) -> None:
    await start(world, "exec sleep 1000")
    node = json.loads(await world.api.request("GET", "/api/v1/nodes/node-1"))
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    query = [("command", "sh"), ("tty", "true"), ("stdin", "true"), ("stdout", "true")]
    token = {"Authorization": f"Bearer {world.endpoint_token.read_text()}"}
    heard: dict[int, bytes] = {}
    async with (
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
        session.ws_connect(
            "/exec/default/web-0/main", params=query, headers=token, protocols=["v5.channel.k8s.io"]
        ) as socket,
    ):
        await socket.send_bytes(b'\x04{"Width": 91, "Height": 17}')
        await socket.send_bytes(b"\x00stty size; tty; exit 3\n")
        async for message in socket:
            heard[message.data[0]] = heard.get(message.data[0], b"") + message.data[1:]
    assert b"17 91\r\n/dev/pts/" in heard[1]
    assert json.loads(heard[3])["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


@pytest.mark.parametrize(("script", "last"), [("echo hello", None), ("echo hello; exit 3", "exit status 3")])
async def test_the_first_protocol_says_only_what_went_wrong(
    world: AgentProcess, script: str, last: str | None
) -> None:
    await start(world, "exec sleep 1000")
    node = json.loads(await world.api.request("GET", "/api/v1/nodes/node-1"))
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    query = [("command", word) for word in ("sh", "-c", script)]
    token = {"Authorization": f"Bearer {world.endpoint_token.read_text()}"}
    async with (
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
        session.ws_connect(
            "/exec/default/web-0/main", params=query, headers=token, protocols=["channel.k8s.io"]
        ) as socket,
    ):
        assert socket.protocol == "channel.k8s.io"
        heard = [message.data async for message in socket]
    assert heard[0] == b"\x01hello\n"
    failure = f"\x03command terminated with non-zero exit code: {last}".encode()
    assert heard[1:] == ([failure] if last else [])


async def test_who_does_not_show_the_token_is_not_answered(world: AgentProcess) -> None:
    node = json.loads(await world.api.request("GET", "/api/v1/nodes/node-1"))
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic x"}):
            async with session.get("/stats/summary", headers=headers) as answer:
                assert answer.status == 401


@needs_kubectl
async def test_a_command_gets_input_and_gives_output_errors_and_its_exit_code(world: AgentProcess) -> None:
    await start(world, "exec sleep 1000")
    script = "read line; echo got $line; echo oops >&2; exit 7"
    result = await kubectl(world, "exec", "-i", "web-0", "--", "sh", "-c", script, stdin=b"hello\n")
    assert result == (7, "got hello\n", "oops\ncommand terminated with exit code 7\n")
    assert await kubectl(world, "exec", "-i", "web-0", "--", "cat", stdin=b"x" * 300_000) == (
        0,
        "x" * 300_000,
        "",
    )
    code, _, errors = await kubectl(world, "exec", "web-0", "--", "no-such-program")
    assert code != 0
    assert "'no-such-program'" in errors


async def test_the_summary_tells_how_full_each_volume_is(world: AgentProcess) -> None:
    script = "head -c 100000 /dev/zero > /data/file; echo done; exec sleep 1000"
    await start(world, script, volumes=[{"name": "data", "emptyDir": {}}])
    await world.until(lambda: written(world, "done"))
    page = json.loads(await world.api.request("GET", "/api/v1/nodes/node-1/proxy/stats/summary"))
    (pod,) = page["pods"]
    assert pod["podRef"]["name"] == "web-0"
    (volume,) = pod["volume"]
    assert volume["name"] == "data"
    assert 100_000 <= volume["usedBytes"] < volume["capacityBytes"]


@pytest.mark.parametrize("follow", [True, False])
async def test_a_log_is_sent_over_a_web_socket_until_it_or_the_client_ends(
    world: AgentProcess, follow: bool
) -> None:
    await start(world, "echo one; echo two; exec sleep 1000")
    await world.until(lambda: written(world, "two"))
    user = yaml.safe_load(world.admin_kubeconfig.read_text())["users"][0]["user"]
    token = {"Authorization": f"Bearer {user['token']}"}
    query = {"follow": "true"} if follow else {}
    heard = b""
    async with (
        aiohttp.ClientSession(world.url) as session,
        session.ws_connect(
            "/api/v1/namespaces/default/pods/web-0/log",
            params=query, headers=token, protocols=["binary.k8s.io"], ssl=False,
        ) as socket,
    ):  # fmt: skip
        async for message in socket:
            heard += message.data
            if follow and heard == b"one\ntwo\n":
                break
    assert heard == b"one\ntwo\n"
    assert socket.close_code == 1000


@needs_kubectl
async def test_kubectl_shows_logs_and_pages_of_the_node(world: AgentProcess) -> None:
    await start(world, "echo hello; exec sleep 1000")
    await world.until(lambda: written(world, "hello"))
    assert await kubectl(world, "logs", "web-0") == (0, "hello\n", "")
    code, page, _ = await kubectl(world, "get", "--raw", "/api/v1/nodes/node-1/proxy/stats/summary")
    assert code == 0
    assert '"nodeName"' in page
    code, _, errors = await kubectl(world, "attach", "web-0")
    assert code != 0
    assert "not served" in errors


@needs_kubectl
async def test_kubectl_is_told_that_the_node_is_silent_and_since_when(world: AgentProcess) -> None:
    await start(world, "exec sleep 1000")
    await world.stop(signal.SIGKILL)
    since = "2030-01-01T00:00:00Z"
    lost = {"type": "Ready", "status": "Unknown", "lastTransitionTime": since}
    await world.api.patch(
        Node, "node-1", {"status": {"conditions": [lost]}}, subresource="status", strategy="strategic"
    )
    for words in (("exec", "web-0", "--", "true"), ("logs", "web-0")):
        code, _, errors = await kubectl(world, *words)
        assert code != 0
        assert f"the node has been silent since {since}" in errors

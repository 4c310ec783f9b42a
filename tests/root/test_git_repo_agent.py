"""A node agent with gitRepo volumes: refused by default, a clone where the operator allows it."""

from __future__ import annotations

import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agent_process import AgentProcess, agent_world
from git_server import BACKEND, FILE, Repository, serving

from mooring.kube.objects import Pod

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(240),
    pytest.mark.skipif(
        shutil.which("git") is None or not BACKEND.exists(), reason="needs git: apt-get install git"
    ),
]
ON = ("--plugin-setting", "kubernetes.io/git-repo:enabled=true")
SCRIPT = 'trap "exit 0" TERM; cat /code/www/index; echo more > /code/www/more; while sleep 0.1; do :; done'


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[AgentProcess]:
    async with agent_world(tmp_path) as world:
        yield world


def volume(url: str) -> list[dict[str, Any]]:
    return [{"name": "code", "gitRepo": {"repository": f"{url}/site", "directory": "www"}}]


async def test_a_pod_waits_while_they_are_off_and_has_its_clone_when_they_are_on(
    world: AgentProcess, tmp_path: Path
):
    site = Repository(tmp_path / "served/site")
    site.commit([(FILE, "index", site.blob("hello\n"))])
    with serving(tmp_path / "served") as url:
        await world.start()
        pod = await world.create_pod(SCRIPT, volumes=volume(url))
        said = await world.until(lambda: world.event("FailedMount"))
        assert "init container" in said
        assert not list(world.node_root.glob("pods/*/volumes/*/code/*"))
        await world.stop(signal.SIGKILL)
        await world.start("boot-1", *ON)
        await world.until(world.running)
        await world.until(lambda: world.log(pod) == ["hello"])

        # Another agent leaves the volume as the pod has made it, and removes it after the pod.
        await world.stop(signal.SIGKILL)
        await world.start("boot-1", *ON)
        (code,) = world.node_root.glob("pods/*/volumes/*/code")
        assert (code / "www/more").read_text() == "more\n"
        await world.api.delete(Pod, "web-0", "default")
        await world.until(world.gone)
        assert not code.exists()
        assert not list(world.node_root.glob("plugins/kubernetes.io~git-repo/whole/*"))

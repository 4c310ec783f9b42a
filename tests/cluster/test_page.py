"""The live page of `mooring up --page`: what is reported, what is true, and `mooring page` beside it."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from standing_cluster import standing
from tests.cluster.conftest import TWO_NODES
from tests.cluster.test_up import start_recorder

from mooring.cluster.stage import Stage, mooring

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(300)]
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/\?token=\S+")


@pytest.fixture
async def stage(data_dir: Path, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    async with standing(data_dir, *TWO_NODES, "--page", *getattr(request, "param", ()), nodes=2) as stage:
        yield stage


class Page:
    def __init__(self, session: aiohttp.ClientSession, address: re.Match[str]) -> None:
        self.session, self.address = session, address

    async def state(self) -> dict[str, Any]:
        async with self.session.get(self.address[0]) as answer:
            assert answer.status == 200
        async with self.session.get(f"http://127.0.0.1:{self.address[1]}/api/state") as answer:
            return await answer.json()


async def printed(stage: Stage) -> re.Match[str]:
    return await stage.until(
        "the page's address is printed", lambda: ADDRESS.search((stage.layout.root / "up.log").read_text())
    )


@pytest.mark.parametrize("stage", [(), ("--cloud",)], ids=["array", "cloud"], indirect=True)
async def test_a_node_without_power_is_reported_and_true_and_then_explained(stage: Stage):
    pod = await start_recorder(stage)
    node = pod.spec.node_name
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        page = Page(session, await printed(stage))

        async def volume() -> dict[str, Any]:
            (row,) = (await page.state())["volumes"].values()
            return row

        async def is_true(state: str) -> bool:
            return (await volume()).get("true") == {node: state}

        await stage.until("the volume is truly mounted", lambda: is_true("mounted"))
        assert (await volume())["phase"] == "in-use"
        assert "differs" not in await volume()
        await stage.command("node", "kill", node)
        await stage.until("its node has no power", lambda: is_true("attached, no power"))
        assert "differs" in await volume()

        async def silent() -> Any:
            return (await page.state())["stuck"].get(f"node/{node}")

        stuck = await stage.until("the node is explained", silent)
        assert stuck["chain"][0]["commands"] == [f"mooring node confirm-dead {node}"]


async def test_beside_it_mooring_page_shows_any_cluster_of_a_kubeconfig(stage: Stage):
    await start_recorder(stage)
    kubeconfig = str(stage.layout.kubeconfig)
    process = await asyncio.create_subprocess_exec(
        *mooring("page", "--kubeconfig", kubeconfig), stdout=asyncio.subprocess.PIPE, env=dict(os.environ)
    )
    try:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        address = ADDRESS.fullmatch(line.strip())
        assert address is not None
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            page = Page(session, address)

            async def shown() -> bool:
                state = await page.state()
                return [row["phase"] for row in state["volumes"].values()] == ["in-use"]

            await stage.until("the volume is shown", shown)
            state = await page.state()
            assert state["facts"]["reads"] == []
            assert state["facts"]["truth"] is False
            assert "true" not in json.dumps(list(state["volumes"].values()))
    finally:
        process.terminate()
        assert await process.wait() == 0

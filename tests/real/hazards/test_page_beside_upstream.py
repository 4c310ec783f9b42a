"""The live page on a cluster that upstream's controllers run: what waits there, for what, and what to do."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import page_cluster as made
import pytest
from tests.real.hazards.control_plane import UPSTREAM, stage
from tests.real.hazards.stage import HazardCluster
from tests.real.server import RealServer, real_server

from mooring.apiserver.data_directory import write_kubeconfig
from mooring.cluster.processes import mooring
from mooring.page.following import Following
from mooring.page.model import Model

pytestmark = pytest.mark.timeout(400)
OLD, NEW = "page-old", "page-new"


@asynccontextmanager
async def followed(played: HazardCluster) -> AsyncGenerator[Model]:
    """What the page shows."""
    model = made.model(now=lambda: int(time.time() * 1000))
    following = Following(played.client, model, lambda batch: None)
    working = asyncio.create_task(following.run())
    try:
        await asyncio.wait_for(following.begun.wait(), 60)
        yield model
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def typed(command: str, server: RealServer, folder: Path) -> None:
    """What the page gives to copy, by an administrator of this cluster."""
    kubeconfig = folder / "administrator.kubeconfig"
    write_kubeconfig(kubeconfig, server.url, token=server.token, authority=server.authority.read_bytes())
    program, *words = shlex.split(command)
    assert program == "mooring"
    process = await asyncio.create_subprocess_exec(*mooring(*words), "--kubeconfig", str(kubeconfig))
    assert await process.wait() == 0


def reasons(model: Model, what: str) -> list[str]:
    """Why it waits, down to the cause."""
    return [link["code"] for link in model.tables["stuck"].get(what, {}).get("chain", ())]


async def test_a_lost_node_is_named_as_the_cause_and_the_command_that_is_shown_moves_its_volume(
    programs: Path, tmp_path: Path
):
    if not (programs / "kube-controller-manager").exists():
        pytest.skip("needs kube-controller-manager: run `make assets`")
    with real_server(programs, tmp_path) as server:
        async with stage(server, programs, tmp_path, UPSTREAM) as (played, _), followed(played) as model:
            await _until_the_node_is_blamed(played, model)
            assert reasons(model, "pod/default/b") == [
                "WaitingForVolumes",
                "MultiAttach",
                "AttachedElsewhere",
                "NodeNotAnswering",
            ]
            shown: list[dict[str, Any]] = model.tables["stuck"]["pod/default/b"]["chain"]
            played.truth.mounted["v"].discard(OLD)  # its machine is off
            await typed(shown[-1]["commands"][0], server, tmp_path)
            await played.kubelets[NEW].mount("v")

            async def moved() -> bool:
                return model.tables["volumes"]["v"]["on"] == [{"node": NEW, "state": "in-use"}]

            await played.until("the page shows that it has moved", moved, 120)

            async def over() -> bool:
                return not any(reasons(model, each) for each in ("pv/v", "pvc/default/v"))

            await played.until("the page shows no reason any more", over, 60)
            assert played.truth.harm("v") == ""


async def _until_the_node_is_blamed(played: HazardCluster, model: Model) -> None:
    for name in (OLD, NEW):
        await played.node(name)
    await played.volume("v")
    await played.running_with_volume("v", OLD, "a", tolerates=False)
    played.kubelets[OLD].answers = False
    await played.pod("b", NEW, "v")

    async def blamed() -> bool:
        return "NodeNotAnswering" in reasons(model, "pod/default/b")

    await played.until("upstream's life cycle controller marks the node, and the page says so", blamed, 150)

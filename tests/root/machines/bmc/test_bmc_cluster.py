"""`mooring up --bmc`: its machines are switched off by their devices; nothing of the devices is left after
it."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.root.machines.bmc.conftest import need

from mooring.cluster.processes import mooring
from mooring.cluster.stage import Stage, run

pytestmark = pytest.mark.root


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    need("ipmi_sim")
    directory = Path(tempfile.mkdtemp(prefix="mooring-test-"))
    stage = Stage(directory)
    try:
        yield stage
    finally:
        status, answer = await stage.down()
        shutil.rmtree(directory)
    assert status == 0, answer


def devices(stage: Stage) -> list[str]:
    """What ipmi_sim runs for the cluster, by the directory that it runs in."""
    found = list[str]()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if "ipmi_sim" in (process / "comm").read_text():
                found.append(os.readlink(process / "cwd"))
        except OSError:
            continue
    return sorted(cwd for cwd in found if cwd.startswith(str(stage.layout.root)))


async def reach(stage: Stage, node: str) -> dict[str, Any]:
    status, said = await stage.command("machine", "bmc", node, "-o", "json")
    assert status == 0, said
    return json.loads(said)


async def agent(stage: Stage, node: str, action: str, known: dict[str, Any] | None = None) -> tuple[int, str]:
    """Runs fence_ipmilan as `mooring machine bmc` says, or said when it was `known`."""
    need("fence_ipmilan")
    words = shlex.split((known or await reach(stage, node))["commands"]["fence_ipmilan"])
    return await run([*words[:-1], action], {**os.environ, "PYTHONWARNINGS": "ignore"})


def powered(stage: Stage) -> list[str]:
    """The nodes whose machines have power."""
    nodes = sorted(path.name for path in stage.layout.nodes.iterdir())
    return [node for node in nodes if stage.has_power(node)]


async def states(stage: Stage) -> list[tuple[str, ...]]:
    _, said = await stage.command("machine", "list", "-o", "json")
    return [(each["machine"], each["power"], each["bmcSays"]) for each in json.loads(said)]


async def test_a_machine_of_a_cluster_is_switched_off_and_on_by_its_bmc(stage: Stage):
    await stage.up("--nodes", "2", "--port", "0", "--bmc")
    init = stage.machine("node-1")
    assert init is not None
    assert (await agent(stage, "node-1", "off"))[0] == 0
    assert not init.alive
    assert powered(stage) == ["node-2"]
    assert await states(stage) == [("node-1", "off", "off"), ("node-2", "on", "on")]
    assert (await agent(stage, "node-1", "on"))[0] == 0
    await stage.until("both machines run", lambda: len(powered(stage)) == 2)
    assert await states(stage) == [("node-1", "on", "on"), ("node-2", "on", "on")]


async def test_a_bmc_that_lies_is_told_apart_from_the_truth(stage: Stage):
    await stage.up("--nodes", "2", "--port", "0", "--bmc")
    status, said = await stage.command("machine", "bmc", "node-1", "--misbehave", "lie", "--device", "bmc")
    assert (status, said) == (0, "node-1: bmc: lie")
    assert (await agent(stage, "node-1", "off"))[0] == 0
    assert await states(stage) == [("node-1", "on", "off"), ("node-2", "on", "on")]
    _, table = await stage.command("machine", "list")
    assert "bmc=lie" in table
    await stage.command("machine", "bmc", "node-1", "--misbehave", "none")
    assert await states(stage) == [("node-1", "on", "on"), ("node-2", "on", "on")]


async def test_after_kill_9_of_up_every_device_fails_and_down_leaves_none(stage: Stage):
    await stage.up("--nodes", "2", "--port", "0", "--bmc")
    known = {node: await reach(stage, node) for node in ("node-1", "node-2")}
    await stage.command("machine", "bmc", "node-1", "--misbehave", "silent")
    asked = asyncio.create_task(agent(stage, "node-1", "off", known["node-1"]))
    await asyncio.sleep(0.5)
    held = stage.part("up")
    assert held is not None
    os.kill(held.pid, signal.SIGKILL)
    assert (await asked)[0] not in (0, 2)
    assert len(devices(stage)) == 2
    assert (await agent(stage, "node-2", "status", known["node-2"]))[0] not in (0, 2)
    status, said = await stage.command("machine", "list")
    assert (status, "no BMCs run" in said) == (1, True)
    status, said = await stage.command("down")
    assert status == 0, said
    assert "bmc-node-1" in said
    assert devices(stage) == []
    assert stage.leftovers() == []


async def test_ports_and_passwords_are_the_same_after_a_restart_and_an_ipmi_sim_that_dies_comes_back(
    stage: Stage,
):
    await stage.up("--nodes", "2", "--port", "0", "--bmc")
    before = [await reach(stage, node) for node in ("node-1", "node-2")]
    killed = stage.part("bmc-node-1")
    stage.kill_part("bmc-node-1")
    await stage.until("ipmi_sim runs again", lambda: stage.part("bmc-node-1") not in (killed, None))

    async def answers() -> bool:
        return (await agent(stage, "node-1", "status"))[0] == 0

    await stage.until("it answers", answers)
    await stage.down()
    assert devices(stage) == []
    await stage.up("--nodes", "2", "--port", "0", "--bmc")
    assert [await reach(stage, node) for node in ("node-1", "node-2")] == before
    assert (await agent(stage, "node-1", "status"))[0] == 0


async def test_two_clusters_stand_side_by_side_and_switch_their_own_machines(stage: Stage):
    await stage.up("--nodes", "1", "--port", "0", "--bmc")
    with tempfile.TemporaryDirectory(prefix="mooring-test-") as directory:
        other = Stage(Path(directory))
        try:
            await other.up("--nodes", "1", "--port", "0", "--bmc")
            assert (await agent(other, "node-1", "off"))[0] == 0
            assert (powered(other), powered(stage)) == ([], ["node-1"])
        finally:
            await other.down()
        assert devices(other) == []
        assert len(devices(stage)) == 1
        assert (await agent(stage, "node-1", "status"))[0] == 0


async def test_secrets_are_on_no_command_line_and_in_no_log(stage: Stage):
    await stage.up("--nodes", "1", "--port", "0", "--bmc")
    _, said = await stage.command("machine", "bmc", "node-1")
    _, shown = await stage.command("machine", "bmc", "node-1", "--show-password")
    bmc = stage.layout.root / "bmc"
    secrets = [(bmc / name).read_text() for name in ("password", "community")]
    await agent(stage, "node-1", "status")
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    logs = [path.read_bytes() for path in stage.layout.logs.iterdir()]
    for secret in secrets:
        assert secret not in said
        assert secret in shown
        assert not any(secret.encode() in text for text in lines + logs)


async def test_without_bmcs_the_command_says_so_in_one_line(stage: Stage):
    await stage.up("--nodes", "1", "--port", "0")
    for words in (["list"], ["bmc", "node-1"], ["bmc", "node-1", "--misbehave", "lie"]):
        status, said = await stage.command("machine", *words)
        assert status == 1
        assert "`mooring up --bmc`" in said
        assert "\n" not in said
    assert devices(stage) == []


async def test_without_ipmi_sim_up_says_in_one_line_which_package_has_it_and_leaves_nothing(
    stage: Stage, tmp_path: Path
):
    for folder in ("/usr/sbin", "/usr/bin", "/sbin", "/bin"):
        for program in Path(folder).iterdir():
            if program.name != "ipmi_sim" and not (tmp_path / program.name).is_symlink():
                (tmp_path / program.name).symlink_to(program)
    up = mooring("up", "--nodes", "1", "--port", "0", "--bmc", "--data-dir", str(stage.layout.root))
    status, said = await run(up, {**os.environ, "PATH": str(tmp_path)})
    assert status == 1
    assert said.splitlines()[-1] == "error: BMCs need ipmi_sim: apt-get install openipmi"
    assert stage.leftovers() == []


async def test_what_is_wrong_is_told_in_a_line(stage: Stage):
    await stage.up("--nodes", "1", "--port", "0", "--bmc")
    for words, why in (
        (["node-9"], "no machine 'node-9': there are node-1"),
        (["node-1", "--misbehave", "sulk"], "is no misbehaviour"),
        (["node-1", "--misbehave", "wrong=node-9"], "no machine 'node-9'"),
        (["node-1", "--misbehave", ""], "--misbehave: late=5s"),
        (["node-1", "--device", "bmc"], "--device is about --misbehave"),
    ):
        status, said = await stage.command("machine", "bmc", *words)
        assert status != 0
        assert why in said

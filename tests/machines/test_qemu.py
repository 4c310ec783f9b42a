"""A virtual machine as a node, as a user meets it: what it sees, loses, refuses, and comes back with.

QEMU computes it in software here, so these tests take minutes: soak plays them.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from standing_cluster import standing
from tests.machines import stories
from tests.machines.machines import NODE, back_after, boot_of, inside, medium, order, plugged, silent

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines.qemu import host
from mooring.cluster.machines.qemu.command_line import Computing
from mooring.cluster.stage import Stage
from mooring.kube.objects import Node
from mooring.mounts.blocking import blocking
from mooring.volumes.errors import DeviceStillInUse

pytestmark = [pytest.mark.root, pytest.mark.timeout(500)]
SOAK = bool(os.environ.get("MOORING_SOAK"))
soak = pytest.mark.skipif(not SOAK, reason="computes in software, for minutes: MOORING_SOAK=1 plays it")
PATIENCE_S = 180.0


@pytest.fixture(scope="session", autouse=True)
def _possible() -> None:
    """What is missing here is said as its user would read it."""
    try:
        host.check(Computing.TCG)
    except ClusterError as error:
        pytest.skip(str(error))


def kind() -> str:
    """KVM where it boots."""
    try:
        host.check(Computing.KVM)
    except ClusterError:
        return "qemu-tcg"
    return "qemu"


@pytest.fixture
async def stage(data_dir: Path) -> AsyncIterator[Stage]:
    """A cluster of one virtual machine; afterwards nothing of it is left."""
    flags = ("--machines", f"{kind()}=1", "--port", "0", "--node-monitor-grace-period", "20")
    async with standing(data_dir, *flags, nodes=1, patience=PATIENCE_S) as stage:
        yield stage


async def again(stage: Stage, boot: str) -> str:
    """The boot after that one."""
    return await back_after(stage, boot, patience=PATIENCE_S)


async def test_a_virtual_machine_runs_the_agent_on_a_kernel_of_its_own_and_keeps_a_disk_that_is_open(
    stage: Stage,
) -> None:
    assert await inside(stage, "uname -r") == host.guest_kernel().release
    assert await inside(stage, "hostname") == NODE
    root = stage.layout.root
    assert (await inside(stage, f"find {root} -name '*.crt' -o -name '*.sqlite*' | wc -l")) == "0"
    there = Path(f"/usr/machine-{root.name}")
    await inside(stage, f"echo changed > {there} && cat {there}")
    assert not there.exists()

    link = await plugged(stage, "d")
    await inside(stage, f"mkfs.ext4 -q {link} && mkdir -p /d && mount {link} /d && echo kept > /d/file")
    with pytest.raises(DeviceStillInUse, match=f"kernel of {NODE} has it open"):
        await blocking(stage.array.detach, "d", NODE)
    await inside(stage, f"umount /d; (exec sleep 600 < {link}) > /dev/null 2>&1 & sleep 1")
    with pytest.raises(DeviceStillInUse, match=r"process \d+ has it open"):
        await blocking(stage.array.detach, "d", NODE)
    await inside(stage, "pkill -x sleep")
    await blocking(stage.array.detach, "d", NODE)
    assert await inside(stage, f"ls -l {link} 2>/dev/null | wc -l; ls /dev/vd* | wc -l") == "0\n1"
    assert b"kept" in medium(stage, "d").read_bytes()


@soak
async def test_a_second_disk_does_not_get_the_name_of_the_first(stage: Stage) -> None:
    await stories.a_second_disk_keeps_its_own_name(stage)


@soak
async def test_a_power_loss_takes_what_was_not_synced_and_nothing_writes_after_it(stage: Stage) -> None:
    await stories.a_power_loss_takes_what_was_not_synced(stage, lines=1)


@soak
async def test_a_panic_leaves_the_machine_off_until_it_is_started_in_another_boot(stage: Stage) -> None:
    await stories.a_panic_leaves_the_machine_off(stage, patience=PATIENCE_S)


@soak
async def test_a_panic_of_its_own_leaves_the_machine_off(stage: Stage) -> None:
    with pytest.raises(ClusterError):
        await stage.run_in(NODE, "echo c > /proc/sysrq-trigger; sleep 60")
    await stage.until("it is off", lambda: not stage.has_power(NODE))
    await silent(stage)
    assert not stage.has_power(NODE)


@soak
async def test_a_watchdog_that_is_not_fed_resets_the_machine(stage: Stage) -> None:
    boot = await boot_of(stage)
    await inside(stage, "(sleep 300 > /dev/watchdog0) > /dev/null 2>&1 &")
    assert await again(stage, boot) != boot
    assert stage.has_power(NODE)


@soak
async def test_a_kernel_that_is_reset_from_within_boots_again_with_its_network(stage: Stage) -> None:
    boot = await boot_of(stage)
    with pytest.raises(ClusterError):
        await stage.run_in(NODE, "echo b > /proc/sysrq-trigger; sleep 60")
    assert await again(stage, boot) != boot


@soak
async def test_io_that_hangs_waits_in_d_state_and_the_rest_goes_on(stage: Stage) -> None:
    link = await plugged(stage, "d")
    await inside(stage, f"mkfs.ext4 -q {link} && mkdir -p /d && mount {link} /d")
    await order(stage, "hang", NODE)
    await inside(stage, "(echo x > /d/x; sync /d/x; touch /run/done) > /dev/null 2>&1 &")
    await asyncio.sleep(5)
    assert await inside(stage, "ps axo stat,comm | grep ^D")
    assert (await stage.run_in(NODE, "test -e /run/done"))[0] == 1
    assert (await stage.client.get(Node, NODE)).ready == "True"
    assert "I/O hangs" in (await stage.command("status"))[1]
    await order(stage, "heal", NODE)

    async def done() -> bool:
        return (await stage.run_in(NODE, "test -e /run/done"))[0] == 0

    await stage.until("the write has ended", done)
    assert "I/O hangs" not in (await stage.command("status"))[1]


@soak
async def test_a_machine_whose_io_hangs_can_lose_its_power(stage: Stage) -> None:
    await order(stage, "hang", NODE)
    await inside(stage, "(echo x > /root/x; sync) > /dev/null 2>&1 &")
    await order(stage, "kill", NODE)
    assert not stage.has_power(NODE)


@soak
async def test_a_frozen_machine_is_silent_and_goes_on_where_it_was(stage: Stage) -> None:
    boot = await boot_of(stage)
    await order(stage, "freeze", NODE)
    await silent(stage)
    assert stage.has_power(NODE)
    with pytest.raises(ClusterError, match="is frozen"):
        await stage.run_in(NODE, "true")
    await order(stage, "thaw", NODE)
    await stage.until("the node is Ready", lambda: stage.ready_nodes(1))
    assert await boot_of(stage) == boot


@soak
async def test_a_machine_has_a_clock_of_its_own(stage: Stage) -> None:
    await order(stage, "skew", NODE, "+1h")
    ahead = int(await inside(stage, "date +%s")) - time.time()
    assert 3500 < ahead < 3700
    await order(stage, "heal", NODE)
    assert abs(int(await inside(stage, "date +%s")) - time.time()) < 100


@soak
async def test_after_kill_9_of_up_down_leaves_nothing_of_its_machines(data_dir: Path) -> None:
    stage = Stage(data_dir)
    await stage.up("--machines", f"{kind()}=1", "--port", "0")
    await stage.until("the node is Ready", lambda: stage.ready_nodes(1), patience=PATIENCE_S)
    await plugged(stage, "d")
    stage.kill_part("up")
    assert stage.has_power(NODE)
    status, answer = await stage.down()
    assert status == 0
    assert "machine-node-1" in answer
    assert stage.leftovers() == []

"""Machines with a kernel of their own, as a user meets them: what they see, lose, and come back with."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.machines import stories
from tests.machines.machines import (
    NODE,
    back_after,
    boot_of,
    inside,
    order,
    plugged,
    silent,
)

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines import cgroup
from mooring.cluster.machines.uml.io_helpers import io_helpers
from mooring.cluster.stage import Stage
from mooring.kube.objects import Event, Node, PersistentVolumeClaim, Pod
from mooring.mounts.blocking import blocking
from mooring.volumes.errors import DeviceStillInUse

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]


async def test_a_machine_has_a_kernel_of_its_own_and_sees_nothing_of_the_cluster(stage: Stage) -> None:
    assert "6.1." in await inside(stage, "uname -r")
    assert await inside(stage, "hostname") == NODE
    assert await inside(stage, "dmesg | grep -c 'raid6.*MB/s'; true") == "0"  # it would boot 0.9 s later
    assert await inside(stage, "cat; echo done") == "done"  # a script has nothing to read
    root = stage.layout.root
    assert (await inside(stage, f"ls {root}; ls {root}/nodes")).split() == ["nodes", NODE]
    assert (await inside(stage, f"find {root} -name '*.crt' -o -name '*.sqlite*' | wc -l")) == "0"
    there = Path(f"/usr/machine-{root.name}")
    await inside(stage, f"echo changed > {there} && cat {there}")
    assert not there.exists()
    await inside(stage, "mount | grep -q 'hostfs' || true; ! touch /proc/1/root/run/machine/x")


async def test_a_disk_is_plugged_in_while_the_machine_runs_and_refused_while_it_is_open(stage: Stage) -> None:
    link = await plugged(stage, "d")
    await inside(stage, f"mkfs.ext4 -q {link} && mkdir -p /d && mount {link} /d && echo kept > /d/file")
    with pytest.raises(DeviceStillInUse, match=f"kernel of {NODE} has it open"):
        await blocking(stage.array.detach, "d", NODE)
    assert await inside(stage, "cat /d/file") == "kept"
    await inside(stage, "umount /d")
    await blocking(stage.array.detach, "d", NODE)
    assert await inside(stage, f"ls -l {link} 2>/dev/null | wc -l; ls /dev/ubd* | wc -l") == "0\n1"
    other = await blocking(stage.array.attach, "d", "node-2")
    assert await inside(stage, f"mkdir -p /d && mount {other} /d && cat /d/file", "node-2") == "kept"
    await inside(stage, "umount /d", "node-2")


async def test_a_claim_that_grows_says_so_only_when_the_machine_shows_the_disk_larger(stage: Stage) -> None:
    await stage.client.create(PersistentVolumeClaim, claim("c", "32Mi"), "default")
    await stage.client.create(Pod, pod("before", "c"), "default")
    await stage.until("the pod runs", lambda: runs(stage, "before"))
    grown = {"spec": {"resources": {"requests": {"storage": "64Mi"}}}}
    await stage.client.patch(PersistentVolumeClaim, "c", grown, "default")
    await stage.until("its pod is told why not", lambda: told(stage, "before", "FileSystemResizeFailed"))
    waiting = await stage.client.get(PersistentVolumeClaim, "c", "default")
    assert waiting.status.capacity["storage"] == "32Mi"
    assert [each.type for each in waiting.status.conditions] == ["FileSystemResizePending"]

    await stage.client.delete(Pod, "before", "default")
    await stage.until("the disk is detached", lambda: not any(stage.array.attachments().values()))
    await stage.client.create(Pod, pod("after", "c"), "default")
    await stage.until("the claim has grown", lambda: has(stage, "c", "64Mi"))
    await stage.client.delete(Pod, "after", "default")
    await stage.client.delete(PersistentVolumeClaim, "c", "default")
    await stage.until("the disk is deleted", lambda: not stage.array.attachments())


async def told(stage: Stage, pod: str, reason: str) -> bool:
    events = (await stage.client.list(Event, "default")).items
    return any(each.reason == reason and each.involved_object.name == pod for each in events)


async def has(stage: Stage, claim: str, capacity: str) -> bool:
    live = await stage.client.get(PersistentVolumeClaim, claim, "default")
    return live.status.capacity["storage"] == capacity and not live.status.conditions


async def runs(stage: Stage, name: str) -> bool:
    return (await stage.client.get(Pod, name, "default")).status.phase == "Running"


def claim(name: str, size: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": name}, "spec": spec}


def pod(name: str, claim: str) -> dict[str, Any]:
    mounts = [{"name": "data", "mountPath": "/data"}]
    container = {"name": "c", "image": "any", "command": ["sleep", "600"], "volumeMounts": mounts}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    spec = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 1}
    return {"metadata": {"name": name}, "spec": spec | {"nodeSelector": {"kubernetes.io/hostname": NODE}}}


async def test_a_second_disk_does_not_get_the_name_of_the_first(stage: Stage) -> None:
    await stories.a_second_disk_keeps_its_own_name(stage)


async def test_a_power_loss_takes_what_was_not_synced_and_nothing_writes_after_it(stage: Stage) -> None:
    await stories.a_power_loss_takes_what_was_not_synced(stage, lines=5)


async def test_a_panic_leaves_the_machine_off_until_it_is_started_in_another_boot(stage: Stage) -> None:
    await stories.a_panic_leaves_the_machine_off(stage, patience=60.0)


async def test_a_watchdog_that_is_not_fed_resets_the_machine(stage: Stage) -> None:
    boot = await boot_of(stage)
    await inside(stage, "modprobe softdog soft_margin=3 && test -c /dev/watchdog1")
    await inside(stage, "(sleep 60 > /dev/watchdog1) > /dev/null 2>&1 &")
    assert await back_after(stage, boot) != boot
    assert stage.has_power(NODE)


async def test_a_kernel_that_is_reset_from_within_boots_again_with_its_network(stage: Stage) -> None:
    boot = await boot_of(stage)
    with pytest.raises(ClusterError):
        await stage.run_in(NODE, "echo b > /proc/sysrq-trigger; sleep 30")
    await back_after(stage, boot)
    assert "Failed to exec kernel" in (stage.layout.logs / f"machine-{NODE}.log").read_text()


async def test_io_that_hangs_waits_in_d_state_and_the_rest_goes_on(stage: Stage) -> None:
    link = await plugged(stage, "d")
    await inside(stage, f"mkfs.ext4 -q {link} && mkdir -p /d && mount {link} /d")
    await order(stage, "hang", NODE)
    await inside(stage, "(echo x > /d/x; sync /d/x; touch /run/done) > /dev/null 2>&1 &")
    await asyncio.sleep(2)
    assert await inside(stage, "ps axo stat,comm | grep ^D")
    assert (await stage.client.get(Node, NODE)).ready == "True"
    assert "I/O hangs" in (await stage.command("status"))[1]
    await order(stage, "heal", NODE)
    await stage.until("the write has ended", lambda: _exists(stage, "/run/done"))
    assert "I/O hangs" not in (await stage.command("status"))[1]


async def test_of_its_processes_only_that_which_does_its_io_is_found_while_others_start_and_end(
    stage: Stage,
) -> None:
    group = cgroup.of(stage.layout.root, NODE)
    assert group is not None
    alone = await blocking(io_helpers, group)
    await inside(stage, "(while test ! -e /run/enough; do (true); true | true; done) > /dev/null 2>&1 &")
    found = await blocking(lambda: {each for _ in range(3000) for each in io_helpers(group)})
    await inside(stage, "touch /run/enough")
    assert len(alone) == 1
    assert found == set(alone)


async def _exists(stage: Stage, path: str) -> bool:
    return (await stage.run_in(NODE, f"test -e {path}"))[0] == 0


async def test_a_machine_whose_io_hangs_can_lose_its_power(stage: Stage) -> None:
    await order(stage, "hang", NODE)
    await inside(stage, "(sync) > /dev/null 2>&1 &")
    await order(stage, "kill", NODE)
    assert not stage.has_power(NODE)


async def test_a_frozen_machine_is_silent_and_goes_on_where_it_was(stage: Stage) -> None:
    boot = await boot_of(stage)
    await order(stage, "freeze", NODE)
    await silent(stage)
    assert stage.has_power(NODE)
    with pytest.raises(ClusterError, match="is frozen"):
        await stage.run_in(NODE, "true")
    await order(stage, "thaw", NODE)
    await stage.until("both nodes are Ready", lambda: stage.ready_nodes(2))
    assert await boot_of(stage) == boot


async def test_a_machine_has_a_clock_of_its_own(stage: Stage) -> None:
    await order(stage, "skew", NODE, "+1h")
    ahead = int(await inside(stage, "date +%s")) - time.time()
    assert 3500 < ahead < 3700
    assert abs(int(await inside(stage, "date +%s", "node-2")) - time.time()) < 100
    await order(stage, "heal", NODE)
    assert abs(int(await inside(stage, "date +%s")) - time.time()) < 100


async def test_a_second_agent_of_a_name_is_found_out(stage: Stage) -> None:
    await stories.a_second_agent_of_a_name_is_found_out(stage)


async def test_machines_of_both_kinds_are_one_cluster(data_dir: Path) -> None:
    stage = Stage(data_dir)
    try:
        await stage.up("--machines", "namespace=1,uml=1", "--port", "0", "--node-monitor-grace-period", "8")
        await stage.until("both nodes are Ready", lambda: stage.ready_nodes(2))
        link = await plugged(stage, "d", "node-2")
        await inside(stage, f"mkfs.ext4 -q {link} && mkdir -p /d && mount {link} /d", "node-2")
        await inside(stage, "echo moved > /d/file && umount /d", "node-2")
        await blocking(stage.array.detach, "d", "node-2")
        device = await blocking(stage.array.attach, "d", "node-1")
        assert await inside(stage, f"mkdir -p /run/d && mount {device} /run/d && cat /run/d/file") == "moved"
        await inside(stage, "umount /run/d")
        status, answer = await stage.command("node", "skew", "node-1", "+1h")
        assert status == 1
        assert "--machines uml" in answer
    finally:
        await stage.down()
    assert stage.leftovers() == []


async def test_after_kill_9_of_up_down_leaves_nothing_of_its_machines(data_dir: Path) -> None:
    stage = Stage(data_dir)
    await stage.up("--machines", "uml=1", "--port", "0")
    await stage.until("the node is Ready", lambda: stage.ready_nodes(1))
    await plugged(stage, "d")
    stage.kill_part("up")
    assert stage.has_power(NODE)
    status, answer = await stage.down()
    assert status == 0
    assert "machine-node-1" in answer
    assert stage.leftovers() == []


async def test_a_node_reports_the_uuid_that_its_machine_keeps_over_its_boots(stage: Stage) -> None:
    uuid = (stage.layout.node(NODE) / "system-uuid").read_text().strip()
    boot = await boot_of(stage)
    for _ in range(2):
        live = json.loads(await stage.client.request("GET", f"/api/v1/nodes/{NODE}"))
        reported = live["status"]["nodeInfo"]
        assert (reported["systemUUID"], reported["kernelVersion"][:4]) == (uuid, "6.1.")
        await order(stage, "reset", NODE)
        boot = await back_after(stage, boot)

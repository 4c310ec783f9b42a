"""iSCSI volumes of pods on machines with a kernel of their own: real logins to a real server."""

from __future__ import annotations

import base64
import os
import subprocess
from pathlib import Path

import pytest
from tests.machines.iscsi import ONE, TWO, need_iscsi, server_of, volume
from tests.machines.machines import inside
from tests.machines.pods import ended, gone, pod, running, told

from mooring.cluster.machines.boot_orders import run_directory
from mooring.cluster.stage import Stage
from mooring.kube.objects import Secret

soak = pytest.mark.skipif("MOORING_SOAK" not in os.environ, reason="minutes: `make soak` plays it")
pytestmark = [pytest.mark.root, pytest.mark.timeout(400), pytest.mark.soak]


@pytest.fixture(scope="session", autouse=True)
def _installed() -> None:
    need_iscsi()


async def logged_out(stage: Stage, node: str, *, patience: float = 60) -> None:
    """Waits until nothing is left on the machine: no session, and no record of open-iscsi."""

    async def nothing() -> bool:
        records = "/etc/iscsi/nodes/*/* /etc/iscsi/send_targets/* /var/lib/iscsi/*/*"
        script = f"ls -d /sys/class/iscsi_session/* {records} 2> /dev/null; true"
        return not await inside(stage, script, node)

    await stage.until(f"{node} is logged out", nothing, patience=patience)


def ask_for_chap(stage: Stage, user: str, password: str) -> None:
    """From now on the target lets in who knows this."""
    environ = {**os.environ, "TGT_IPC_SOCKET": str(run_directory(stage.layout.root) / "disks.tgt")}
    account = ("--mode", "account", "--user", user)
    for words in (
        ("--op", "new", *account, "--password", password),
        ("--op", "bind", *account, "--tid", "1"),
    ):
        subprocess.run(["tgtadm", "-C", "0", "--lld", "iscsi", *words], env=environ, check=True)


async def chap(stage: Stage, name: str, user: str, password: str) -> None:
    """A Secret with upstream's keys."""
    keys = {f"{of}.auth.{field}": value for of in ("node.session", "discovery.sendtargets")
            for field, value in (("username", user), ("password", password))}  # fmt: skip
    data = {key: base64.b64encode(value.encode()).decode() for key, value in keys.items()}
    body = {"metadata": {"name": name}, "type": "kubernetes.io/iscsi-chap", "data": data}
    await stage.client.create(Secret, body, "default")


async def test_a_pod_writes_and_another_on_a_second_machine_reads_it(stage: Stage, data_dir: Path) -> None:
    server = await server_of(stage)
    await volume(stage, "data", server, 1)
    await pod(stage, "writer", ONE, "echo written > /data/file && sync", data="data")
    await ended(stage, "writer")
    await logged_out(stage, ONE)
    await pod(stage, "reader", TWO, "cat /data/file", data="data")
    assert await ended(stage, "reader") == "written"
    await logged_out(stage, TWO)

    # Two LUNs of one target: the session ends with the second. One of them is a raw device.
    await volume(stage, "raw", server, 2, volumeMode="Block")
    await pod(stage, "one", ONE, "trap 'exit 0' TERM; sleep 1000 & wait", data="data")
    await running(stage, "one")
    await pod(
        stage, "two", ONE, "printf raw | dd of=/dev/xraw conv=fsync 2> /dev/null", block=True, raw="raw"
    )
    await ended(stage, "two")

    async def one_disk() -> bool:
        return (
            await inside(stage, "ls -d /sys/class/iscsi_session/*/device/target*/*:*:*:2 2> /dev/null; true")
            == ""
        )

    await stage.until("the raw device is dropped", one_disk, patience=60)
    assert "session" in await inside(stage, "ls /sys/class/iscsi_session")

    # The agent is killed while the volume is mounted: the next one unmounts and logs out.
    agent = "pgrep -f 'agent .*--name node-1' | head -n 1"
    before = await inside(stage, agent)
    await inside(stage, f"kill -9 {before}")

    async def again() -> bool:
        return await inside(stage, agent) not in ("", before)

    await stage.until("the agent is back", again, patience=60)
    await gone(stage, "one")
    await logged_out(stage, ONE)

    # Another file system than what is there: the pod waits, and the disk keeps what it has.
    await volume(stage, "other", server, 1, accessModes=["ReadOnlyMany"], iscsi={"fsType": "xfs"})
    await pod(stage, "wrong", TWO, "true", data="other")

    await told(stage, "wrong", "ext4")
    await gone(stage, "wrong")
    await logged_out(stage, TWO)
    await pod(stage, "reader", TWO, "cat /data/file", data="data")
    assert await ended(stage, "reader") == "written"


@soak
@pytest.mark.timeout(800)
async def test_chap_and_a_server_that_shuts_a_node_out(stage: Stage, data_dir: Path) -> None:
    server = await server_of(stage)
    ask_for_chap(stage, "pods", "right-password")
    for lun, name, password in ((2, "wrong", "other-password"), (1, "right", "right-password")):
        await chap(stage, name, "pods", password)
        reference = {"name": name, "namespace": "default"}
        how = {"chapAuthSession": True, "chapAuthDiscovery": name == "right", "secretRef": reference}
        await volume(stage, name, server, lun, iscsi=how)
    await pod(stage, "refused", ONE, "true", data="wrong")
    await told(stage, "refused", "refuses the login")
    await gone(stage, "refused")
    await logged_out(stage, ONE)
    await pod(stage, "let-in", ONE, "echo written > /data/file && sync", data="right")
    await ended(stage, "let-in")
    await logged_out(stage, ONE)
    secret = "grep -rl password /etc/iscsi/send_targets /etc/iscsi/nodes /var/lib/iscsi 2> /dev/null; true"
    assert await inside(stage, secret) == ""

    # Shut out while it is mounted, the node cannot write, and lets go of it when the kernel has given up.
    await pod(
        stage, "holder", ONE, "trap 'exit 0' TERM; echo more > /data/more; sleep 1000 & wait", data="right"
    )
    await running(stage, "holder")
    status, answer = await stage.command("storage", "shut-out", "disks", ONE)
    assert status == 0, answer
    await gone(stage, "holder")
    await logged_out(stage, ONE, patience=300)
    await pod(stage, "late", ONE, "true", data="right")
    await told(stage, "late", server["address"])
    await gone(stage, "late")
    await pod(stage, "reader", TWO, "cat /data/file", data="right")
    assert await ended(stage, "reader") == "written"

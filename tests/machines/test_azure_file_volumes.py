"""azureFile volumes of pods on machines with a kernel of their own, without a CSI driver: a real Samba."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from standing_cluster import standing
from tests.machines.conftest import FLAGS
from tests.machines.example_files import applied, written_and_read
from tests.machines.machines import inside
from tests.machines.pods import ended, gone, pod, running, told

from mooring.cluster.stage import Stage
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, Pod, Secret
from mooring.mounts.blocking import blocking
from mooring.node.bridge import BRIDGE

pytestmark = [pytest.mark.root, pytest.mark.timeout(400), pytest.mark.soak]

ONE, TWO = "node-1", "node-2"
KEY = "Key/of+the=account"
ADDRESS = f"10.88.0.{200 - os.getpid() % 50}"
CONFIGURATION = """
[global]
 server role = standalone server
 interfaces = {address}/16
 bind interfaces only = yes
 disable netbios = yes
 smb ports = 445
 load printers = no
 log file = {directory}/log
 passdb backend = tdbsam:{directory}/accounts
 private dir = {directory}
 state directory = {directory}
 cache directory = {directory}
 lock directory = {directory}
 pid directory = {directory}
 ncalrpc dir = {directory}
[data]
 path = {directory}/data
 read only = no
 valid users = root
"""


@pytest.fixture(scope="session", autouse=True)
def _installed() -> None:
    for program, package in (
        ("smbd", "samba"),
        ("smbpasswd", "samba-common-bin"),
        ("mount.cifs", "cifs-utils"),
    ):
        if shutil.which(program, path="/usr/sbin:/sbin:/usr/bin") is None:
            pytest.skip(f"needs {program}: apt-get install {package}")


@pytest.fixture
async def stage(data_dir: Path) -> AsyncIterator[Stage]:
    setting = ("--plugin-setting", f"kubernetes.io/azure-file:server={ADDRESS}")
    async with standing(data_dir, *FLAGS, *setting, nodes=2) as stage:
        yield stage


class Server:
    """smbd in a network namespace of its own, on the machines' bridge."""

    def __init__(self) -> None:
        self._name = f"smb{os.getpid()}"
        self._directory = Path(tempfile.mkdtemp(prefix="mooring-smb-"))
        self._smbd: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        link, peer = self._name, f"{self._name}p"
        _run(f"ip netns add {self._name}")
        _run(f"ip link add {link} type veth peer name {peer} netns {self._name}")
        _run(f"ip link set {link} master {BRIDGE} up")
        for words in (f"addr add {ADDRESS}/16 dev {peer}", f"link set {peer} up", "link set lo up"):
            _run(f"ip -n {self._name} {words}")
        (self._directory / "data").mkdir()
        file = self._directory / "smb.conf"
        file.write_text(CONFIGURATION.format(address=ADDRESS, directory=self._directory))
        _run(f"smbpasswd -c {file} -s -a root", f"{KEY}\n{KEY}\n")
        command = ["ip", "netns", "exec", self._name, "smbd", "-F", "--no-process-group", "-s", str(file)]
        self._smbd = subprocess.Popen(command, start_new_session=True)

    def reachable(self, yes: bool) -> None:
        _run(f"ip link set {self._name} {'up' if yes else 'down'}")

    def stop(self) -> None:
        pids = subprocess.run(
            ["ip", "netns", "pids", self._name], capture_output=True, text=True, check=False
        )
        for pid in pids.stdout.split():
            os.kill(int(pid), signal.SIGKILL)
        if self._smbd is not None:
            self._smbd.wait(timeout=10)
        subprocess.run(["ip", "netns", "delete", self._name], check=False)
        shutil.rmtree(self._directory)


def _run(words: str, said: str = "") -> None:
    subprocess.run(words.split(), check=True, timeout=20, input=said, text=True)


@pytest.fixture
def server(stage: Stage) -> Iterator[Server]:
    made = Server()
    try:
        made.start()
        yield made
    finally:
        made.stop()


async def secret(stage: Stage, name: str, key: str) -> None:
    data = {"azurestorageaccountname": "root", "azurestorageaccountkey": key}
    encoded = {each: base64.b64encode(value.encode()).decode() for each, value in data.items()}
    await stage.client.create(Secret, {"metadata": {"name": name}, "data": encoded}, "default")


async def volume(stage: Stage, name: str, of_secret: str) -> None:
    """A PersistentVolume of the share, and the claim of that name that has it."""
    spec: dict[str, Any] = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    source = {"secretName": of_secret, "secretNamespace": "default", "shareName": "data"}
    of = {**spec, "capacity": {"storage": "64Mi"}, "azureFile": source}
    await stage.client.create(PersistentVolume, {"metadata": {"name": name}, "spec": of})
    claim = {**spec, "volumeName": name, "resources": {"requests": {"storage": "64Mi"}}}
    await stage.client.create(PersistentVolumeClaim, {"metadata": {"name": name}, "spec": claim}, "default")


async def unmounted(stage: Stage, node: str, patience: float = 60) -> None:
    async def nothing() -> bool:
        return not await inside(stage, "grep ' cifs ' /proc/mounts; true", node)

    await stage.until(f"{node} has unmounted", nothing, patience=patience)


async def test_two_machines_share_a_share_without_a_csi_driver_and_the_key_is_nowhere(
    stage: Stage, server: Server
) -> None:
    await secret(stage, "account", KEY)
    await secret(stage, "stale", "Another-key")
    await volume(stage, "shared", "account")
    await volume(stage, "refused", "stale")
    waits = "trap 'exit 0' TERM; sleep 1000 & wait"
    await pod(stage, "holder", TWO, f"while ! cat /d/file; do sleep 1; done; {waits}", d="shared")
    await pod(stage, "writer", ONE, "echo written > /d/file", d="shared")
    await pod(stage, "no", ONE, "true", d="refused")
    await ended(stage, "writer")
    await running(stage, "holder")
    await told(stage, "no", "look at the Secret's account and key")
    await gone(stage, "no")
    left = f"grep -rlF '{KEY}' {stage.layout.node(TWO)} /proc/mounts; ps ax | grep -F '{KEY}' | grep -v grep; true"
    assert await inside(stage, left, TWO) == ""

    # A volume that the pod defines itself, with an fsGroup.
    source = {"secretName": "account", "shareName": "data"}
    container = {
        "name": "main",
        "image": "none",
        "command": ["/bin/sh", "-c", "stat -c %g:%a /d; cat /d/file"],
        "volumeMounts": [{"name": "d", "mountPath": "/d"}],
    }
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/hostname": ONE},
        "securityContext": {"fsGroup": 4000},
        "containers": [container],
        "volumes": [{"name": "d", "azureFile": source}],
    }
    await stage.client.create(Pod, {"metadata": {"name": "own"}, "spec": spec}, "default")
    assert await ended(stage, "own") == "4000:777 written"
    await unmounted(stage, ONE)

    # The server has gone: nothing of the agent hangs.
    await blocking(server.reachable, False)
    await pod(stage, "beside", TWO, "echo runs")
    assert await ended(stage, "beside") == "runs"
    await blocking(server.reachable, True)

    # The agent is killed while it is mounted: the next one unmounts.
    agent = "pgrep -f 'agent .*--name node-2' | head -n 1"
    before = await inside(stage, agent, TWO)
    await inside(stage, f"kill -9 {before}", TWO)

    async def again() -> bool:
        return await inside(stage, agent, TWO) not in ("", before)

    await stage.until("the agent is back", again, patience=60)
    await gone(stage, "holder")
    await unmounted(stage, TWO)


async def test_the_example_is_played(stage: Stage, server: Server, tmp_path: Path) -> None:
    await secret(stage, "account", KEY)
    await applied(stage, "azure-file.yaml", tmp_path, {"shareName: files": "shareName: data"})
    await written_and_read(stage)

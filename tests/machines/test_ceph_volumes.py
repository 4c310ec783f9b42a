"""RBD and CephFS volumes of pods on machines with a kernel of their own, and a real Ceph cluster: a monitor,
a store in memory, a metadata server.
"""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ceph_script import SERVES
from tests.machines.example_files import applied, says
from tests.machines.machines import inside, order, silent
from tests.machines.pods import ended, gone, pod, running, told
from tests.machines.servers import BridgedServer

from mooring.cluster.stage import Stage
from mooring.kube.objects import Namespace, PersistentVolume, PersistentVolumeClaim, Secret, VolumeAttachment
from mooring.mounts.blocking import blocking

pytestmark = [pytest.mark.root, pytest.mark.timeout(500), pytest.mark.soak]

ONE, TWO = "node-1", "node-2"
WAITS = "trap 'exit 0' TERM; sleep 1000 & wait"
WRITES = """
trap 'exit 0' TERM
while true; do date +%s >> /d/records && sync -d /d/records && echo wrote; sleep 0.3; done
"""


@pytest.fixture(scope="session", autouse=True)
def _installed() -> None:
    needed = {
        "ceph-mon": "ceph-mon",
        "ceph-osd": "ceph-osd",
        "ceph-mds": "ceph-mds",
        "mount.ceph": "ceph-common",
    }
    lacking = [
        package
        for program, package in needed.items()
        if shutil.which(program, path="/usr/bin:/usr/sbin") is None
    ]
    if lacking:
        pytest.skip(f"needs Ceph: apt-get install {' '.join(lacking)}")


class Ceph(BridgedServer):
    """The cluster."""

    def __init__(self) -> None:
        super().__init__("ceph", f"10.88.0.{254 - os.getpid() % 50}", SERVES)

    def ask(self, words: str) -> str:
        """A command of its administrator, where its files are."""
        there = f"nsenter -t {self._pid()} -m env CEPH_CONF={self.directory}/ceph.conf"
        return self.run(*there.split(), *words.split())

    def _pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def key(self) -> str:
        return self.ask(f"cat {self.directory}/key")


@pytest.fixture
def ceph(stage: Stage) -> Iterator[Ceph]:
    made = Ceph()
    try:
        made.start()
        yield made
    finally:
        made.stop()


async def secret(stage: Stage, ceph: Ceph) -> None:
    key = base64.b64encode((await blocking(lambda: ceph.key)).encode()).decode()
    await stage.client.create(Namespace, {"metadata": {"name": "storage"}})
    await stage.client.create(Secret, {"metadata": {"name": "ceph"}, "data": {"key": key}}, "storage")


async def volume(
    stage: Stage, name: str, ceph: Ceph, mode: str = "ReadWriteOnce", size: str = "64Mi", **of: Any
) -> None:
    """A PersistentVolume of the cluster, and the claim of that name that has it."""
    spec: dict[str, Any] = {"accessModes": [mode], "storageClassName": "", **of.pop("spec", {})}
    ((kind, source),) = of.items()
    reached = {
        "monitors": [ceph.address],
        "user": "pods",
        "secretRef": {"name": "ceph", "namespace": "storage"},
    }
    pv = {**spec, "capacity": {"storage": size}, kind: {**reached, **source}}
    await stage.client.create(PersistentVolume, {"metadata": {"name": name}, "spec": pv})
    claim = {**spec, "volumeName": name, "resources": {"requests": {"storage": size}}}
    await stage.client.create(PersistentVolumeClaim, {"metadata": {"name": name}, "spec": claim}, "default")


async def nothing_left(stage: Stage, node: str, patience: float = 90) -> None:
    """No image is mapped on the node, and nothing of Ceph mounted."""

    async def nothing() -> bool:
        return not await inside(
            stage, "ls /sys/bus/rbd/devices 2> /dev/null; grep ' ceph ' /proc/mounts; true", node
        )

    await stage.until(f"{node} has let go", nothing, patience=patience)


async def test_an_image_goes_from_node_to_node_and_a_second_user_is_refused_by_the_cluster(
    stage: Stage, ceph: Ceph
) -> None:
    await secret(stage, ceph)
    await volume(stage, "data", ceph, rbd={"image": "one"})
    await volume(stage, "again", ceph, rbd={"image": "one", "monitors": ["10.88.0.199", ceph.address]})
    await volume(stage, "wrong", ceph, rbd={"image": "none"})
    await volume(stage, "old", ceph, rbd={"image": "old"})

    await pod(stage, "holder", ONE, f"echo kept > /d/file; sync; {WAITS}", d="data")
    await running(stage, "holder")
    (attachment,) = (await stage.client.list(VolumeAttachment)).items
    assert (attachment.spec.node_name, attachment.status.attached) == (ONE, True)

    # The same image by another monitor: another volume for Kubernetes, which grants it; the cluster does not.
    await pod(stage, "second", TWO, "cat /d/file", d="again")
    await told(stage, "second", "another client has it, and answers")
    await pod(stage, "refused", TWO, "true", d="wrong")
    await told(stage, "refused", "the cluster has no such pool or image")
    await gone(stage, "refused")

    # The agent is killed while it is mounted: the next one unmaps, and the second user is let in.
    agent = "pgrep -f 'agent .*--name node-1' | head -n 1"
    await inside(stage, f"kill -9 $({agent})", ONE)
    await gone(stage, "holder")
    assert await ended(stage, "second") == "kept"
    await nothing_left(stage, ONE)
    await nothing_left(stage, TWO)

    await pod(stage, "older", ONE, "echo fine > /d/file && cat /d/file", d="old")
    assert await ended(stage, "older") == "fine"


async def test_a_node_that_is_cut_off_is_barred_before_another_writes(stage: Stage, ceph: Ceph) -> None:
    await secret(stage, ceph)
    await volume(stage, "data", ceph, rbd={"image": "one"})
    await pod(stage, "first", ONE, WRITES, d="data")
    await says(stage, "first", "wrote")

    await order(stage, "cut", ONE)
    await silent(stage)
    await order(stage, "confirm-dead", ONE)  # which is not so: it writes on, as far as the cluster lets it
    await pod(stage, "second", TWO, f"wc -l < /d/records; {WAITS}", d="data")
    await running(stage, "second")
    assert '"addr"' in await blocking(ceph.ask, "ceph osd blocklist ls -f json")
    records = f"{stage.layout.root}/nodes/{TWO}/plugins/kubernetes.io~rbd/mounts/*/rbd/one/records"
    before = await inside(stage, f"cat {records}", TWO)
    assert before
    await order(stage, "heal", ONE)
    await nothing_left(stage, ONE)
    assert await inside(stage, f"cat {records}", TWO) == before


async def test_a_file_system_grows_and_a_raw_image_is_given_as_it_is(stage: Stage, ceph: Ceph) -> None:
    await secret(stage, ceph)
    await volume(stage, "raw", ceph, rbd={"image": "old"}, spec={"volumeMode": "Block"})
    await pod(
        stage, "raw", ONE, "blockdev --getsize64 /dev/xd && echo x | dd of=/dev/xd", block=True, d="raw"
    )
    assert (await ended(stage, "raw")).startswith(str(64 << 20))
    await nothing_left(stage, ONE)


async def test_two_machines_share_a_directory_and_a_cluster_that_has_gone_keeps_no_pod(
    stage: Stage, ceph: Ceph
) -> None:
    await secret(stage, ceph)
    await volume(stage, "shared", ceph, "ReadWriteMany", cephfs={"path": "/"})
    await volume(stage, "wrong", ceph, "ReadWriteMany", cephfs={"path": "/nowhere"})

    await pod(stage, "holder", TWO, f"while ! cat /d/file; do sleep 1; done; {WAITS}", d="shared")
    await pod(stage, "writer", ONE, "echo written > /d/file", d="shared")
    await pod(stage, "refused", ONE, "true", d="wrong")
    await ended(stage, "writer")
    await running(stage, "holder")
    await told(stage, "refused", "correct cephfs.path")
    await gone(stage, "refused")
    await nothing_left(stage, ONE)
    shown = await inside(
        stage, f"grep ' ceph ' /proc/mounts; find {stage.layout.root} -name '*.secret'; true", TWO
    )
    assert await blocking(lambda: ceph.key) not in shown
    assert ".secret" not in shown

    await blocking(ceph.reachable, False)
    await pod(stage, "beside", TWO, "echo runs")
    await gone(stage, "holder", patience=240)
    assert await ended(stage, "beside") == "runs"
    await nothing_left(stage, TWO, patience=200)
    await pod(stage, "late", TWO, "cat /d/file", d="shared")
    await told(stage, "late", "of the cluster answers this node")
    await blocking(ceph.reachable, True)
    assert await ended(stage, "late") == "written"


async def test_the_examples_are_played(stage: Stage, ceph: Ceph, tmp_path: Path) -> None:
    key = {'key: "..."': f'key: "{await blocking(lambda: ceph.key)}"'}
    monitors = {'10.88.0.200, "10.88.0.201:6789"': ceph.address}
    await applied(stage, "rbd.yaml", tmp_path, {**key, **monitors})
    await says(stage, "writer", "UTC")  # what `date` writes
    await applied(stage, "cephfs.yaml", tmp_path, {**key, "10.88.0.200": ceph.address})
    await stage.kubectl_do("wait", "--for=condition=Available", "deployment/shared", "--timeout=120s")

    async def both() -> bool:
        names = await stage.kubectl_do("logs", "-l", "app=shared", "--tail=-1")
        return len(set(names.splitlines())) == 2

    await stage.until("each of the two pods has written its name", both, patience=120)

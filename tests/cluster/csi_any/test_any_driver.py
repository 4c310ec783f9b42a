"""`mooring up --csi` with a driver that is unlike `disk.mooring.dev` in everything: pods get their volumes,
and what the driver does wrong is told where its author looks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mooring.cluster.stage import Stage
from mooring.kube.objects import (
    CSIDriver,
    CSINode,
    Event,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttachment,
)
from mooring.mounts.table import read_mount_table

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(170)]

NAME = "odd.example.com"
NODES = ("node-1", "node-2")
PROGRAM = Path(__file__).with_name("odd_driver.py")


@contextmanager
def drivers(root: Path, allowed: Path) -> Iterator[None]:
    """One process for each node."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        for node in NODES:
            arguments = [f"unix://{root}/{node}.sock", node, str(root / "folders"), str(allowed)]
            with (root / f"{node}.log").open("wb") as log:
                running.append(
                    subprocess.Popen([sys.executable, PROGRAM, *arguments], stdout=log, stderr=log)
                )
        yield
    finally:
        for each in running:
            each.terminate()
        for each in running:
            each.wait(20)


@asynccontextmanager
async def staged(data_dir: Path, malformed: str = "", *options: str) -> AsyncIterator[tuple[Stage, Path]]:
    """Two nodes, each with the driver, and its manifests; the storage's folder."""
    root = data_dir / "odd"
    folders = root / "folders"
    folders.mkdir(parents=True)
    (folders / "malformed").write_text(malformed)
    stage = Stage(data_dir / "d")
    with drivers(root, data_dir):
        try:
            await stage.up(
                "--nodes", "2", "--port", "0", "--csi", f"{NAME}=unix://{root}/{{node}}.sock", *options
            )
            await stage.client.create(
                CSIDriver, {"metadata": {"name": NAME}, "spec": {"attachRequired": False}}
            )
            of_class = {"provisioner": NAME, "volumeBindingMode": "WaitForFirstConsumer"}
            await stage.client.create(StorageClass, {"metadata": {"name": "odd"}, **of_class})
            yield stage, folders
        finally:
            await stage.down()
    left = [mount.mount_point for mount in read_mount_table() if mount.mount_point.startswith(str(data_dir))]
    assert left == []


async def pod(stage: Stage, name: str, node: str) -> None:
    """A pod that writes its name into a volume of its own."""
    spec: dict[str, Any] = {
        "storageClassName": "odd",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Mi"}},
    }
    await stage.client.create(PersistentVolumeClaim, {"metadata": {"name": name}, "spec": spec}, "default")
    script = f"echo {name} > /data/word; sleep 1000"
    mounts = [{"name": "data", "mountPath": "/data"}]
    container = {"name": "c", "image": "host", "command": ["sh", "-c", script], "volumeMounts": mounts}
    spec = {
        "nodeSelector": {"kubernetes.io/hostname": node},
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
    }
    await stage.client.create(Pod, {"metadata": {"name": name}, "spec": spec}, "default")


async def runs(stage: Stage, name: str) -> bool:
    found = await stage.client.get(Pod, name, "default")
    return any(each.type == "Ready" and each.status == "True" for each in found.status.conditions)


async def has_event(stage: Stage, words: str) -> bool:
    return any(words in (event.message or "") for event in (await stage.client.list(Event)).items)


async def no_volumes(stage: Stage) -> bool:
    return not (await stage.client.list(PersistentVolume)).items


async def test_pods_get_volumes_where_they_run_although_half_of_the_calls_fail(data_dir: Path) -> None:
    faults = (
        "--csi-fault",
        "NodePublishVolume:after-UNAVAILABLE:0.25",
        "--csi-fault",
        "CreateVolume:UNKNOWN:0.25",
    )
    async with staged(data_dir, "", *faults) as (stage, folders):
        for node in NODES:
            await pod(stage, f"on-{node}", node)
        for node in NODES:
            await stage.until(
                f"the pod of {node} runs", lambda node=node: runs(stage, f"on-{node}"), patience=120
            )
        written = sorted((each.parent.parent.name, each.read_text()) for each in folders.glob("*/*/word"))
        assert written == [(f"zone-of-{node}", f"on-{node}\n") for node in NODES]
        assert (await stage.client.list(VolumeAttachment)).items == [], "nothing is attached"
        for node in NODES:
            await stage.client.delete(Pod, f"on-{node}", "default")
            await stage.client.delete(PersistentVolumeClaim, f"on-{node}", "default")
        await stage.until("no volume is left", lambda: no_volumes(stage))
        assert list(folders.glob("*/*")) == []


@pytest.mark.parametrize(
    ("method", "words"), [("CreateVolume", "gave no volume_id"), ("NodeGetInfo", "gave no node_id")]
)
async def test_an_answer_that_lacks_what_it_must_have_is_told_and_then_forgiven(
    data_dir: Path, method: str, words: str
) -> None:
    async with staged(data_dir, method) as (stage, folders):
        await pod(stage, "p", "node-1")
        await stage.until("it is told", lambda: has_event(stage, words))
        (folders / "malformed").write_text("")
        await stage.until("the pod runs", lambda: runs(stage, "p"))
        drivers = (await stage.client.get(CSINode, "node-1")).spec.drivers
        assert [each.node_id for each in drivers] == ["node-1"]

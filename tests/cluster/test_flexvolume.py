"""Pods with FlexVolumes in a cluster of real processes, with real mounts."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from flexvolume_life import install
from standing_cluster import standing

from mooring.cluster.demo.scene import examples
from mooring.cluster.stage import Stage
from mooring.kube.objects import Event, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(300)]

DRIVERS = Path(__file__).parents[1] / "doubles" / "flexvolume_drivers"


@pytest.fixture
def drivers(tmp_path: Path) -> Path:
    directory = tmp_path / "exec"
    for name in ("memory", "attached"):
        install(DRIVERS / name, directory, f"example.com/{name}")
    return directory


@pytest.fixture
async def flex_stage(data_dir: Path, drivers: Path) -> AsyncIterator[Stage]:
    flags = ("--nodes", "1", "--port", "0", "--volume-plugin-dir", str(drivers))
    async with standing(data_dir, *flags, nodes=1) as stage:
        yield stage


def pod(name: str, volume: dict[str, Any]) -> dict[str, Any]:
    main = {"name": "main", "image": "busybox:1.37", "command": ["/bin/sh", "-c", "sleep 100000"]}
    main["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]  # type: ignore[assignment]
    spec = {"terminationGracePeriodSeconds": 0, "containers": [main], "volumes": [{"name": "data", **volume}]}
    return {"metadata": {"name": name}, "spec": spec}


async def running(stage: Stage, name: str) -> bool:
    found = await stage.client.find(Pod, name, "default")
    return found is not None and found.status.phase == "Running"


def mounts_of(stage: Stage) -> list[str]:
    """Where the node has mounts of FlexVolume drivers."""
    mounts = stage.mounts("node-1") or ()
    return [mount.mount_point for mount in mounts if "/example.com~" in mount.mount_point]


async def test_a_pod_runs_with_a_volume_of_a_driver_and_leaves_nothing_behind(flex_stage: Stage) -> None:
    volume = {"flexVolume": {"driver": "example.com/memory", "options": {"id": "7"}}}
    await flex_stage.client.create(Pod, pod("web", volume), "default")
    await flex_stage.until("the pod runs", lambda: running(flex_stage, "web"))
    (mounted,) = mounts_of(flex_stage)
    assert "/volumes/example.com~memory/data" in mounted
    await flex_stage.client.delete(Pod, "web", "default")

    async def gone() -> bool:
        return await flex_stage.client.find(Pod, "web", "default") is None and not mounts_of(flex_stage)

    await flex_stage.until("pod and mount are gone", gone)


async def test_a_claimed_volume_is_attached_by_the_controller_and_detached_again(flex_stage: Stage) -> None:
    client = flex_stage.client
    size = {"storage": "1Mi"}
    flex = {"driver": "example.com/attached"}
    pv = {"capacity": size, "accessModes": ["ReadWriteOnce"], "flexVolume": flex, "storageClassName": "flex"}
    pv |= {"persistentVolumeReclaimPolicy": "Retain"}
    await client.create(PersistentVolume, {"metadata": {"name": "pv-flex"}, "spec": pv})
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}, "storageClassName": "flex"}
    await client.create(PersistentVolumeClaim, {"metadata": {"name": "c"}, "spec": claim}, "default")
    await client.create(Pod, pod("web", {"persistentVolumeClaim": {"claimName": "c"}}), "default")
    await flex_stage.until("the pod runs", lambda: running(flex_stage, "web"))
    (record,) = (await client.list(VolumeAttachment)).items
    assert record.status.attached
    assert record.status.attachment_metadata == {"devicePath": "played-device"}
    assert any(
        path.endswith("/plugins/example.com~attached/mounts/pv-flex") for path in mounts_of(flex_stage)
    )
    await client.delete(Pod, "web", "default")

    async def detached() -> bool:
        return not (await client.list(VolumeAttachment)).items and not mounts_of(flex_stage)

    await flex_stage.until("the volume is detached", detached)


async def test_a_pod_waits_for_a_driver_that_is_missing_and_runs_once_it_is_there(
    flex_stage: Stage, drivers: Path
) -> None:
    volume = {"flexVolume": {"driver": "example.com/late"}}
    await flex_stage.client.create(Pod, pod("web", volume), "default")

    async def told() -> bool:
        events = (await flex_stage.client.list(Event, "default")).items
        return any("example.com~late/late" in event.message for event in events)

    await flex_stage.until("an event says where the driver is missing", told)
    install(DRIVERS / "memory", drivers, "example.com/late")
    await flex_stage.until("the pod runs", lambda: running(flex_stage, "web"))


async def test_the_example_runs_and_its_volume_has_the_size_that_it_says(
    flex_stage: Stage, drivers: Path
) -> None:
    shutil.rmtree(drivers / "example.com~memory")
    install(examples() / "flexvolume" / "memory", drivers, "example.com/memory")
    body = yaml.safe_load((examples() / "flexvolume.yaml").read_text())
    await flex_stage.client.create(Pod, body, "default")
    await flex_stage.until("the pod runs", lambda: running(flex_stage, "scratch"))
    mounts = flex_stage.mounts("node-1") or ()
    (found,) = [mount for mount in mounts if mount.mount_point.endswith("/example.com~memory/scratch")]
    assert found.fs_type == "tmpfs"
    assert "size=8192k" in found.super_options

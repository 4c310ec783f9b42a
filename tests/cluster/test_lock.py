"""A disk of `mooring.dev/disk` without a lock of its own (`exclusive: "false"`), on real nodes: the
PersistentVolume's lock keeps the second node away, and moves with the volume.
"""

from __future__ import annotations

from typing import Any

import pytest

from mooring.cluster.stage import Stage
from mooring.kube.objects import Event, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from mooring.volumes.attachment_lock import lock_of

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(170)]


async def pod(stage: Stage, name: str, node: str, script: str) -> None:
    container: dict[str, Any] = {
        "name": "main",
        "image": "host",
        "command": ["sh", "-c", script],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
    spec = {
        "nodeName": node,
        "terminationGracePeriodSeconds": 2,
        "containers": [container],
        "volumes": [volume],
    }
    await stage.client.create(Pod, {"metadata": {"name": name}, "spec": spec}, "default")


async def ready(stage: Stage, name: str) -> bool:
    found = await stage.client.get(Pod, name, "default")
    return any(each.type == "Ready" and each.status == "True" for each in found.status.conditions)


async def lock(stage: Stage) -> tuple[int, str, str]:
    (volume,) = (await stage.client.list(PersistentVolume)).items
    found = lock_of(volume)
    return found.epoch, found.node, found.pod


async def test_a_disk_that_refuses_nobody_is_mounted_on_one_node_at_a_time(stage: Stage) -> None:
    parameters = {"fsType": "ext4", "exclusive": "false"}
    body = {"metadata": {"name": "shy"}, "provisioner": "mooring.dev/disk", "parameters": parameters}
    await stage.client.create(StorageClass, body)
    spec = {
        "storageClassName": "shy",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "16Mi"}},
    }
    await stage.client.create(PersistentVolumeClaim, {"metadata": {"name": "c"}, "spec": spec}, "default")
    await pod(stage, "first", "node-1", "echo written > /data/word; sync; sleep 1000")
    await stage.until("the first pod runs", lambda: ready(stage, "first"))
    epoch, *granted = await lock(stage)
    assert granted == ["node-1", "default/first"]
    await pod(stage, "second", "node-2", "grep written /data/word && sleep 1000")
    cause = await stage.until("it says why it waits", lambda: waits(stage))
    assert "first" in cause
    assert not await ready(stage, "second")
    await stage.client.delete(Pod, "first", "default")
    await stage.until("the second pod runs", lambda: ready(stage, "second"))
    assert await lock(stage) == (epoch + 1, "node-2", "default/second")
    status, output = await stage.command("break-attachment", (await volume_name(stage)))
    assert status == 1
    assert "its content is lost" in output


async def waits(stage: Stage) -> str:
    found = (await stage.client.list(Event)).items
    return next((each.message for each in found if "Multi-Attach error" in each.message), "")


async def volume_name(stage: Stage) -> str:
    (volume,) = (await stage.client.list(PersistentVolume)).items
    return volume.name

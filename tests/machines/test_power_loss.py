"""A machine loses its power at any moment of a volume's life on it: first format, mount, writes, unmount."""

from __future__ import annotations

import asyncio
import os
from random import Random
from typing import Any

import pytest
from tests.machines.machines import NODE, back_after, boot_of, inside, order

from mooring.cluster.stage import Stage
from mooring.kube.objects import PersistentVolumeClaim, Pod

SOAK = "MOORING_SOAK" in os.environ
ROUNDS = 20 if SOAK else 1
LONGEST_S = 2.5
"""So long after its order may the power go, in seconds: until then all of it has been done, or most."""
SCRIPT = (
    "[ ! -e /data/sums ] || (cd /data && sha1sum -c sums) || { echo damaged; sleep 1000; }; "
    "head -c 3000000 /dev/urandom > /data/new && sync /data/new && mv /data/new /data/file && "
    "(cd /data && sha1sum file > sums.new && sync sums.new file && mv sums.new sums && sync .); "
    "echo written; touch /tmp/written; trap 'exit 0' TERM; while :; do sleep 0.1; done"
)

pytestmark = [pytest.mark.root, pytest.mark.soak, pytest.mark.timeout(3000 if SOAK else 400)]


def claim(name: str) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def pod(name: str) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "any",
        "command": ["sh", "-c", SCRIPT],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "readinessProbe": {"exec": {"command": ["test", "-e", "/tmp/written"]}, "periodSeconds": 1},
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    selector = {"kubernetes.io/hostname": NODE}
    spec = {
        "nodeSelector": selector,
        "containers": [container],
        "volumes": [volume],
        "terminationGracePeriodSeconds": 3,
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def lose_power(stage: Stage, random: Random) -> None:
    """At a moment of chance; then the machine boots."""
    boot = await boot_of(stage)
    await asyncio.sleep(random.uniform(0, LONGEST_S))
    await order(stage, "kill", NODE)
    await order(stage, "start", NODE)
    await back_after(stage, boot)


async def test_wherever_the_power_goes_the_volume_is_whole_and_its_pod_runs(stage: Stage) -> None:
    seed = int(os.environ.get("MOORING_SEED", "0")) or int.from_bytes(os.urandom(4))
    print(f"seed {seed}")
    random = Random(seed)
    for number in range(ROUNDS):
        name = f"p{number}"
        await stage.client.create(PersistentVolumeClaim, claim(name), "default")
        await stage.client.create(Pod, pod(name), "default")
        await lose_power(stage, random)  # while it is provisioned, attached, formatted, mounted, written
        await stage.until("the pod writes", lambda name=name: ready(stage, name), patience=120)
        await lose_power(stage, random)  # while it runs
        await stage.until("the pod writes again", lambda name=name: ready(stage, name), patience=120)
        await stage.client.delete(Pod, name, "default")
        await lose_power(stage, random)  # while it ends, and its volume is unmounted and detached
        await stage.until("the pod is gone", lambda name=name: gone(stage, name), patience=120)
        await stage.client.create(Pod, pod(name), "default")
        await stage.until("another pod has the volume", lambda name=name: ready(stage, name), patience=120)
        await stage.client.delete(Pod, name, "default")
        await stage.client.delete(PersistentVolumeClaim, name, "default")
        await stage.until("the disk is deleted", lambda: not stage.array.attachments(), patience=120)
    assert await inside(stage, "grep -c plugins/mooring.dev /proc/mounts || true") == "0"


async def ready(stage: Stage, name: str) -> bool:
    live = await stage.client.find(Pod, name, "default")
    assert live is not None
    log = await stage.logs(NODE, live.uid, "c")
    assert "damaged" not in (log or ""), log
    return any(each.type == "Ready" and each.status == "True" for each in live.status.conditions) and bool(
        log and log.rstrip().endswith("written")
    )


async def gone(stage: Stage, name: str) -> bool:
    return await stage.client.find(Pod, name, "default") is None

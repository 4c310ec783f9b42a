"""Claims that wait for their first consumer: a pod gets volumes for all of them, or none is reserved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mooring.controllers.scheduling.controller import SchedulingController
from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass

Desk = Callable[[Any], Any]


async def prepare(desk: Any, claims: dict[str, str], volumes: dict[str, str]) -> None:
    """A node, a class that makes nothing, a pod with these claims, and these volumes: names with their sizes."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    await desk.api.create(Node, {"metadata": {"name": "n"}, "status": ready})
    kept = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    await desk.api.create(StorageClass, {"metadata": {"name": "kept"}, **kept})
    for name, size in claims.items():
        spec = {
            "storageClassName": "kept",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
        }
        await desk.api.create(PersistentVolumeClaim, {"metadata": {"name": name}, "spec": spec}, "default")
    for name, size in volumes.items():
        await add_volume(desk, name, size)
    mounts = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": mounts}
    await desk.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")


async def add_volume(desk: Any, name: str, size: str) -> None:
    spec = {
        "storageClassName": "kept",
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": f"/{name}"},
    }
    await desk.api.create(PersistentVolume, {"metadata": {"name": name}, "spec": spec})
    await desk.api.patch(PersistentVolume, name, {"status": {"phase": "Available"}}, subresource="status")


async def reserved(desk: Any) -> dict[str, str]:
    """Volumes by the claims that they are reserved for."""
    volumes = (await desk.api.list(PersistentVolume)).items
    return {pv.spec.claim_ref.name: pv.name for pv in volumes if pv.spec.claim_ref}


async def settled(desk: Any) -> dict[str, str]:
    task = asyncio.create_task(desk.make(SchedulingController).run())
    await asyncio.sleep(300)
    task.cancel()
    return await reserved(desk)


def test_nothing_is_reserved_for_a_pod_of_whose_claims_one_cannot_be_satisfied(desk: Desk):
    async def scene(desk: Any):
        await prepare(desk, {"a": "1Gi", "b": "1Gi"}, {"only": "5Gi"})
        assert await settled(desk) == {}
        await add_volume(desk, "second", "5Gi")
        assert await settled(desk) == {"a": "only", "b": "second"}

    desk(scene)


def test_the_smaller_claim_chooses_first_and_takes_the_volume_that_it_wastes_least_of(desk: Desk):
    async def scene(desk: Any):
        await prepare(desk, {"large": "5Gi", "small": "1Gi"}, {"x": "9Gi", "y": "5Gi"})
        assert await settled(desk) == {"small": "y", "large": "x"}

    desk(scene)

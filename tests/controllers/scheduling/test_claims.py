"""Claims that wait for their first consumer: a pod gets volumes for all of them, or none is reserved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mooring.controllers.scheduling.controller import SchedulingController
from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass

Desk = Callable[[Any], Any]


async def prepare(desk: Any, claims: dict[str, str], volumes: dict[str, str]) -> None:
    """A node, a class that makes nothing, a pod with these claims, and these volumes: names
    with their sizes."""
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


async def bound(desk: Any) -> PersistentVolumeClaim:
    """Pod p's claim a, bound to volume v."""
    await prepare(desk, {"a": "1Gi"}, {"v": "1Gi"})
    await desk.api.patch(PersistentVolumeClaim, "a", {"spec": {"volumeName": "v"}}, "default")
    status = {"status": {"phase": "Bound"}}
    return await desk.api.patch(PersistentVolumeClaim, "a", status, "default", subresource="status")


async def knows(desk: Any, claim: PersistentVolumeClaim) -> SchedulingController:
    """A scheduler whose caches have everything, and this claim."""
    controller = desk.make(SchedulingController)
    controller.cache(Node).accept(await desk.api.get(Node, "n"))
    controller.cache(StorageClass).accept(await desk.api.get(StorageClass, "kept"))
    controller.cache(PersistentVolume).accept(await desk.api.get(PersistentVolume, "v"))
    controller.cache(Pod).accept(await desk.api.get(Pod, "p", "default"))
    controller.cache(PersistentVolumeClaim).accept(claim)
    return controller


async def delete_claim(desk: Any) -> None:
    await desk.api.patch(PersistentVolumeClaim, "a", {"metadata": {"finalizers": None}}, "default")
    await desk.api.delete(PersistentVolumeClaim, "a", "default")


def test_a_pod_is_bound_when_its_claims_are(desk: Desk):
    async def scene(desk: Any):
        controller = await knows(desk, await bound(desk))
        await controller.reconcile("default/p")
        assert (await desk.api.get(Pod, "p", "default")).spec.node_name == "n"

    desk(scene)


def test_a_pod_is_not_bound_for_a_claim_that_was_made_again_and_a_node_is_chosen_for_that_one(desk: Desk):
    async def scene(desk: Any):
        former = await bound(desk)
        await delete_claim(desk)
        spec = {
            "storageClassName": "kept",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        await desk.api.create(PersistentVolumeClaim, {"metadata": {"name": "a"}, "spec": spec}, "default")
        controller = await knows(desk, former)
        await controller.reconcile("default/p")
        assert not (await desk.api.get(Pod, "p", "default")).spec.node_name
        await controller.reconcile("default/p")
        assert await reserved(desk) == {"a": "v"}

    desk(scene)


def test_a_pod_is_not_bound_for_a_claim_that_is_gone(desk: Desk):
    async def scene(desk: Any):
        former = await bound(desk)
        await delete_claim(desk)
        await (await knows(desk, former)).reconcile("default/p")
        assert not (await desk.api.get(Pod, "p", "default")).spec.node_name

    desk(scene)


def test_a_pod_is_not_bound_for_a_claim_that_is_being_deleted_and_is_told_so(desk: Desk):
    async def scene(desk: Any):
        former = await bound(desk)
        await desk.api.delete(PersistentVolumeClaim, "a", "default")
        controller = await knows(desk, former)
        await controller.reconcile("default/p")
        await controller.reconcile("default/p")
        pod = await desk.api.get(Pod, "p", "default")
        assert not pod.spec.node_name
        assert [each.message for each in pod.status.conditions] == [
            'persistentvolumeclaim "a" is being deleted'
        ]

    desk(scene)

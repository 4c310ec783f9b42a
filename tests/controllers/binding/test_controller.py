"""Protection is removed after live reads only, and an interrupted binding is completed from
wherever it stopped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.controllers.binding.controller import BindingController
from mooring.kube.errors import Unreachable
from mooring.kube.keys import ClaimKey
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, Pod
from mooring.simulation.parts.array_plugin import DISK

Desk = Callable[[Any], Any]


async def claim(desk: Any) -> PersistentVolumeClaim:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return await desk.api.create(PersistentVolumeClaim, {"metadata": {"name": "c"}, "spec": spec}, "default")


def test_a_claim_keeps_its_protection_while_a_pod_uses_it_that_the_cache_does_not_know(desk: Desk):
    async def scene(desk: Any):
        await claim(desk)
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
        spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
        await desk.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
        await desk.api.delete(PersistentVolumeClaim, "c", "default")
        controller = desk.make(BindingController)
        controller.cache(PersistentVolumeClaim).accept(
            await desk.api.get(PersistentVolumeClaim, "c", "default")
        )
        await controller.reconcile(ClaimKey("default/c"))
        assert await desk.api.find(PersistentVolumeClaim, "c", "default") is not None
        await desk.api.delete(Pod, "p", "default", grace_period_seconds=0)
        await controller.reconcile(ClaimKey("default/c"))
        assert await desk.api.find(PersistentVolumeClaim, "c", "default") is None

    desk(scene)


def test_a_binding_that_lost_any_of_its_four_answers_is_finished(desk: Desk):
    async def scene(desk: Any):
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "flexVolume": {"driver": DISK, "options": {"disk": "d"}},
        }
        await desk.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": spec})
        await claim(desk)
        available = {"status": {"phase": "Available"}}
        await desk.api.patch(PersistentVolume, "pv", available, subresource="status")
        for _ in range(5):
            controller = desk.make(BindingController)  # a new one each time, with fresh caches
            controller.cache(PersistentVolume).accept(await desk.api.get(PersistentVolume, "pv"))
            controller.cache(PersistentVolumeClaim).accept(
                await desk.api.get(PersistentVolumeClaim, "c", "default")
            )
            desk.wire.unanswered(lambda request: request.method == "PATCH")
            try:
                await controller.reconcile(ClaimKey("default/c"))
            except Unreachable:
                continue
        pv = await desk.api.get(PersistentVolume, "pv")
        bound = await desk.api.get(PersistentVolumeClaim, "c", "default")
        assert (pv.status.phase, bound.status.phase) == ("Bound", "Bound")
        assert (pv.spec.claim_ref.uid, bound.spec.volume_name) == (bound.uid, "pv")

    desk(scene)

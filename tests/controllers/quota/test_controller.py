"""What claims take is counted anew when they come, go and change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mooring.controllers.quota.controller import QuotaController
from mooring.kube.errors import Forbidden
from mooring.kube.objects import PersistentVolumeClaim, ResourceQuota

Desk = Callable[[Any], Any]


def claim(name: str, size: str = "1Gi") -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": name}, "spec": {**spec, "storageClassName": "fast"}}


async def status_of(desk: Any) -> Any:
    await asyncio.sleep(1)
    return (await desk.api.get(ResourceQuota, "q", "default")).status


async def make_quota(desk: Any, **hard: str) -> None:
    named = {name.replace("_", "."): amount for name, amount in hard.items()}
    await desk.api.create(ResourceQuota, {"metadata": {"name": "q"}, "spec": {"hard": named}}, "default")


def test_the_status_says_what_there_is_and_room_comes_back_with_a_deleted_claim(desk: Desk):
    async def scene(desk: Any):
        working = asyncio.create_task(desk.make(QuotaController).run())
        await desk.api.create(PersistentVolumeClaim, claim("before"), "default")
        await make_quota(desk, requests_storage="3Gi", pods="4")
        assert (await status_of(desk)).used == {"requests.storage": "1Gi"}
        await desk.api.create(PersistentVolumeClaim, claim("a", "2Gi"), "default")
        with pytest.raises(Forbidden, match="exceeded quota"):
            await desk.api.create(PersistentVolumeClaim, claim("b"), "default")
        free = {"metadata": {"finalizers": None}}
        await desk.api.patch(PersistentVolumeClaim, "before", free, "default")
        await desk.api.delete(PersistentVolumeClaim, "before", "default")
        status = await status_of(desk)
        assert (status.used, status.hard) == ({"requests.storage": "2Gi"}, {"requests.storage": "3Gi"})
        await desk.api.create(PersistentVolumeClaim, claim("b"), "default")
        assert not working.done()

    desk(scene)


def test_a_claim_that_is_stored_while_the_controller_counts_is_not_forgotten(desk: Desk):
    """The quota's version is read before the claims: the charge of a claim in between makes the write
    fail."""

    async def scene(desk: Any):
        controller = desk.make(QuotaController)
        await make_quota(desk, persistentvolumeclaims="2")
        quota = await desk.api.get(ResourceQuota, "q", "default")
        controller.cache(ResourceQuota).accept(quota)
        listed = controller.client.list

        async def late(*about: Any, **options: Any) -> Any:
            found = await listed(*about, **options)
            controller.client.list = listed
            await desk.api.create(PersistentVolumeClaim, claim("a"), "default")
            return found

        controller.client.list = late
        controller.queue.add("default/q")
        await controller._reconcile("default/q")
        assert (await desk.api.get(ResourceQuota, "q", "default")).status.used == {
            "persistentvolumeclaims": "1"
        }

    desk(scene)


def test_a_limit_that_is_taken_away_leaves_the_status(desk: Desk):
    async def scene(desk: Any):
        working = asyncio.create_task(desk.make(QuotaController).run())
        await make_quota(desk, requests_storage="3Gi", persistentvolumeclaims="4")
        assert set((await status_of(desk)).used) == {"requests.storage", "persistentvolumeclaims"}
        less = {"spec": {"hard": {"requests.storage": None}}}
        await desk.api.patch(ResourceQuota, "q", less, "default")
        assert (await status_of(desk)).hard == {"persistentvolumeclaims": "4"}
        assert not working.done()

    desk(scene)

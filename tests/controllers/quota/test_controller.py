"""What claims take is counted anew when they come, go and change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from controller_stage import ControllerStage, Play

from mooring.controllers.quota.controller import QuotaController
from mooring.kube.errors import Forbidden
from mooring.kube.objects import PersistentVolumeClaim, ResourceQuota


def claim(name: str, size: str = "1Gi") -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": name}, "spec": {**spec, "storageClassName": "fast"}}


async def status_of(stage: ControllerStage) -> Any:
    await asyncio.sleep(1)
    return (await stage.api.get(ResourceQuota, "q", "default")).status


async def make_quota(stage: ControllerStage, **hard: str) -> None:
    named = {name.replace("_", "."): amount for name, amount in hard.items()}
    await stage.api.create(ResourceQuota, {"metadata": {"name": "q"}, "spec": {"hard": named}}, "default")


def test_the_status_says_what_there_is_and_room_comes_back_with_a_deleted_claim(play: Play):
    async def story(stage: ControllerStage):
        working = asyncio.create_task(stage.make(QuotaController).run())
        await stage.api.create(PersistentVolumeClaim, claim("before"), "default")
        await make_quota(stage, requests_storage="3Gi", pods="4")
        assert (await status_of(stage)).used == {"requests.storage": "1Gi"}
        await stage.api.create(PersistentVolumeClaim, claim("a", "2Gi"), "default")
        with pytest.raises(Forbidden, match="exceeded quota"):
            await stage.api.create(PersistentVolumeClaim, claim("b"), "default")
        free = {"metadata": {"finalizers": None}}
        await stage.api.patch(PersistentVolumeClaim, "before", free, "default")
        await stage.api.delete(PersistentVolumeClaim, "before", "default")
        status = await status_of(stage)
        assert (status.used, status.hard) == ({"requests.storage": "2Gi"}, {"requests.storage": "3Gi"})
        await stage.api.create(PersistentVolumeClaim, claim("b"), "default")
        assert not working.done()

    play(story)


def test_a_claim_that_is_stored_while_the_controller_counts_is_not_forgotten(play: Play):
    """The quota's version is read before the claims: the charge of a claim in between makes the write
    fail."""

    async def story(stage: ControllerStage):
        controller = stage.make(QuotaController)
        await make_quota(stage, persistentvolumeclaims="2")
        quota = await stage.api.get(ResourceQuota, "q", "default")
        controller.cache(ResourceQuota).accept(quota)
        listed = controller.client.list

        async def late(*about: Any, **options: Any) -> Any:
            found = await listed(*about, **options)
            controller.client.list = listed
            await stage.api.create(PersistentVolumeClaim, claim("a"), "default")
            return found

        controller.client.list = late
        controller.queue.add("default/q")
        await controller._reconcile("default/q")
        assert (await stage.api.get(ResourceQuota, "q", "default")).status.used == {
            "persistentvolumeclaims": "1"
        }

    play(story)


def test_a_limit_that_is_taken_away_leaves_the_status(play: Play):
    async def story(stage: ControllerStage):
        working = asyncio.create_task(stage.make(QuotaController).run())
        await make_quota(stage, requests_storage="3Gi", persistentvolumeclaims="4")
        assert set((await status_of(stage)).used) == {"requests.storage", "persistentvolumeclaims"}
        less = {"spec": {"hard": {"requests.storage": None}}}
        await stage.api.patch(ResourceQuota, "q", less, "default")
        assert (await status_of(stage)).hard == {"persistentvolumeclaims": "4"}
        assert not working.done()

    play(story)

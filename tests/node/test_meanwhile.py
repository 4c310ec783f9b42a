"""What becomes known of a pod while its container is made ready counts before that is started."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring.kube.objects import ConfigMap, Pod

Play = Any
SETTINGS = {"metadata": {"name": "settings"}, "data": {"mode": "fast"}}
MODE = {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "mode"}}}


async def deleted(stage: Any) -> None:
    await stage.api.delete(Pod, "web-0", "default")


async def removed_by_force(stage: Any) -> None:
    await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=0)


async def taken(stage: Any) -> None:
    """Its volume was taken from the node."""
    await stage.detach()


async def settings_are_slow(stage: Any) -> tuple[asyncio.Event, asyncio.Event]:
    """An agent runs that is not answered what is in the settings. That they were asked for; the answer."""
    held, go = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        held.set()
        await go.wait()

    await stage.start()
    await stage.api.create(ConfigMap, SETTINGS, "default")
    stage.gate = lambda sent: hold() if "/configmaps/settings" in sent.path else None
    return held, go


@pytest.mark.parametrize("meanwhile", [deleted, removed_by_force, taken])
def test_a_container_is_not_started_that_is_not_to_run_any_more(
    play: Play, meanwhile: Callable[[Any], Awaitable[None]]
):
    """What its variables refer to is read live: the answer may be seconds away."""

    async def story(stage: Any) -> None:
        held, go = await settings_are_slow(stage)
        volume = {"name": "data", "flexVolume": {"driver": "example.com/disk", "options": {"disk": "d1"}}}
        mounted = [{"name": "data", "mountPath": "/data"}]
        await stage.create_pod(container={"env": [MODE], "volumeMounts": mounted}, volumes=[volume])
        await stage.attach()
        await held.wait()
        began = asyncio.get_running_loop().time()
        await meanwhile(stage)
        await asyncio.sleep(5)
        stage.gate = lambda sent: None
        go.set()
        await stage.until(lambda: "tear-down data" in stage.machine.journal)
        assert not [each for each in stage.machine.journal if each.startswith("start main")]
        assert asyncio.get_running_loop().time() - began < 10

    play(story)


def test_a_container_whose_pod_has_changed_otherwise_is_started(play: Play):
    async def story(stage: Any) -> None:
        held, go = await settings_are_slow(stage)
        await stage.create_pod(container={"env": [MODE]})
        await held.wait()
        await stage.api.patch(Pod, "web-0", {"metadata": {"labels": {"a": "b"}}}, "default")
        await asyncio.sleep(1)
        stage.gate = lambda sent: None
        go.set()
        await stage.until(lambda: "start main 0" in stage.machine.journal, seconds=5)

    play(story)

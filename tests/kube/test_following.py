"""Several kinds that are followed together, against the embedded API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest
import waiting

from mooring.kube.errors import KubeError, NotFound
from mooring.kube.following import Following
from mooring.kube.objects import ConfigMap, Secret
from mooring.kube.objects.fencing import NodeFence

Play = Callable[[Callable[[Any], Coroutine[Any, Any, Any]]], Any]


def following(api: Any, *kinds: Any, optional: tuple[Any, ...] = ()) -> Following:
    return Following(api.client, kinds, optional, random=Random(3))


async def create(api: Any, name: str) -> None:
    await api.admin.create(ConfigMap, {"metadata": {"name": name}}, "default")


def test_what_was_there_is_known_once_it_is_entered(play: Play):
    async def story(api: Any):
        await create(api, "a")
        async with following(api, ConfigMap, Secret) as known:
            assert "a" in [each.name for each in known.of(ConfigMap)]

    play(story)


def test_it_tells_of_a_change_and_then_no_more(play: Play):
    async def story(api: Any):
        await create(api, "before")
        async with following(api, ConfigMap) as known:
            await known.changed()
            told = asyncio.create_task(known.changed())
            await asyncio.sleep(100)
            assert not told.done()
            await create(api, "a")
            await told
            assert "a" in [each.name for each in known.of(ConfigMap)]

    play(story)


def test_there_are_none_of_an_optional_kind_that_the_server_does_not_know(play: Play):
    async def story(api: Any):
        async with following(api, ConfigMap, optional=(NodeFence,)) as known:
            assert known.of(NodeFence) == []
            assert known.silence == ""

    play(story)


def test_a_kind_that_is_needed_and_not_known_is_an_error_at_once(play: Play):
    async def story(api: Any):
        with pytest.raises(NotFound):
            async with following(api, NodeFence):
                pass

    play(story)


def test_a_server_that_does_not_answer_is_an_error_at_once(play: Play):
    async def story(api: Any):
        api.wire.down = True
        with pytest.raises(KubeError):
            async with following(api, ConfigMap):
                pass

    play(story)


def test_while_the_server_is_not_heard_it_says_why_and_tells_of_it(play: Play):
    """Although nothing changes: that nothing is heard is a change of what is known."""

    async def story(api: Any):
        await create(api, "before")
        async with following(api, ConfigMap) as known:
            await known.changed()
            api.wire.down = True
            await known.changed()
            assert known.silence
            api.wire.down = False
            await waiting.until(lambda: not known.silence, "it is heard again", seconds=100)

    play(story)

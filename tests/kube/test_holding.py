"""What something is made of is held, whatever the cache shows and however the tasks come."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from mooring.kube.errors import Conflict, NotFound, Unreachable
from mooring.kube.holding import HELD_ANEW, Holder
from mooring.kube.informer import Informer
from mooring.kube.objects import ConfigMap
from mooring.simulation.parts.faulty_transport import request

FINALIZER = "example.com/held"
HELD = {"metadata": {"finalizers": ["example.com/other", FINALIZER]}}
LET_GO = {"metadata": {"finalizers": ["example.com/other"]}}


class Stage:
    """The ConfigMap `o`, with a finalizer of another, and a holder whose cache a test fills."""

    def __init__(self, api: Any) -> None:
        self.admin, self.wire = api.admin, api.wire
        self.cached = Informer(api.client, ConfigMap, random=Random(1))
        self.holder = Holder(api.client, self.cached, FINALIZER)
        self.needed = 0  # by so many

    def another(self, api: Any) -> Holder[ConfigMap]:
        """The holder of another process."""
        return Holder(api.client, Informer(api.client, ConfigMap, random=Random(1)), FINALIZER)

    async def create(self, name: str = "o") -> ConfigMap:
        return await self.admin.create(
            ConfigMap, {"metadata": {"name": name, **LET_GO["metadata"]}}, "default"
        )

    async def finalizers(self) -> list[str]:
        return [*(await self.admin.get(ConfigMap, "o", "default")).metadata.finalizers]

    async def write(self, body: dict[str, Any]) -> ConfigMap:
        return await self.admin.patch(ConfigMap, "o", body, "default")

    async def is_needed(self) -> bool:
        needed = self.needed > 0
        await asyncio.sleep(1)  # a list takes time
        return needed


def test_it_is_held_once_and_beside_the_finalizers_of_others(play: Any):
    async def story(api: Any) -> None:
        stage = Stage(api)
        made = await stage.create()
        held = await stage.holder.hold(made)
        assert stage.holder.has(held)
        assert await stage.holder.hold(made) == held
        assert await stage.finalizers() == ["example.com/other", FINALIZER]
        assert stage.cached.get("default/o") == held

    play(story)


def test_a_cache_that_shows_it_as_held_is_not_believed(play: Any):
    """The finalizer was taken off since, of which this cache, of a process that stood by, has not heard."""

    async def story(api: Any) -> None:
        stage = Stage(api)
        await stage.create()
        seen = await stage.write(HELD)
        stage.cached.accept(seen)
        await stage.write(LET_GO)
        await stage.holder.hold(seen)
        assert FINALIZER in await stage.finalizers()

    play(story)


def test_what_is_being_let_go_while_another_one_comes_that_needs_it_is_held_in_the_end(play: Any):
    async def story(api: Any) -> None:
        stage = Stage(api)
        await stage.create()
        seen = await stage.write(HELD)
        stage.cached.accept(seen)

        async def another() -> None:
            await asyncio.sleep(0.5)  # after the look, before the write
            stage.needed += 1
            await stage.holder.hold(seen)

        await asyncio.gather(stage.holder.let_go("default/o", stage.is_needed), another())
        assert FINALIZER in await stage.finalizers()

    play(story)


@pytest.mark.parametrize("needed", [0, 1])
def test_it_is_let_go_when_nothing_needs_it(play: Any, needed: int):
    async def story(api: Any) -> None:
        stage = Stage(api)
        await stage.create()
        stage.cached.accept(await stage.write(HELD))
        stage.needed = needed
        await stage.holder.let_go("default/o", stage.is_needed)
        assert (FINALIZER in await stage.finalizers()) is bool(needed)

    play(story)


def test_it_is_not_let_go_by_an_old_sight_of_it(play: Any):
    async def story(api: Any) -> None:
        stage = Stage(api)
        await stage.create()
        stage.cached.accept(await stage.write(HELD))
        await stage.write({"data": {"changed": "since"}})
        with pytest.raises(Conflict):
            await stage.holder.let_go("default/o", stage.is_needed)
        assert FINALIZER in await stage.finalizers()

    play(story)


def test_what_is_not_held_is_let_go_without_a_look(play: Any):
    async def story(api: Any) -> None:
        stage = Stage(api)
        stage.wire.lose(request("PATCH", ""))
        stage.cached.accept(await stage.create())

        async def no_look() -> bool:
            raise AssertionError("a list")

        await stage.holder.let_go("default/o", no_look)
        await stage.holder.let_go("default/unknown", no_look)

    play(story)


def test_one_that_is_being_deleted_takes_no_finalizer(play: Any):
    async def story(api: Any) -> None:
        stage = Stage(api)
        made = await stage.create()
        await stage.admin.delete(ConfigMap, "o", "default")
        assert not stage.holder.has(await stage.holder.hold(made))

    play(story)


def test_its_successor_is_not_held_for_it(play: Any):
    async def story(api: Any) -> None:
        stage = Stage(api)
        made = await stage.create()
        await stage.write({"metadata": {"finalizers": None}})
        await stage.admin.delete(ConfigMap, "o", "default")
        with pytest.raises(NotFound):
            await stage.holder.hold(made)
        await stage.create()
        with pytest.raises(Conflict):
            await stage.holder.hold(made)
        assert FINALIZER not in await stage.finalizers()

    play(story)


TAKEN_OFF = request("PATCH", "configmaps/o", '"finalizers":["example.com/other"]')


def test_what_its_successor_holds_is_not_let_go_by_a_write_that_is_still_on_its_way(play: Any):
    """The claim would go, and its disk with it, while it is copied."""

    async def story(api: Any) -> None:
        stage = Stage(api)
        await stage.holder.hold(await stage.create())
        on_its_way = stage.wire.hold(TAKEN_OFF)
        letting_go = asyncio.create_task(stage.holder.let_go("default/o", stage.is_needed))
        await on_its_way.arrived.wait()
        seen = await stage.admin.get(ConfigMap, "o", "default")
        await stage.another(api).hold(seen)
        on_its_way.release()
        with pytest.raises(Conflict):
            await letting_go
        assert FINALIZER in await stage.finalizers()

    play(story)


def test_what_it_holds_again_is_not_let_go_by_a_late_write_of_its_own(play: Any):
    async def story(api: Any) -> None:
        stage = Stage(api)
        made = await stage.create()
        await stage.holder.hold(made)
        late = stage.wire.late(TAKEN_OFF)
        with pytest.raises(Unreachable):
            await stage.holder.let_go("default/o", stage.is_needed)
        await stage.holder.hold(made)
        await late.deliver()
        assert FINALIZER in await stage.finalizers()

    play(story)


def test_a_process_that_finds_it_held_writes_it_once_and_takes_that_off_with_the_finalizer(play: Any):
    async def story(api: Any) -> None:
        stage = Stage(api)
        made = await stage.create()
        await stage.another(api).hold(made)
        held = await stage.holder.hold(made)
        assert HELD_ANEW in held.metadata.annotations
        assert await stage.holder.hold(made) == held
        await stage.holder.let_go("default/o", stage.is_needed)
        left = (await stage.admin.get(ConfigMap, "o", "default")).metadata
        assert (left.finalizers, left.annotations) == (("example.com/other",), {})

    play(story)

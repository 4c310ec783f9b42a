"""How a node's volumes become known when many wait for that at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from virtual_server import started

from mooring.kube.errors import KubeError, Unreachable
from mooring.kube.objects import Node
from mooring.node.options import AgentOptions
from mooring.node.registration import RETRY_S, Registration
from mooring.simulation.parts.faulty_transport import faulty_client

Play = Callable[[Any], Any]


class Stage:
    """A node that is registered, and whose volumes a test sets."""

    async def start(self, now: Callable[[], datetime], root: Path) -> None:
        self.client, self.wire = faulty_client(await started(now))
        self.volumes: tuple[str, ...] = ()
        options = AgentOptions(name="n", root_dir=root, boot_id="b")
        self.registration = Registration(
            self.client, options, lambda: self.volumes, volume_limits={}, now=now, random=Random(1)
        )
        await self.registration.register()

    def writes(self) -> int:
        return sum(each.startswith(("PATCH", "POST")) for each in self.wire.sent)

    async def publish(self) -> KubeError | None:
        try:
            await self.registration.publish()
        except KubeError as error:
            return error
        return None

    async def in_use(self) -> tuple[str, ...]:
        return tuple((await self.client.get(Node, "n")).status.volumes_in_use)


@pytest.fixture
def play(run: Play, now: Callable[[], datetime], tmp_path: Path) -> Play:
    async def on_stage(story: Callable[[Stage], Any]) -> Any:
        stage = Stage()
        await stage.start(now, tmp_path)
        return await story(stage)

    return lambda story: run(on_stage(story))


def test_as_long_as_it_fails_all_that_wait_ask_together(play: Play):
    """An admission webhook is down, and seven volumes are to be mounted (82517 of the swarm)."""

    async def story(stage: Stage) -> None:
        stage.volumes, stage.wire.down = ("v",), True
        before = stage.writes()
        failed = await asyncio.gather(*(stage.publish() for _ in range(7)))
        assert all(isinstance(each, Unreachable) for each in failed)
        assert stage.writes() == before + 1

    play(story)


def test_what_fails_is_tried_again_after_a_while(play: Play):
    async def story(stage: Stage) -> None:
        stage.volumes, stage.wire.down = ("v",), True
        assert await stage.publish() is not None
        stage.wire.down = False
        assert await stage.publish() is not None
        await asyncio.sleep(RETRY_S)
        assert await stage.publish() is None
        assert await stage.in_use() == ("v",)

    play(story)


def test_once_a_try_succeeds_the_next_one_is_not_held_back(play: Play):
    async def story(stage: Stage) -> None:
        stage.volumes, stage.wire.down = ("v",), True
        assert await stage.publish() is not None
        stage.wire.down = False
        await stage.registration.register()
        stage.volumes = ("v", "w")
        assert await stage.publish() is None
        assert await stage.in_use() == ("v", "w")

    play(story)


def test_a_success_serves_all_that_wait(play: Play):
    async def story(stage: Stage) -> None:
        stage.volumes = ("v",)
        before = stage.writes()
        assert await asyncio.gather(*(stage.publish() for _ in range(7))) == [None] * 7
        assert stage.writes() == before + 1

    play(story)


def test_a_registration_goes_on_until_it_is_done(play: Play):
    async def story(stage: Stage) -> None:
        stage.wire.down = True
        registering = asyncio.ensure_future(stage.registration.register())
        await asyncio.sleep(3.5 * RETRY_S)
        assert not registering.done()
        stage.wire.down = False
        await registering

    play(story)

"""The tokens that pods of a node have in their volumes: asked for with the node's rights, kept, renewed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mooring.apiserver import Server
from mooring.kube.client import Client
from mooring.kube.errors import ApiError
from mooring.kube.objects import Pod, ServiceAccount
from mooring.kube.transport import InProcess
from mooring.node.volumes.account_tokens import AccountTokens
from mooring.volumes.errors import ContentMissing

NODE = "node-1"
START = datetime(2030, 1, 1, tzinfo=UTC)


class Stage:
    """A pod on the node whose volume has a token."""

    async def start(self, clock: datetime = START) -> None:
        """`clock`: the API server's."""
        began = asyncio.get_running_loop().time()

        def now() -> datetime:
            return clock + timedelta(seconds=asyncio.get_running_loop().time() - began)

        self.server = Server.in_memory(now=now)
        await self.server.start()
        self.api = Client(InProcess(self.server.call, self.server.tokens.admin()))
        self.reaches = True
        self.asked = 0
        await self.api.create(ServiceAccount, {"metadata": {"name": "robot"}}, "default")
        projected = {"sources": [{"serviceAccountToken": {"path": "token"}}]}
        spec = {
            "containers": [{"name": "c", "image": "x"}],
            "serviceAccountName": "robot",
            "nodeName": NODE,
            "volumes": [{"name": "t", "projected": projected}],
        }
        self.pod = await self.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
        own = Client(InProcess(self._call, self.server.tokens.node(NODE)))
        self.slept = 0.0
        self.tokens = AccountTokens(own, lambda: asyncio.get_running_loop().time() + self.slept)

    async def _call(self, *words: Any, **more: Any) -> Any:
        if not self.reaches:
            raise OSError("the API server is away")
        self.asked += 1
        return await self.server.call(*words, **more)

    async def get(self, pod: Pod | None = None, seconds: int = 3600) -> str:
        return (await self.tokens.get(pod or self.pod, "", seconds)).token

    def whose(self, token: str) -> str:
        return self.server.identities.user(token).name


Play = Callable[[Callable[[Stage], Awaitable[None]]], None]


@pytest.fixture
def play(run: Any) -> Play:
    """Plays a story in virtual time."""

    def play_story(story: Callable[[Stage], Awaitable[None]]) -> None:
        async def on_stage() -> None:
            stage = Stage()
            await stage.start()
            await story(stage)

        run(on_stage())

    return play_story


def test_a_token_is_the_pods_own_account_and_is_asked_for_once(play: Play):
    async def story(stage: Stage):
        token = await stage.get()
        assert stage.whose(token) == "system:serviceaccount:default:robot"
        await asyncio.sleep(40 * 60)
        assert await stage.get() == token
        assert stage.asked == 1

    play(story)


@pytest.mark.parametrize(("lasts", "kept"), [(timedelta(hours=1), 48), (timedelta(days=3), 24 * 60)])
def test_a_token_is_kept_until_a_fifth_of_its_time_is_left_or_for_a_day(
    play: Play, lasts: timedelta, kept: int
):
    """As the kubelet keeps it, in minutes."""

    async def story(stage: Stage):
        seconds = int(lasts.total_seconds())
        token = await stage.get(seconds=seconds)
        await asyncio.sleep(kept * 60 - 1)
        assert await stage.get(seconds=seconds) == token
        await asyncio.sleep(1)
        assert await stage.get(seconds=seconds) != token

    play(story)


def test_a_token_gets_older_while_the_machine_sleeps(play: Play):
    """The event loop's clock stands then, and the API server's does not."""

    async def story(stage: Stage):
        token = await stage.get()
        stage.slept = 3600.0
        assert await stage.get() != token
        stage.reaches = False
        stage.slept += 3600.0
        with pytest.raises(OSError, match="away"):  # one that has expired is no help
            await stage.get()

    play(story)


def test_a_token_that_has_expired_is_forgotten_with_the_next_one_that_is_asked_for(play: Play):
    """Pods come and go for as long as the agent runs: what it keeps must not grow with them."""

    async def story(stage: Stage):
        await stage.get()
        await asyncio.sleep(3600)
        await stage.get(seconds=7200)
        assert [seconds for _, _, seconds in stage.tokens._kept] == [7200]  # pyright: ignore[reportPrivateUsage]

    play(story)


def test_a_token_is_renewed_before_it_ends(play: Play):
    async def story(stage: Stage):
        token = await stage.get()
        await asyncio.sleep(50 * 60)
        again = await stage.get()
        assert again != token
        await asyncio.sleep(20 * 60)
        assert stage.whose(again) == "system:serviceaccount:default:robot"

    play(story)


@pytest.mark.parametrize("hours", [-1, 0, 1])
def test_a_token_is_asked_for_seldom_and_is_good_whatever_the_api_servers_clock_shows(play: Play, hours: int):
    """By a node's clock that is an hour behind that one, each token was shown for 36 minutes too long."""

    async def story(stage: Stage):
        await stage.start(START + timedelta(hours=hours))
        for _ in range(120):
            assert stage.whose(await stage.get()) == "system:serviceaccount:default:robot"
            await asyncio.sleep(60)
        assert stage.asked == 3

    play(story)


def test_a_token_that_lasts_less_long_than_was_asked_for_is_renewed_in_its_time(play: Play):
    """An API server may grant less (`--service-account-max-token-expiration`)."""

    async def story(stage: Stage):
        client: Any = stage.tokens._client  # pyright: ignore[reportPrivateUsage]
        create_raw = client.create_raw

        async def granting_less(kind: Any, body: Any, **more: Any) -> bytes:
            return await create_raw(kind, body | {"spec": body["spec"] | {"expirationSeconds": 600}}, **more)

        client.create_raw = granting_less
        for _ in range(30):
            assert stage.whose(await stage.get()) == "system:serviceaccount:default:robot"
            await asyncio.sleep(60)

    play(story)


def test_an_old_token_serves_while_the_api_server_is_away_and_no_longer_than_it_lasts(play: Play):
    async def story(stage: Stage):
        token = await stage.get()
        stage.reaches = False
        await asyncio.sleep(55 * 60)
        assert await stage.get() == token
        await asyncio.sleep(5 * 60)
        with pytest.raises(OSError, match="away"):
            await stage.get()

    play(story)


def test_another_pod_of_the_name_has_a_token_of_its_own(play: Play):
    async def story(stage: Stage):
        first = await stage.get()
        await stage.api.delete(Pod, "p", "default", grace_period_seconds=0)
        await stage.start()
        assert await stage.get() != first

    play(story)


def test_a_pod_without_an_account_is_told_to_name_one(play: Play):
    async def story(stage: Stage):
        spec = {"containers": [{"name": "c", "image": "x"}], "nodeName": NODE}
        plain = await stage.api.create(Pod, {"metadata": {"name": "q"}, "spec": spec}, "default")
        with pytest.raises(ContentMissing, match="no serviceAccountName: name one"):
            await stage.get(plain)

    play(story)


def test_a_pod_of_another_node_has_none_here(play: Play):
    async def story(stage: Stage):
        spec = {
            "containers": [{"name": "c", "image": "x"}],
            "nodeName": "node-2",
            "serviceAccountName": "robot",
        }
        foreign = await stage.api.create(Pod, {"metadata": {"name": "q"}, "spec": spec}, "default")
        with pytest.raises(ApiError, match="scheduled on a different node"):
            await stage.get(foreign)

    play(story)

"""The tokens that pods of a node have in their volumes: asked for with the node's rights, kept, renewed."""

from __future__ import annotations

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


class Stage:
    """A pod on the node whose volume has a token; the clock stands still until it is moved."""

    async def start(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)
        self.server = Server.in_memory(now=lambda: self.now)
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
        self.tokens = AccountTokens(own, lambda: self.now)

    async def _call(self, *words: Any, **more: Any) -> Any:
        if not self.reaches:
            raise OSError("the API server is away")
        self.asked += 1
        return await self.server.call(*words, **more)

    async def get(self, pod: Pod | None = None, seconds: int = 3600) -> str:
        return (await self.tokens.get(pod or self.pod, "", seconds)).token

    def whose(self, token: str) -> str:
        return self.server.identities.user(token).name


@pytest.fixture
async def stage() -> Stage:
    made = Stage()
    await made.start()
    return made


async def test_a_token_is_the_pods_own_account_and_is_asked_for_once(stage: Stage):
    token = await stage.get()
    assert stage.whose(token) == "system:serviceaccount:default:robot"
    stage.now += timedelta(minutes=40)
    assert await stage.get() == token
    assert stage.asked == 1


@pytest.mark.parametrize(("lasts", "kept"), [(timedelta(hours=1), 48), (timedelta(days=3), 24 * 60)])
async def test_a_token_is_kept_until_a_fifth_of_its_time_is_left_or_for_a_day(
    stage: Stage, lasts: timedelta, kept: int
):
    """As the kubelet keeps it, in minutes."""
    seconds = int(lasts.total_seconds())
    token = await stage.get(seconds=seconds)
    stage.now += timedelta(minutes=kept, seconds=-1)
    assert await stage.get(seconds=seconds) == token
    stage.now += timedelta(seconds=1)
    assert await stage.get(seconds=seconds) != token


async def test_a_token_that_has_expired_is_forgotten_with_the_next_one_that_is_asked_for(stage: Stage):
    """Pods come and go for as long as the agent runs: what it keeps must not grow with them."""
    await stage.get()
    stage.now += timedelta(hours=1)
    await stage.get(seconds=7200)
    assert [seconds for _, _, seconds in stage.tokens._kept] == [7200]  # pyright: ignore[reportPrivateUsage]


async def test_a_token_is_renewed_before_it_ends(stage: Stage):
    token = await stage.get()
    stage.now += timedelta(minutes=50)
    again = await stage.get()
    assert again != token
    stage.now += timedelta(minutes=20)
    assert stage.whose(again) == "system:serviceaccount:default:robot"


async def test_an_old_token_serves_while_the_api_server_is_away_and_no_longer_than_it_lasts(stage: Stage):
    token = await stage.get()
    stage.reaches = False
    stage.now += timedelta(minutes=55)
    assert await stage.get() == token
    stage.now += timedelta(minutes=5)
    with pytest.raises(OSError, match="away"):
        await stage.get()


async def test_another_pod_of_the_name_has_a_token_of_its_own(stage: Stage):
    first = await stage.get()
    await stage.api.delete(Pod, "p", "default", grace_period_seconds=0)
    await stage.start()
    assert await stage.get() != first


async def test_a_pod_without_an_account_is_told_to_name_one(stage: Stage):
    spec = {"containers": [{"name": "c", "image": "x"}], "nodeName": NODE}
    plain = await stage.api.create(Pod, {"metadata": {"name": "q"}, "spec": spec}, "default")
    with pytest.raises(ContentMissing, match="no serviceAccountName: name one"):
        await stage.get(plain)


async def test_a_pod_of_another_node_has_none_here(stage: Stage):
    spec = {"containers": [{"name": "c", "image": "x"}], "nodeName": "node-2", "serviceAccountName": "robot"}
    foreign = await stage.api.create(Pod, {"metadata": {"name": "q"}, "spec": spec}, "default")
    with pytest.raises(ApiError, match="scheduled on a different node"):
        await stage.get(foreign)

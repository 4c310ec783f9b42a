"""A pod that may still run is removed from the API only by a person who was told the risk."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

import pytest
from virtual_server import started

from mooring.apiserver import Request
from mooring.cluster.forced_removal import CONFIRMED, delete
from mooring.cluster.layout import ClusterError
from mooring.kube.client import Client
from mooring.kube.errors import Conflict
from mooring.kube.objects import Node, Pod
from mooring.kube.transport import InProcess

Play = Callable[[Callable[[Client], Coroutine[Any, Any, None]]], None]


@pytest.fixture
def play(run: Callable[[Coroutine[Any, Any, Any]], Any], now: Callable[[], datetime]) -> Play:
    async def on_server(story: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        server = await started(now)
        admin = server.tokens.admin()
        await story(Client(InProcess(lambda **request: server.handle(Request(**request)), admin)))

    return lambda story: run(on_server(story))


async def pod_on(client: Client, ready: str = "", *, phase: str = "Running", node: str = "n") -> Pod:
    """A pod of a node whose Ready is that; "": there is no such Node."""
    if ready:
        await client.create(Node, {"metadata": {"name": "n"}})
        status = {"status": {"conditions": [{"type": "Ready", "status": ready}]}}
        await client.patch(Node, "n", status, subresource="status")
    spec = {"containers": [{"name": "main", "image": "shell"}], **({"nodeName": node} if node else {})}
    await client.create(Pod, {"metadata": {"name": "web-0"}, "spec": spec}, "default")
    return await client.patch(Pod, "web-0", {"status": {"phase": phase}}, "default", subresource="status")


@pytest.mark.parametrize(("ready", "said"), [("Unknown", "does not answer"), ("", "does not exist any more")])
def test_what_is_risked_is_said_and_nothing_is_changed(play: Play, ready: str, said: str) -> None:
    async def story(client: Client) -> None:
        before = await pod_on(client, ready)
        with pytest.raises(ClusterError, match=said) as refused:
            await delete(client, "default", "web-0", confirmed=False)
        assert "mooring delete pod/web-0 --namespace default --confirm" in str(refused.value)
        assert await client.get(Pod, "web-0", "default") == before

    play(story)


def test_a_removal_that_is_confirmed_takes_the_object_away(play: Play) -> None:
    async def story(client: Client) -> None:
        await pod_on(client, "Unknown")
        assert "Its volumes stay with node n" in await delete(client, "default", "web-0", confirmed=True)
        assert await client.find(Pod, "web-0", "default") is None

    play(story)


def test_the_confirmation_is_on_the_pod_when_it_is_removed(play: Play) -> None:
    async def story(client: Client) -> None:
        pod = await pod_on(client, "Unknown")
        await client.revise(pod, {"metadata": {"finalizers": ["a/test"]}})
        await delete(client, "default", "web-0", confirmed=True)
        left = await client.get(Pod, "web-0", "default")
        assert left.deleting
        assert left.metadata.annotations[CONFIRMED] == pod.uid

    play(story)


@pytest.mark.parametrize("ready", ["True", "False"])
@pytest.mark.parametrize("confirmed", [False, True])
def test_a_node_that_answers_ends_the_pod_itself(play: Play, ready: str, confirmed: bool) -> None:
    async def story(client: Client) -> None:
        await pod_on(client, ready)
        assert "node n ends it" in await delete(client, "default", "web-0", confirmed=confirmed)
        left = await client.get(Pod, "web-0", "default")
        assert left.metadata.deletion_grace_period_seconds == 30
        assert CONFIRMED not in left.metadata.annotations

    play(story)


@pytest.mark.parametrize("pod", [{"node": ""}, {"phase": "Failed"}])
def test_a_pod_without_processes_goes_without_a_question(play: Play, pod: dict[str, str]) -> None:
    async def story(client: Client) -> None:
        await pod_on(client, "Unknown", **pod)
        assert "is being deleted" in await delete(client, "default", "web-0", confirmed=False)

    play(story)


def test_a_pod_that_is_not_there_is_said(play: Play) -> None:
    async def story(client: Client) -> None:
        with pytest.raises(ClusterError, match="no pod default/web-0"):
            await delete(client, "default", "web-0", confirmed=True)

    play(story)


def test_a_pod_that_changes_meanwhile_is_left_alone(play: Play) -> None:
    """What was confirmed is what was read."""

    async def story(client: Client) -> None:
        await pod_on(client, "Unknown")
        revise = client.revise

        async def and_another_writes(*given: Any, **options: Any) -> Any:
            written = await revise(*given, **options)
            await client.patch(Pod, "web-0", {"metadata": {"labels": {"a": "b"}}}, "default")
            return written

        client.revise = and_another_writes  # type: ignore[method-assign]
        with pytest.raises(Conflict):
            await delete(client, "default", "web-0", confirmed=True)
        assert await client.find(Pod, "web-0", "default") is not None

    play(story)

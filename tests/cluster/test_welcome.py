"""A node that was said to be dead, and is back, is taken into service again by an operator's word."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

import pytest
from tests.cluster.test_confirm_dead import cluster_with

from mooring.cluster.confirm_dead import confirm
from mooring.cluster.layout import ClusterError
from mooring.cluster.welcome import kept_off, welcome
from mooring.kube.client import Client
from mooring.kube.objects import Node
from mooring.volumes.names import RECONSTRUCTED
from mooring.volumes.out_of_service import SEEN, identity, taint_of

Run = Callable[[Coroutine[Any, Any, Any]], Any]


async def said_to_be_dead(now: Callable[[], datetime]) -> Client:
    client = await cluster_with("Unknown", now)
    await client.patch(Node, "n", {"metadata": {"annotations": {RECONSTRUCTED: "x"}}})
    await confirm(client, "n", now=now)
    return client


async def report(client: Client, *, seen: bool) -> None:
    """The node reports that it is Ready; with `seen` it has seen the taint."""
    taint = taint_of(await client.get(Node, "n"))
    assert taint is not None
    if seen:
        await client.patch(Node, "n", {"metadata": {"annotations": {SEEN: identity(taint)}}})
    status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await client.patch(Node, "n", status, subresource="status")


def test_a_node_that_has_reported_since_is_welcome(run: Run, now: Callable[[], datetime]) -> None:
    async def story() -> None:
        client = await said_to_be_dead(now)
        assert "mooring node welcome n" in await kept_off(client, "n")
        other = {
            "spec": {"taints": [*_taints(await client.get(Node, "n")), {"key": "k", "effect": "NoExecute"}]}
        }
        await client.patch(Node, "n", other)
        await report(client, seen=True)
        assert await welcome(client, "n") == (
            "node n is in service again; its taints k:NoExecute are its controllers' or yours"
        )
        live = await client.get(Node, "n")
        assert [taint.key for taint in live.spec.taints] == ["k"]
        assert await kept_off(client, "n") == ""
        assert (await welcome(client, "n")).startswith("node n has no taint out-of-service")

    run(story())


def _taints(node: Node) -> list[dict[str, str]]:
    return [
        {"key": each.key, "value": each.value, "effect": each.effect, "timeAdded": each.time_added or ""}
        for each in node.spec.taints
    ]


def test_a_node_that_is_silent_keeps_its_taint(run: Run, now: Callable[[], datetime]) -> None:
    async def story() -> None:
        client = await said_to_be_dead(now)
        with pytest.raises(ClusterError, match="Ready is Unknown"):
            await welcome(client, "n")
        assert taint_of(await client.get(Node, "n")) is not None

    run(story())


def test_a_node_that_has_not_seen_the_word_keeps_its_taint(run: Run, now: Callable[[], datetime]) -> None:
    async def story() -> None:
        client = await said_to_be_dead(now)
        await report(client, seen=False)
        with pytest.raises(ClusterError, match="has not reported since"):
            await welcome(client, "n")
        assert taint_of(await client.get(Node, "n")) is not None

    run(story())


def test_a_node_that_is_not_there_is_an_error(run: Run, now: Callable[[], datetime]) -> None:
    async def story() -> None:
        client = await said_to_be_dead(now)
        with pytest.raises(ClusterError, match="no node 'm'"):
            await welcome(client, "m")
        assert await kept_off(client, "m") == ""

    run(story())

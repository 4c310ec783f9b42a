"""The operator's statement that a node is dead: refused while the node answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

import pytest
from virtual_server import started

from mooring.apiserver import Request
from mooring.cluster.confirm_dead import confirm
from mooring.cluster.layout import ClusterError
from mooring.controllers.fencing.kinds import FENCING_KINDS
from mooring.kube.client import Client
from mooring.kube.objects import Node, VolumeAttachment
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.kube.objects.fencing import NodeFence
from mooring.kube.transport import InProcess
from mooring.volumes.names import NODE_MACHINE, NODE_UID
from mooring.volumes.out_of_service import SEEN, TAINT, identity, out_of_service, spent, taint_of
from mooring.volumes.statements import statement_of

Run = Callable[[Coroutine[Any, Any, Any]], Any]


async def cluster_with(ready: str, now: Callable[[], datetime]) -> Client:
    server = await started(now)
    client = Client(InProcess(lambda **request: server.handle(Request(**request)), server.tokens.admin()))
    await client.create(Node, {"metadata": {"name": "n"}})
    status = {"status": {"conditions": [{"type": "Ready", "status": ready}]}}
    await client.patch(Node, "n", status, subresource="status")
    return client


def test_a_silent_node_is_declared_out_of_service(run: Run, now: Callable[[], datetime]) -> None:
    async def story() -> None:
        client = await cluster_with("Unknown", now)
        assert "out of service" in await confirm(client, "n", now=now)
        assert out_of_service(await client.get(Node, "n"))

    run(story())


@pytest.mark.parametrize("ready", ["True", "False"])
def test_a_node_that_answers_is_not_declared_dead(run: Run, now: Callable[[], datetime], ready: str) -> None:
    async def story() -> None:
        client = await cluster_with(ready, now)
        with pytest.raises(ClusterError, match="still answers"):
            await confirm(client, "n", now=now)
        assert taint_of(await client.get(Node, "n")) is None

    run(story())


def test_a_node_that_is_not_there_is_an_error(run: Run, now: Callable[[], datetime]) -> None:
    async def story() -> None:
        client = await cluster_with("Unknown", now)
        with pytest.raises(ClusterError, match="no node 'm'"):
            await confirm(client, "m", now=now)

    run(story())


def test_saying_it_twice_changes_nothing(run: Run, now: Callable[[], datetime]) -> None:
    async def story() -> None:
        client = await cluster_with("Unknown", now)
        await confirm(client, "n", now=now)
        before = await client.get(Node, "n")
        assert "already" in await confirm(client, "n", now=now)
        assert await client.get(Node, "n") == before

    run(story())


def test_a_taint_under_which_the_node_has_reported_is_replaced_by_a_fresh_one(
    run: Run, now: Callable[[], datetime]
) -> None:
    async def story() -> None:
        client = await cluster_with("Unknown", now)
        old = {"key": TAINT, "effect": "NoExecute", "timeAdded": "2029-01-01T00:00:00Z"}
        await client.patch(Node, "n", {"spec": {"taints": [old]}})
        held = taint_of(await client.get(Node, "n"))
        assert held is not None
        await client.patch(Node, "n", {"metadata": {"annotations": {SEEN: identity(held)}}})
        assert spent(await client.get(Node, "n"))
        await confirm(client, "n", now=now)
        assert out_of_service(await client.get(Node, "n"))

    run(story())


async def attached(client: Client, name: str, machine: str) -> None:
    """A volume of a machine that is, or was, node n."""
    node = await client.get(Node, "n")
    annotations = {NODE_UID: node.uid, NODE_MACHINE: machine}
    spec = {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": f"pv-{name}"}}
    await client.create(
        VolumeAttachment, {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
    )


async def stated(client: Client, name: str) -> bool:
    return statement_of(await client.get(VolumeAttachment, name)) is not None


def test_a_machine_whose_name_another_one_has_is_stated_to_be_dead_and_only_that_one(
    run: Run, now: Callable[[], datetime]
) -> None:
    async def story() -> None:
        client = await cluster_with("True", now)
        info = {"status": {"nodeInfo": {"bootID": "b", "systemUUID": "present"}}}
        await client.patch(Node, "n", info, subresource="status")
        await attached(client, "mine", "present ")
        await attached(client, "theirs", "former ")
        assert "1 volume may move" in await confirm(client, "n", machine="former", now=now)
        assert (await stated(client, "theirs"), await stated(client, "mine")) == (True, False)
        assert taint_of(await client.get(Node, "n")) is None
        with pytest.raises(ClusterError, match="is that machine"):
            await confirm(client, "n", machine="present", now=now)
        with pytest.raises(ClusterError, match="no volume is attached"):
            await confirm(client, "n", machine="a third", now=now)

    run(story())


async def cluster_with_fences(now: Callable[[], datetime]) -> Client:
    client = await cluster_with("True", now)
    for body in FENCING_KINDS:
        await client.create(CustomResourceDefinition, body)
    return client


async def fenced(client: Client, name: str, uid: str, phase: str) -> None:
    """A fence of node m, which does not exist."""
    await client.create(NodeFence, {"metadata": {"name": name}, "spec": {"nodeName": "m", "nodeUID": uid}})
    await client.patch(NodeFence, name, {"status": {"phase": phase}}, subresource="status")


def test_of_a_node_that_is_gone_it_is_said_on_its_fence_too_also_when_no_volume_is_left(
    run: Run, now: Callable[[], datetime]
) -> None:
    async def story() -> None:
        client = await cluster_with_fences(now)
        await fenced(client, "over", "u", "Unfenced")
        await fenced(client, "open", "u", "Fenced")
        assert "stated to be dead" in await confirm(client, "m", now=now)
        said = [statement_of(await client.get(NodeFence, name)) for name in ("open", "over")]
        assert [each is not None and (each.node_uid, each.absent) for each in said] == [("u", True), False]

    run(story())


def test_which_of_two_registrations_that_are_gone_is_dead_is_to_be_said(
    run: Run, now: Callable[[], datetime]
) -> None:
    async def story() -> None:
        client = await cluster_with_fences(now)
        await fenced(client, "one", "u1", "Fenced")
        await fenced(client, "two", "u2", "Fenced")
        with pytest.raises(ClusterError, match="--uid"):
            await confirm(client, "m", now=now)
        await confirm(client, "m", uid="u2", now=now)
        said = [statement_of(await client.get(NodeFence, name)) for name in ("one", "two")]
        assert [each is not None for each in said] == [False, True]

    run(story())

"""Fencing on the real kube-apiserver: its kinds, their rules in CEL, and the controller's whole round."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from random import Random
from typing import Any

import pytest
import pytest_asyncio
import waiting
from played_mechanism import Machines, PlayedMechanism
from tests.real.server import RealServer

from mooring.controllers.fencing.controller import FencingController
from mooring.controllers.fencing.kinds import FENCING_KINDS
from mooring.kube.client import Client
from mooring.kube.errors import AlreadyExists, Invalid, NotFound
from mooring.kube.http import HttpTransport
from mooring.kube.objects import Node, VolumeAttachment
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, NodeFence
from mooring.kube.times import format_time, wall_clock
from mooring.kube.tls import Trust
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.names import NODE_UID
from mooring.volumes.out_of_service import taint_of
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.statements import evidence_of


@pytest_asyncio.fixture
async def client(real: RealServer) -> AsyncGenerator[Client]:
    """Of a server that has been taught the kinds."""
    trust = Trust(authority=real.authority.read_bytes())
    client = Client(HttpTransport(real.url, token=real.token, trust=trust))
    for body in FENCING_KINDS:
        try:
            await client.create(CustomResourceDefinition, body)
        except AlreadyExists:
            continue
    await waiting.until(lambda: served(client), "the kinds are served")
    yield client
    await client.close()


async def served(client: Client) -> bool:
    try:
        for kind in (FencePolicy, FenceMechanism, NodeFence):
            await client.list(kind)
    except NotFound:
        return False
    return True


POLICY: dict[str, Any] = {"ladder": [{"mechanism": "bmc"}]}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"ladder": []}, "at least 1 items"),
        ({"ladder": [{"mechanism": "bmc", "confirmWith": ["bmc"]}]}, "a rung is not confirmed by itself"),
        ({**POLICY, "detectors": [{"type": "Condition"}]}, "a Condition detector names its condition"),
        ({**POLICY, "detectors": [{"type": "Mechanism"}]}, "a Mechanism detector names its mechanism"),
        ({**POLICY, "detectors": [{"type": "Guess"}]}, "Unsupported value"),
        ({**POLICY, "budget": {"maxShare": "half"}}, "should match"),
        ({**POLICY, "after": "Reset"}, "Unsupported value"),
    ],
)
async def test_a_policy_that_cannot_be_meant_is_refused(client: Client, spec: Any, words: str):
    with pytest.raises(Invalid, match=words):
        await client.create(FencePolicy, {"metadata": {"name": "wrong"}, "spec": spec})


@pytest.mark.parametrize(
    "change", [{"nodeName": "other"}, {"nodeUID": "other"}, {"bootID": "b"}, {"unfence": False}]
)
async def test_whom_a_fence_is_about_and_that_it_is_to_be_taken_back_does_not_change(
    client: Client, change: Any
):
    name = "fence-" + next(iter(change)).lower()
    spec = {"nodeName": "n", "nodeUID": "u", "unfence": True}
    made = await client.create(NodeFence, {"metadata": {"name": name}, "spec": spec})
    with pytest.raises(Invalid):
        await client.revise(made, {"spec": change})
    await client.revise(made, {"spec": {"reason": "another"}})


async def test_a_lost_node_is_fenced_released_and_free_again(client: Client):
    machines = Machines()
    controller = FencingController(
        client,
        {"played": PlayedMechanism(machines, takes_s=0.05)},
        PluginManager([], ControllerVolumeHost(wall_clock)),
        now=wall_clock,
        random=Random(1),
    )
    node = await client.create(Node, {"metadata": {"name": "real-a", "labels": {"fenced": "yes"}}})
    await report(client, "boot-1", "True")
    spec = {"attacher": "a", "nodeName": "real-a", "source": {"persistentVolumeName": "pv"}}
    await client.create(
        VolumeAttachment, {"metadata": {"name": "real-va", "annotations": {NODE_UID: node.uid}}, "spec": spec}
    )
    await client.create(FenceMechanism, {"metadata": {"name": "bmc"}, "spec": {"type": "played"}})
    policy = {**POLICY, "nodeSelector": {"matchLabels": {"fenced": "yes"}}, "worth": {"onlyExclusive": False}}
    await client.create(FencePolicy, {"metadata": {"name": "real"}, "spec": policy})
    working = asyncio.create_task(controller.run())
    try:
        await waiting.until(lambda: asked(client), "the mechanism was asked")
        await report(client, "boot-1", "Unknown")
        await waiting.until(lambda: released(client), "what it had is released")
        assert machines.off == {"real-a"}
        record = await client.get(VolumeAttachment, "real-va")
        evidence = evidence_of(record)
        assert evidence is not None
        assert (evidence.node_uid, evidence.boot_id) == (node.uid, "boot-1")
        await report(client, "boot-2", "True")
        await waiting.until(lambda: free(client), "it is free again")
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        for kind, name in ((Node, "real-a"), (FencePolicy, "real"), (FenceMechanism, "bmc")):
            await client.delete(kind, name)


async def report(client: Client, boot: str, ready: str) -> None:
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": "Test",
        "message": "",
        "lastTransitionTime": format_time(wall_clock()),
        "lastHeartbeatTime": format_time(wall_clock()),
    }
    status = {"conditions": [condition], "nodeInfo": {"bootID": boot}}
    await client.patch(Node, "real-a", {"status": status}, subresource="status")


async def asked(client: Client) -> bool:
    return bool((await client.get(FenceMechanism, "bmc")).status.nodes)


async def released(client: Client) -> bool:
    return taint_of(await client.get(Node, "real-a")) is not None


async def free(client: Client) -> bool:
    fences = [each for each in (await client.list(NodeFence)).items if each.spec.node_name == "real-a"]
    return taint_of(await client.get(Node, "real-a")) is None and fences[0].status.phase == "Unfenced"

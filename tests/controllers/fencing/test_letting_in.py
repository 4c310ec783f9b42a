"""A node that its storage shuts out is let in without a new boot once nothing of the old attachment is left:
its agent says so, the API, and the storage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from crashes import ended_at
from hypothesis import given
from hypothesis import strategies as st
from storage_stage import IQN, PlayedSessions, StorageStage

from mooring.controllers.fencing import releasing
from mooring.controllers.fencing.keys import FenceKey
from mooring.controllers.fencing.letting_in import what_is_left
from mooring.controllers.fencing.names import SHUT_OUT
from mooring.fence.interface import Scope
from mooring.kube.client import Client
from mooring.kube.errors import Conflict
from mooring.kube.objects import (
    Condition,
    ManagedMeta,
    Node,
    NodeStatus,
    NodeSystemInfo,
    VolumeAttachment,
)
from mooring.kube.objects.fencing import FenceAttempt, FenceMechanism, FencePolicy, FenceTarget, NodeFence
from mooring.simulation.parts.faulty_transport import role
from mooring.volumes.names import RECONSTRUCTED, STATUS_WRITE, volume_attachment_name
from mooring.volumes.node_fences import proof_of
from mooring.volumes.out_of_service import TAINT
from mooring.volumes.statements import evidence_of

KINDS = (Node, FencePolicy, FenceMechanism, NodeFence)
Story = Callable[[StorageStage], Awaitable[Any]]


async def shut_out(stage: StorageStage, *, released: bool = True) -> PlayedSessions:
    """Node a does not answer, and was shut out of the volume `shut`; a running controller does that."""
    stage.bmc = device = PlayedSessions(stage.machines, scope=Scope.STORAGE)
    node = await stage.lost_node()
    await stage.lun(node, "shut")
    async with stage.running(Client(role(stage.server, "fencing"))):
        await asyncio.sleep(5)
        await stage.silent("a")
        await stage.until_released("shut")

        async def written() -> bool:
            fence = await stage.fence("a")
            return fence is not None and bool(fence.status.released_at)

        await stage.until(written)
    return device


async def detached(stage: StorageStage, name: str = "shut") -> None:
    await stage.api.delete(VolumeAttachment, name)


async def reason(stage: StorageStage) -> str:
    fence = await stage.fence("a")
    assert fence is not None
    return fence.status.reason


async def waits(stage: StorageStage, code: str) -> None:
    """It waits, with that reason, and stays shut out."""
    async with stage.running(Client(role(stage.server, "fencing"))):

        async def so() -> bool:
            return await reason(stage) == code

        await stage.until(so)
        await asyncio.sleep(150)
        assert await reason(stage) == code
        assert stage.machines.off == {"a"}


async def let_in(stage: StorageStage) -> NodeFence:
    async with stage.running(Client(role(stage.server, "fencing"))):
        fence = await stage.until_phase("a", "Unfenced")
    assert not stage.machines.off
    return fence


def test_a_node_that_has_unmounted_is_let_in_without_a_new_boot(storage: Any):
    async def story(stage: StorageStage) -> None:
        device = await shut_out(stage)
        await detached(stage)
        await stage.back()
        fence = await let_in(stage)
        assert (fence.status.reason, fence.spec.unfence) == ("LetIn", False)
        assert fence.status.let_in_at
        assert device.let_in == 1

    storage(story)


def test_the_fence_of_a_boot_that_was_fenced_before_has_orders_and_storage_fences_of_its_own(storage: Any):
    """The former one's record was deleted, and its StorageFences are not collected yet."""

    async def story(stage: StorageStage) -> None:
        device = await shut_out(stage)
        await detached(stage)
        node = await stage.back()
        former = await let_in(stage)
        async with stage.running(Client(role(stage.server, "fencing"))):
            await stage.api.delete(NodeFence, former.name)

            async def gone() -> bool:
                return await stage.fence("a") is None

            await stage.until(gone)
            await stage.attach(node, "shut", f"10.0.0.1:3260:{IQN}:1")
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_released("shut")
        anew = await stage.fence("a")
        assert anew is not None
        assert (anew.name == former.name, anew.uid == former.uid) == (True, False)
        assert len({order.token for order in device.given}) == 2

    storage(story)


@pytest.mark.parametrize("step", ["detached", "unmounted"])
def test_it_stays_shut_out_until_it_has_unmounted_and_the_volume_is_detached(storage: Any, step: str):
    async def story(stage: StorageStage) -> None:
        await shut_out(stage)
        if step == "detached":
            await stage.back("kubernetes.io/iscsi/10.0.0.1:3260:iqn:1")
            await detached(stage)
        else:
            await stage.back()
        await waits(stage, "StillMounted" if step == "detached" else "StillAttached")
        if step == "unmounted":
            await detached(stage)
        await stage.back()
        await let_in(stage)

    storage(story)


def test_a_session_that_the_storage_has_still_shuts_it_out_anew(storage: Any):
    """It is lifted: the storage was not shut, as far as it tells. The node answers, and is not fenced."""

    async def story(stage: StorageStage) -> None:
        device = await shut_out(stage)
        await detached(stage)
        device.held = frozenset({"a"})
        await stage.back()
        async with stage.running(Client(role(stage.server, "fencing"))):
            fence = await stage.until_phase("a", "Cancelled")
        assert device.let_in == 0
        assert not fence.status.let_in_at

    storage(story)


def test_a_storage_that_does_not_answer_is_asked_again(storage: Any):
    async def story(stage: StorageStage) -> None:
        device = await shut_out(stage)
        await detached(stage)
        device.mute = True
        await stage.back()
        await waits(stage, "SessionsUnknown")
        device.mute = False
        await let_in(stage)

    storage(story)


def test_a_mechanism_that_tells_of_no_sessions_waits_for_a_new_boot(storage: Any):
    async def story(stage: StorageStage) -> None:
        played = stage.bmc
        await shut_out(stage)
        stage.bmc = played
        await detached(stage)
        await stage.back()
        await waits(stage, "Fenced")

    storage(story)


def test_what_a_person_has_ordered_a_person_takes_back(storage: Any):
    async def story(stage: StorageStage) -> None:
        await shut_out(stage)
        fence = await stage.fence("a")
        assert fence is not None
        await stage.api.patch(NodeFence, fence.name, {"spec": {"override": True}})
        await detached(stage)
        await stage.back()
        await waits(stage, "Fenced")
        await stage.api.patch(NodeFence, fence.name, {"spec": {"unfence": True}})
        await let_in(stage)

    storage(story)


def test_a_node_that_is_lost_again_in_the_boot_in_which_it_was_let_in_is_shut_out_again(storage: Any):
    async def story(stage: StorageStage) -> None:
        await shut_out(stage)
        await detached(stage)
        node = await stage.back()
        await let_in(stage)
        await stage.lun(node, "again", lun=2)
        async with stage.running(Client(role(stage.server, "fencing"))):
            await stage.silent("a")
            await stage.until_released("again")
        fence = await stage.fence("a")
        assert fence is not None
        assert (fence.status.phase, fence.status.let_in_at) == ("Fenced", "")
        assert stage.machines.off == {"a"}

    storage(story)


async def closed_to_pods(stage: StorageStage) -> list[tuple[str, str, str]]:
    taints = (await stage.api.get(Node, "a")).spec.taints
    return [(each.key, each.value, each.effect) for each in taints if each.effect == "NoSchedule"]


def test_a_node_that_is_shut_out_gets_no_new_pods_until_it_is_let_in(storage: Any):
    async def story(stage: StorageStage) -> None:
        await shut_out(stage)
        assert await closed_to_pods(stage) == [(SHUT_OUT, "Storage", "NoSchedule")]
        await detached(stage)
        await stage.back()
        assert await closed_to_pods(stage)
        await let_in(stage)
        assert await closed_to_pods(stage) == []

    storage(story)


def test_another_boot_of_a_node_that_was_shut_out_gets_pods_again(storage: Any):
    async def story(stage: StorageStage) -> None:
        await shut_out(stage)
        await stage.report("a", "boot-2")
        async with stage.running(Client(role(stage.server, "fencing"))):
            await stage.until_phase("a", "Unfenced")
        assert await closed_to_pods(stage) == []

    storage(story)


def test_a_node_that_a_person_says_is_out_of_service_keeps_that_taint_alone(storage: Any):
    """It gets no pods anyway, and a write of the taints would take the time of a person's from it."""

    async def story(stage: StorageStage) -> None:
        await shut_out(stage)
        fence = await stage.fence("a")
        assert fence is not None
        proof = proof_of(fence)
        assert proof is not None
        theirs = {"key": TAINT, "value": "nodeshutdown", "effect": "NoExecute"}
        await stage.api.patch(Node, "a", {"spec": {"taints": [theirs]}})
        await releasing.release(stage.api, fence, proof, stage.now, lambda node: None)
        assert [each.key for each in (await stage.api.get(Node, "a")).spec.taints] == [TAINT]
        await releasing.welcome(stage.api, "a", lambda node: None)
        assert [each.key for each in (await stage.api.get(Node, "a")).spec.taints] == [TAINT]

    storage(story)


def test_once_a_node_may_be_let_in_nothing_is_released_any_more(storage: Any):
    """A leader that was deposed has decided to release what is attached, and comes late."""

    async def story(stage: StorageStage) -> None:
        await shut_out(stage)
        await detached(stage)
        node = await stage.back()
        fence = await stage.fence("a")
        assert fence is not None
        proof = proof_of(fence)
        assert proof is not None
        status = {"status": {"lettingIn": True}}
        await stage.api.patch(NodeFence, fence.name, status, subresource="status")
        await stage.attachment(node, "shut")
        with pytest.raises(Conflict):
            await releasing.release(stage.api, fence, proof, stage.now, lambda node: None)
        assert evidence_of(await stage.api.get(VolumeAttachment, "shut")) is None

    storage(story)


def test_it_is_let_in_whatever_await_its_controller_dies_at(storage: Any):
    """Its pods mount what they want as soon as they can: a new attachment keeps nothing from being ended."""

    async def crashed_at(stage: StorageStage, steps: int) -> bool:
        await shut_out(stage)
        await detached(stage)
        await stage.back()
        fence = await stage.fence("a")
        assert fence is not None
        controller = stage.controller()
        await stage.fill(controller, *KINDS)
        crashed = await ended_at(controller.reconcile(FenceKey(fence.name)), steps)
        was_let_in = not stage.machines.off
        if was_let_in:
            live = await stage.fence("a")
            assert live is not None
            assert live.status.let_in_at
            await stage.lun(await stage.api.get(Node, "a"), "anew", lun=2)
            await stage.back("kubernetes.io/iscsi/10.0.0.1:3260:iqn:2")
        ended = await let_in(stage)
        assert ended.status.reason == "LetIn"
        return crashed

    steps = 0
    while storage(lambda stage: crashed_at(stage, steps)):  # noqa: B023 - it is played at once
        steps += 1
    assert steps > 5


# --- what is left, purely

DISK = "kubernetes.io/iscsi/10.0.0.1:3260:iqn.2026-01.dev.mooring:one:1"
OTHER = "kubernetes.io/csi/d^other"
DISK_RECORD = volume_attachment_name(
    "kubernetes.io/iscsi", "10.0.0.1:3260:iqn.2026-01.dev.mooring:one:1", "a"
)
OTHER_RECORD = volume_attachment_name("kubernetes.io/csi", "d^other", "a")
TARGET = FenceTarget(node_name="a", node_uid="u", boot_id="b")
PROOF = FenceAttempt(token="t", outcome="Fenced", scope="Storage", volumes={DISK_RECORD: "pv"}, report="r1")


def node(
    *in_use: str, ready: str = "True", reconstructed: str = "b", report: str = "r2", mark: bool = True
) -> Node:
    marks = {RECONSTRUCTED: reconstructed} | ({STATUS_WRITE: report} if mark else {})
    return Node(
        metadata=ManagedMeta(name="a", uid="u", annotations=marks),
        status=NodeStatus(
            conditions=(Condition(type="Ready", status=ready),),
            node_info=NodeSystemInfo(boot_id="b"),
            volumes_in_use=in_use,
        ),
    )


@pytest.mark.parametrize(
    ("shown", "records", "code"),
    [
        (node(), set[str](), ""),
        (node(OTHER), {OTHER_RECORD}, ""),
        (node(ready="False"), set[str](), "NodeSilent"),
        (node(reconstructed="before"), set[str](), "NoOwnWord"),
        (node(mark=False), set[str](), "NoOwnWord"),
        (node(report="r1"), set[str](), "NotReported"),
        (node(), {DISK_RECORD}, "StillAttached"),
        (node(DISK), {OTHER_RECORD}, "StillMounted"),
        (node(OTHER), set[str](), "StillMounted"),
        (node("no name of a volume"), set[str](), "StillMounted"),
    ],
    ids=[
        "nothing",
        "something else",
        "silent",
        "not looked in this boot",
        "upstream's kubelet",
        "no report since",
        "attached",
        "mounted",
        "mounted, and no attachment is there",
        "something that is not understood",
    ],
)
def test_what_keeps_a_node_from_being_let_in(shown: Node, records: set[str], code: str):
    held = what_is_left(TARGET, PROOF, shown, records)
    assert (held.reason.code if held is not None else "") == code


@given(
    in_use=st.sets(st.sampled_from([DISK, OTHER, "kubernetes.io/csi/d^third"])),
    records=st.sets(st.sampled_from([DISK_RECORD, OTHER_RECORD])),
    report=st.sampled_from(["r1", "r2", ""]),
    ready=st.sampled_from(["True", "False", "Unknown"]),
)
def test_it_is_let_in_only_if_all_agree(in_use: set[str], records: set[str], report: str, ready: str):
    free = what_is_left(TARGET, PROOF, node(*sorted(in_use), ready=ready, report=report), records) is None
    if free:
        assert ready == "True"
        assert report != "r1"
        assert DISK not in in_use
        assert DISK_RECORD not in records
        assert in_use <= ({OTHER} if OTHER_RECORD in records else set())

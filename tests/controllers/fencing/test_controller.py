"""A lost node is cut off, what it had is released, and it is free when another boot reports."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from played_mechanism import Manner

from mooring.controllers.fencing import releasing
from mooring.controllers.fencing.names import TAINT_VALUE
from mooring.controllers.fencing.silence import LEASES
from mooring.fence.interface import Answer, Outcome, Scope
from mooring.kube.client import Client
from mooring.kube.objects import Event, Lease, Node, Secret, VolumeAttachment
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, NodeFence
from mooring.simulation.parts.faulty_transport import role
from mooring.volumes.names import FENCE_EVIDENCE
from mooring.volumes.node_fences import proof_of
from mooring.volumes.out_of_service import SEEN, TAINT, taint_of
from mooring.volumes.statements import evidence_of


async def evidence(stage: Any, name: str = "va") -> Any:
    record = await stage.api.find(VolumeAttachment, name)
    return evidence_of(record) if record is not None else None


async def tainted(stage: Any, name: str) -> bool:
    return taint_of(await stage.api.get(Node, name)) is not None


async def released(stage: Any) -> NodeFence:
    """Node a was lost, and its fence has released what it had; the controller stands still since."""
    await stage.node("a")
    await stage.node("b")
    await stage.mechanism()
    await stage.policy("bmc")
    async with stage.running():
        await asyncio.sleep(5)
        await stage.silent("a")
        await stage.until(lambda: tainted(stage, "a"))
    return await stage.fence("a")


async def two_nodes(stage: Any) -> None:
    """Nodes a and b, and a mechanism that knows them."""
    await stage.node("a")
    await stage.node("b")
    await stage.mechanism()


async def four_nodes_one_at_a_time(stage: Any) -> None:
    """Nodes a to d, and a policy that has one of them fenced at once, and knows no storm."""
    for name in ("a", "b", "c", "d"):
        await stage.node(name)
    await stage.mechanism()
    await stage.policy("bmc", storm={"nodes": 0}, budget={"maxConcurrent": 1})


def test_a_silent_node_is_switched_off_and_what_it_had_is_released_with_its_boot(fencing: Any):
    async def story(stage: Any):
        node = await stage.node("a")
        await stage.node("b")
        await stage.attachment(node)
        await stage.mechanism()
        await stage.policy("bmc")
        async with stage.running():
            await asyncio.sleep(5)
            assert not stage.bmc.given
            await stage.silent("a")
            fence = await stage.until_phase("a", "Fenced")
            await stage.until(lambda: tainted(stage, "a"))
            found = await stage.until(lambda: evidence(stage))
        assert (found.node_uid, found.boot_id) == (node.uid, "boot-1")
        assert fence.status.attempts[-1].outcome == "Fenced"
        assert stage.machines.off == {"a"}

    fencing(story)


def test_a_node_that_reports_another_boot_is_free_again(fencing: Any):
    async def story(stage: Any):
        await two_nodes(stage)
        await stage.policy("bmc")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until(lambda: tainted(stage, "a"))
            await stage.report("a", "boot-2")
            fence = await stage.until_phase("a", "Unfenced")
        assert not await tainted(stage, "a")
        assert not fence.metadata.finalizers

    fencing(story)


def test_the_rights_that_the_manifest_grants_are_enough(fencing: Any):
    async def story(stage: Any):
        node = await stage.node("a")
        await stage.node("b")
        await stage.attachment(node)
        await stage.mechanism()
        await stage.policy("bmc")
        async with stage.running(Client(role(stage.server, "fencing"))):
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until(lambda: tainted(stage, "a"))
            await stage.report("a", "boot-2")
            await stage.until_phase("a", "Unfenced")
            assert not await tainted(stage, "a")

    fencing(story)


def test_an_order_is_written_before_it_is_given(fencing: Any):
    async def story(stage: Any):
        await two_nodes(stage)
        await stage.policy("bmc")
        written: list[Any] = []
        fence_of = stage.bmc.fence

        async def looked(order: Any) -> Any:
            fence = await stage.fence("a")
            written.append([(each.token, each.outcome) for each in fence.status.attempts])
            return await fence_of(order)

        stage.bmc.fence = looked
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_phase("a", "Fenced")
        assert written == [[(stage.bmc.given[0].token, "")]]

    fencing(story)


def test_without_a_policy_nothing_is_fenced(fencing: Any):
    async def story(stage: Any):
        await stage.node("a")
        await stage.mechanism()
        async with stage.running():
            await stage.silent("a")
            await asyncio.sleep(600)
        assert await stage.fence("a") is None

    fencing(story)


def test_a_node_that_answers_is_not_fenced_on_its_way_to_being_lost(fencing: Any):
    async def story(stage: Any):
        await two_nodes(stage)
        await stage.policy("bmc", detectors=[{"type": "Ready", "forSeconds": 20}])
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await asyncio.sleep(10)
            await stage.report("a")
            await asyncio.sleep(600)
        assert not stage.machines.off

    fencing(story)


@pytest.mark.parametrize("hours", [-1, 0, 1])
@pytest.mark.parametrize(
    "waits",
    [
        {"detectors": [{"type": "Ready", "forSeconds": 60}]},
        {"worth": {"patienceSeconds": 60, "onlyExclusive": False}},
    ],
)
def test_a_node_has_its_time_to_come_back_whatever_the_clock_shows(fencing: Any, waits: Any, hours: int):
    async def story(stage: Any):
        await two_nodes(stage)
        await stage.policy("bmc", **{"worth": {"onlyExclusive": False}, **waits})
        now = stage.now
        stage.now = lambda: now() + timedelta(hours=hours)
        controller = stage.controller()
        stage.now = now
        working = asyncio.create_task(controller.run())
        await asyncio.sleep(5)
        await stage.silent("a")
        await asyncio.sleep(55)
        assert not stage.machines.off
        await asyncio.sleep(10)
        assert stage.machines.off
        assert not working.done()

    fencing(story)


@pytest.mark.parametrize("manner", [Manner.SILENT, Manner.LOST_ANSWER, Manner.REFUSES, Manner.RAISES])
def test_without_a_word_that_counts_nothing_is_released_and_a_person_is_asked(fencing: Any, manner: Manner):
    async def story(stage: Any):
        node = await stage.node("a")
        await stage.node("b")
        await stage.attachment(node)
        await stage.mechanism(timeoutSeconds=5)
        await stage.policy("bmc")
        stage.bmc.manner = manner
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            fence = await stage.until_phase("a", "AwaitingPerson")
            assert "mooring fence confirm a" in fence.status.message
            assert await evidence(stage) is None
            assert not await tainted(stage, "a")

    fencing(story)


def test_the_ladder_goes_on_to_the_next_mechanism(fencing: Any):
    async def story(stage: Any):
        await stage.node("a")
        await stage.node("b")
        await stage.mechanism(timeoutSeconds=5)
        await stage.mechanism("strip", "other")
        await stage.policy("bmc", "strip")
        stage.bmc.manner = Manner.SILENT
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            fence = await stage.until_phase("a", "Fenced")
        assert [each.mechanism for each in fence.status.attempts] == ["bmc", "bmc", "strip"]
        assert fence.status.proof == fence.status.attempts[-1].token

    fencing(story)


def test_a_lie_that_a_second_source_contradicts_releases_nothing(fencing: Any):
    async def story(stage: Any):
        node = await stage.node("a")
        await stage.node("b")
        await stage.attachment(node)
        await stage.mechanism()
        await stage.mechanism("strip", "other")
        await stage.policy({"mechanism": "bmc", "confirmWith": ["strip"]})
        stage.bmc.manner = Manner.LIES
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            fence = await stage.until_phase("a", "AwaitingPerson")
            await asyncio.sleep(1000)
            assert await evidence(stage) is None
            assert not await tainted(stage, "a")
        assert fence.status.attempts[0].reason == "Contradicted"
        assert "strip" in fence.status.attempts[0].message

    fencing(story)


def test_the_word_that_a_machine_was_off_already_needs_a_second_source(fencing: Any):
    async def story(stage: Any):
        await two_nodes(stage)
        await stage.policy("bmc")
        stage.machines.off.add("a")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            fence = await stage.until_phase("a", "AwaitingPerson")
            assert fence.status.reason == "SecondSourceNeeded"
            assert not await tainted(stage, "a")

    fencing(story)


def test_a_machine_that_was_seen_on_in_this_boot_and_is_off_is_fenced(fencing: Any):
    async def story(stage: Any):
        await two_nodes(stage)
        await stage.policy("bmc")
        async with stage.running():
            await asyncio.sleep(5)
            stage.machines.off.add("a")
            await stage.silent("a")
            fence = await stage.until_phase("a", "Fenced")
        assert fence.status.attempts[-1].before == "Shut"

    fencing(story)


def test_what_a_mechanism_said_before_it_was_changed_counts_no_more(fencing: Any):
    """Another socket may be another machine's: that this machine was seen on there says nothing."""

    async def story(stage: Any):
        await two_nodes(stage)
        await stage.policy("bmc")
        async with stage.running():
            await asyncio.sleep(5)
            stage.machines.off.add("a")
            await stage.silent("a")
            await stage.api.patch(FenceMechanism, "bmc", {"spec": {"parameters": {"plug": "2"}}})
            fence = await stage.until_phase("a", "AwaitingPerson")
        assert fence.status.reason == "SecondSourceNeeded"

    fencing(story)


def test_a_release_whose_end_was_not_written_leaves_no_taint_on_the_next_boot(fencing: Any):
    async def story(stage: Any):
        fence = await released(stage)
        await stage.api.patch(NodeFence, fence.name, {"status": {"releasedAt": ""}}, subresource="status")
        await stage.report("a", "boot-2")
        async with stage.running():
            await stage.until_phase("a", "Unfenced")
            assert not await tainted(stage, "a")

    fencing(story)


def test_a_node_that_was_written_on_while_its_volumes_were_released_is_tainted_as_it_is_then(
    fencing: Any, monkeypatch: pytest.MonkeyPatch
):
    """Seed 4000247 of `fencing.yaml`: the same controller had taken its questions off the Node."""

    async def story(stage: Any):
        fence = await released(stage)
        proof = proof_of(fence)
        await stage.api.patch(Node, "a", {"spec": {"taints": None}})
        listed = releasing.records_of

        async def written_meanwhile(client: Any, target: Any) -> Any:
            await stage.api.patch(Node, "a", {"metadata": {"labels": {"written": "meanwhile"}}})
            return await listed(client, target)

        monkeypatch.setattr(releasing, "records_of", written_meanwhile)
        await releasing.release(stage.api, fence, proof, stage.now, lambda node: None)
        assert await tainted(stage, "a")

    fencing(story)


def test_a_machine_that_goes_off_again_after_it_was_switched_on_is_switched_on_again(fencing: Any):
    async def story(stage: Any):
        await two_nodes(stage)
        await stage.policy("bmc")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            fence = await stage.until_phase("a", "Fenced")
            await stage.api.patch(NodeFence, fence.name, {"spec": {"unfence": True}})

            async def on() -> bool:
                return not stage.machines.off

            await stage.until(on)
            await asyncio.sleep(1)
            stage.machines.off.add("a")
            await stage.until(on)

    fencing(story)


def test_a_node_that_reports_in_the_boot_that_is_said_to_be_off_takes_the_release_back(fencing: Any):
    async def story(stage: Any):
        node = await stage.node("a")
        await stage.node("b")
        await stage.attachment(node)
        await stage.mechanism()
        await stage.policy("bmc")
        stage.bmc.manner = Manner.LIES
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until(lambda: evidence(stage))
            await stage.until(lambda: tainted(stage, "a"))
            await stage.report("a")
            fence = await stage.until_phase("a", "Cancelled")
            assert await evidence(stage) is None
            assert not await tainted(stage, "a")
        assert fence.status.attempts[-1].reason == "Contradicted"

    fencing(story)


def test_a_node_that_is_lost_again_in_its_boot_is_fenced_again(fencing: Any):
    async def story(stage: Any):
        await two_nodes(stage)
        await stage.policy("bmc")
        stage.bmc.manner = Manner.REFUSES
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_phase("a", "AwaitingPerson")
            await stage.report("a")
            await stage.until_phase("a", "Cancelled")
            stage.bmc.manner = Manner.HONEST
            await stage.silent("a")
            await stage.until_phase("a", "Fenced")
        assert stage.machines.off == {"a"}

    fencing(story)


def test_a_mechanism_that_was_wrong_about_a_boot_is_not_believed_alone_again(fencing: Any):
    async def story(stage: Any):
        node = await stage.node("a")
        await stage.node("b")
        await stage.attachment(node)
        await stage.mechanism()
        await stage.policy("bmc")
        stage.bmc.manner = Manner.LIES
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until(lambda: tainted(stage, "a"))
            await stage.report("a")
            await stage.until_phase("a", "Cancelled")
            await stage.silent("a")
            fence = await stage.until_phase("a", "AwaitingPerson")
            await asyncio.sleep(2000)
            assert await evidence(stage) is None
            assert not await tainted(stage, "a")
        assert fence.status.contradicted == ("bmc",)

    fencing(story)


def test_evidence_goes_with_the_boot_that_it_is_about(fencing: Any):
    """It would be younger than an absence that is read later, by another host's clock (C9)."""

    async def story(stage: Any):
        node = await stage.node("a")
        await stage.node("b")
        await stage.attachment(node)
        await stage.mechanism()
        await stage.policy("bmc")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until(lambda: evidence(stage))
            await stage.report("a", "boot-2")
            await stage.until_phase("a", "Unfenced")
        assert await evidence(stage) is None

    fencing(story)


def test_a_taint_under_which_the_node_has_reported_is_replaced(fencing: Any):
    async def story(stage: Any):
        await stage.node("a")
        await stage.node("b")
        stamp = "2029-01-01T00:00:00Z"
        old = {"key": TAINT, "value": "nodeshutdown", "effect": "NoExecute", "timeAdded": stamp}
        body = {"metadata": {"annotations": {SEEN: stamp}}, "spec": {"taints": [old]}}
        await stage.api.patch(Node, "a", body)
        await stage.mechanism()
        await stage.policy("bmc")

        async def ours() -> bool:
            taint = taint_of(await stage.api.get(Node, "a"))
            return taint is not None and taint.value == TAINT_VALUE

        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until(ours)

    fencing(story)


@pytest.mark.parametrize("override", [False, True])
def test_a_pause_holds_what_a_detector_asks_for_and_not_what_a_person_orders(fencing: Any, override: bool):
    async def story(stage: Any):
        await stage.node("a")
        await stage.mechanism()
        await stage.policy("bmc", paused="maintenance")
        async with stage.running():
            await asyncio.sleep(5)
            spec = {"nodeName": "a", "requestedBy": "a detector", "override": override}
            await stage.api.create(NodeFence, {"metadata": {"name": "asked"}, "spec": spec})
            await stage.until_phase("a", "Fenced" if override else "Pending")
            await asyncio.sleep(100)
            fence = await stage.fence("a")
        assert bool(stage.bmc.given) is override
        assert override or "maintenance" in fence.status.message

    fencing(story)


def test_a_condition_that_a_detector_goes_by_is_seen_when_it_changes(fencing: Any):
    async def story(stage: Any):
        await two_nodes(stage)
        broken = {"type": "Condition", "condition": "Broken", "status": "True", "forSeconds": 0}
        await stage.policy("bmc", detectors=[broken], worth={"onlyExclusive": False})
        async with stage.running():
            await asyncio.sleep(5)
            shown = [{"type": "Ready", "status": "True"}, {"type": "Broken", "status": "True"}]
            await stage.api.patch(Node, "a", {"status": {"conditions": shown}}, subresource="status")
            await stage.until(lambda: _is_off(stage, "a"))

    fencing(story)


def test_a_lost_node_to_which_a_volume_comes_late_is_fenced_though_nothing_waited_for_it_before(fencing: Any):
    """An attach may have been under way when it was lost."""

    async def story(stage: Any):
        await two_nodes(stage)
        await stage.policy("bmc")
        none = {"status": {"volumesAttached": [], "volumesInUse": []}}
        async with stage.running():
            await asyncio.sleep(5)
            await stage.api.patch(Node, "a", none, subresource="status")
            silent = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
            await stage.api.patch(Node, "a", silent, subresource="status")
            await asyncio.sleep(60)
            fence = await stage.fence("a")
            assert (fence.status.phase, fence.status.reason) == ("Pending", "NothingWaits")
            attached = {"status": {"volumesAttached": [{"name": "v", "devicePath": "/dev/v"}]}}
            await stage.api.patch(Node, "a", attached, subresource="status")
            await stage.until(lambda: _is_off(stage, "a"))

    fencing(story)


def test_a_fence_that_no_policy_covers_goes_on_when_one_is_made(fencing: Any):
    async def story(stage: Any):
        await two_nodes(stage)
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            spec = {"nodeName": "a", "requestedBy": "a person", "override": True}
            await stage.api.create(NodeFence, {"metadata": {"name": "asked"}, "spec": spec})
            fence = await stage.until_phase("a", "AwaitingPerson")
            assert fence.status.reason == "NoLadder"
            await stage.policy("bmc")
            await stage.until(lambda: _is_off(stage, "a"))

    fencing(story)


def test_nodes_that_detectors_ask_for_all_at_once_are_held_by_the_budget(fencing: Any):
    async def story(stage: Any):
        for name in ("a", "b", "c", "d"):
            await stage.node(name)
        await stage.mechanism()
        await stage.policy("bmc", budget={"maxConcurrent": 1})
        async with stage.running():
            await asyncio.sleep(5)
            for name in ("a", "b", "c"):
                spec = {"nodeName": name, "requestedBy": "a detector"}
                await stage.api.create(NodeFence, {"metadata": {"name": f"asked-{name}"}, "spec": spec})
            await asyncio.sleep(100)
        assert len(stage.machines.off) == 1

    fencing(story)


def test_no_secret_is_in_what_a_mechanism_raises(fencing: Any):
    async def story(stage: Any):
        secret = {"metadata": {"name": "s"}, "data": {"password": "aHVudGVyMg=="}}
        await stage.api.create(Secret, secret, "default")
        await stage.node("a")
        await stage.node("b")
        await stage.mechanism(secretRef={"namespace": "default", "name": "s"})
        await stage.policy("bmc")

        async def fence(order: Any) -> Any:
            raise RuntimeError(f"refused: {order.secrets['password']}")

        stage.bmc.fence = fence
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            found = await stage.until_phase("a", "AwaitingPerson")
        assert "refused: ***" in found.status.attempts[-1].message
        assert "hunter2" not in str(found)

    fencing(story)


def test_nodes_that_are_lost_at_once_are_held(fencing: Any):
    async def story(stage: Any):
        for name in ("a", "b", "c"):
            await stage.node(name)
        await stage.mechanism()
        await stage.policy("bmc")
        async with stage.running():
            await asyncio.sleep(5)
            await asyncio.gather(stage.silent("a"), stage.silent("b"))
            await asyncio.sleep(1000)
        assert not stage.machines.off
        assert not stage.bmc.given

    fencing(story)


def test_a_storm_is_over_when_the_lease_of_a_node_that_came_back_is_renewed_after_its_status(fencing: Any):
    async def renew(stage: Any, number: int) -> None:
        renewed = {"spec": {"renewTime": f"2026-01-01T00:00:0{number}.000000Z"}}
        await stage.api.patch(Lease, "b", renewed, LEASES)

    async def story(stage: Any):
        for name in ("a", "b", "c"):
            await stage.node(name)
        await stage.mechanism()
        await stage.policy("bmc", storm={"cooldownSeconds": 0})
        await stage.api.create(Lease, {"metadata": {"name": "b"}, "spec": {}}, LEASES)
        async with stage.running():
            await renew(stage, 1)
            await asyncio.sleep(5)
            await asyncio.gather(stage.silent("a"), stage.silent("b"))
            await asyncio.sleep(100)
            await stage.report("b")
            await stage.until_phase("b", "Cancelled")
            await asyncio.sleep(20)
            assert not stage.bmc.given, "b may be as silent as before"
            await renew(stage, 2)
            await stage.until_phase("a", "Fenced")
        assert stage.machines.off == {"a"}

    fencing(story)


def test_a_node_that_came_back_before_it_was_lost_again_is_part_of_a_storm(fencing: Any):
    """Its fence, which a person has taken back, counts in the budget, as its order may strike still. That did
    not explain why it was silent, and the other one was fenced."""

    async def story(stage: Any):
        for name in ("a", "b", "c", "d", "e"):
            await stage.node(name)
        await stage.mechanism()
        await stage.mechanism("strip", "other")
        await stage.policy({"mechanism": "bmc", "confirmWith": ["strip"]}, budget={"maxConcurrent": 2})
        stage.bmc.manner = Manner.LIES
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            fence = await stage.until_phase("a", "AwaitingPerson")
            await stage.api.patch(NodeFence, fence.name, {"spec": {"unfence": True}})
            await stage.until_phase("a", "Cancelled", 1000)
            await stage.report("a")
            await asyncio.sleep(5)
            before = len(stage.bmc.given)
            await asyncio.gather(stage.silent("a"), stage.silent("b"))
            await asyncio.sleep(100)
        assert len(stage.bmc.given) == before

    fencing(story)


def test_lost_nodes_of_which_the_power_is_off_are_no_storm(fencing: Any):
    async def story(stage: Any):
        for name in ("a", "b", "c", "d", "e"):
            await stage.node(name)
        await stage.mechanism()
        await stage.policy("bmc", detectors=[{"type": "Ready"}, {"type": "Mechanism", "mechanism": "bmc"}])
        async with stage.running():
            await asyncio.sleep(5)
            stage.machines.off.update({"a", "b"})
            await asyncio.gather(stage.silent("a"), stage.silent("b"))
            await stage.until(lambda: tainted(stage, "a"))
            await stage.until(lambda: tainted(stage, "b"))

    fencing(story)


def test_no_more_nodes_are_fenced_at_once_than_the_budget_allows(fencing: Any):
    async def story(stage: Any):
        await four_nodes_one_at_a_time(stage)
        async with stage.running():
            await asyncio.sleep(5)
            await asyncio.gather(*(stage.silent(each) for each in ("a", "b", "c")))
            await asyncio.sleep(100)
            assert len(stage.machines.off) == 1
            first = next(iter(stage.machines.off))
            stage.machines.off.clear()
            await stage.report(first, "boot-2")
            await stage.until_phase(first, "Unfenced")
            await asyncio.sleep(100)
            assert len(stage.machines.off) == 1
            assert stage.machines.off != {first}

    fencing(story)


def test_an_order_that_a_person_has_taken_back_counts_in_the_budget_until_its_node_answers(fencing: Any):
    """Its outcome is not known: the machine may be off."""

    async def story(stage: Any):
        await four_nodes_one_at_a_time(stage)
        stage.bmc.manner = Manner.RAISES
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            fence = await stage.until_phase("a", "AwaitingPerson")
            await stage.api.patch(NodeFence, fence.name, {"spec": {"unfence": True}})
            await stage.until_phase("a", "Cancelled", 1000)
            await stage.silent("b")
            await asyncio.sleep(100)
            assert stage.machines.off == {"a"}
            await stage.report("a")
            await stage.until(lambda: _is_off(stage, "b"))

    fencing(story)


def test_another_boot_is_written_down_before_an_order_is_heard_out(fencing: Any):
    async def story(stage: Any):
        await four_nodes_one_at_a_time(stage)
        stage.bmc.manner = Manner.LOST_ANSWER
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until(lambda: _is_ordered(stage))
            await stage.report("a", "boot-2")
            fence = await stage.until_phase("a", "Unfenced", 1000)
            assert fence.status.followed_by == "boot-2"

    fencing(story)


async def deleted_while_its_order_may_strike(stage: Any) -> str:
    """A fence of node a whose order has no known outcome; its name."""
    await four_nodes_one_at_a_time(stage)
    stage.bmc.manner = Manner.RAISES
    async with stage.running():
        await asyncio.sleep(5)
        await stage.silent("a")
        fence = await stage.until_phase("a", "AwaitingPerson")
        await stage.report("a", by_agent=False)
        await stage.api.delete(NodeFence, fence.name)
        await stage.until_phase("a", "Cancelled", 1000)
    return fence.name


def test_it_counts_also_when_a_person_has_deleted_its_fence_and_another_leader_follows(fencing: Any):
    """10700513 of `fencing-by-storage.yaml`, 30000163 of `fencing.yaml`."""

    async def story(stage: Any):
        name = await deleted_while_its_order_may_strike(stage)
        async with stage.running():
            await stage.silent("b")
            await asyncio.sleep(100)
            assert stage.machines.off == {"a"}
            assert "MayStrikeStill" in [each.reason for each in (await stage.api.list(Event)).items]
            await stage.report("a")
            await stage.until(lambda: _is_off(stage, "b"))
            assert await stage.api.find(NodeFence, name) is None

    fencing(story)


def test_a_node_that_is_lost_while_its_deleted_fence_is_kept_is_fenced_anew(fencing: Any):
    async def story(stage: Any):
        name = await deleted_while_its_order_may_strike(stage)
        stage.bmc.manner = Manner.HONEST
        async with stage.running():
            await stage.silent("a")
            await stage.until(lambda: tainted(stage, "a"))
            fences = {each.name: each.status.phase for each in (await stage.api.list(NodeFence)).items}
            assert fences == {name: "Cancelled", f"{name}-2": "Fenced"}
            await stage.report("a", "boot-2")
            await stage.until_phase("a", "Unfenced")
            assert await stage.api.find(NodeFence, name) is None

    fencing(story)


def test_an_order_about_a_node_that_is_shown_as_answering_counts_in_the_budget_until_that_reports_again(
    fencing: Any,
):
    """Its outcome is not known, and it may strike late."""

    async def story(stage: Any):
        await four_nodes_one_at_a_time(stage)
        stage.bmc.manner = Manner.RAISES
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            fence = await stage.until_phase("a", "AwaitingPerson")
            await stage.report("a", by_agent=False)
            await stage.api.patch(NodeFence, fence.name, {"spec": {"unfence": True}})
            await stage.until_phase("a", "Cancelled", 1000)
            await stage.silent("b")
            await asyncio.sleep(100)
            assert stage.machines.off == {"a"}, "this is no report of its agent"
            await stage.report("a")
            await stage.until(lambda: _is_off(stage, "b"))

    fencing(story)


def test_a_node_that_has_booted_under_its_order_counts_in_the_budget_until_it_reports_after_that(
    fencing: Any,
):
    """The order was about the boot before, and has struck this one."""

    async def story(stage: Any):
        await four_nodes_one_at_a_time(stage)
        stage.bmc.takes_s = 4
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until(lambda: _is_ordered(stage))
            await stage.report("a", "boot-2")
            await stage.until_phase("a", "Unfenced")
            await stage.silent("b")
            await asyncio.sleep(100)
            assert stage.machines.off == {"a"}
            await stage.report("a", "boot-3")
            await stage.until(lambda: _is_off(stage, "b"))

    fencing(story)


def test_it_counts_until_it_has_gone_on_renewing_its_lease_for_a_grace_period_too(fencing: Any):
    """9000495 of `fencing.yaml`: an agent that has nothing new to say reports every five minutes. One renewal
    shows nothing: it may have been on its way when the order struck."""

    async def story(stage: Any):
        await four_nodes_one_at_a_time(stage)
        stage.bmc.takes_s = 4
        async with stage.running():
            await asyncio.sleep(5)
            await stage.renew("a")
            await stage.silent("a")
            await stage.until(lambda: _is_ordered(stage))
            await stage.report("a", "boot-2")
            await stage.until_phase("a", "Unfenced")
            await stage.silent("b")
            await stage.renew("a")
            await asyncio.sleep(100)
            assert stage.machines.off == {"a"}
            await stage.renew("a")
            await stage.until(lambda: _is_off(stage, "b"))

    fencing(story)


async def _is_ordered(stage: Any) -> bool:
    return bool(stage.bmc.given)


async def _is_off(stage: Any, name: str) -> bool:
    return name in stage.machines.off


def test_of_two_fences_of_one_node_that_are_asked_for_at_once_one_is_refused(fencing: Any):
    async def story(stage: Any):
        await stage.node("a")
        await stage.mechanism()
        await stage.policy("bmc")
        for name in ("one", "two"):
            spec = {"nodeName": "a", "requestedBy": "a detector"}
            await stage.api.create(NodeFence, {"metadata": {"name": name}, "spec": spec})
        async with stage.running():
            await asyncio.sleep(100)
        fences = (await stage.api.list(NodeFence)).items
        assert sorted(each.status.phase for each in fences) == ["Fenced", "Refused"]
        assert len(stage.machines.orders) == 1

    fencing(story)


def test_a_fence_that_is_held_is_not_begun_because_its_node_is_deleted(fencing: Any):
    async def story(stage: Any):
        await four_nodes_one_at_a_time(stage)
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_phase("a", "Fenced")
            await stage.silent("b")
            await stage.until_phase("b", "Pending")
            await stage.api.delete(Node, "b")
            fence = await stage.until_phase("b", "Cancelled")
            await asyncio.sleep(100)
        assert stage.machines.off == {"a"}
        assert fence.status.reason == "NothingLeft"

    fencing(story)


def test_a_person_may_ask_for_the_fence_of_a_node_that_answers(fencing: Any):
    async def story(stage: Any):
        await stage.node("a")
        await stage.mechanism()
        await stage.policy("bmc")
        async with stage.running():
            await asyncio.sleep(5)
            spec = {"nodeName": "a", "requestedBy": "me", "reason": "it misbehaves"}
            await stage.api.create(NodeFence, {"metadata": {"name": "by-hand"}, "spec": spec})
            fence = await stage.until_phase("a", "Fenced")
        assert fence.name == "by-hand"
        assert fence.metadata.finalizers

    fencing(story)


@pytest.mark.parametrize(
    "wrong", [{"nodeUID": "another"}, {"bootID": "another"}, {"nodeName": "no-such-node"}]
)
def test_a_request_about_another_registration_or_boot_is_refused(fencing: Any, wrong: dict[str, str]):
    async def story(stage: Any):
        await stage.node("a")
        await stage.mechanism()
        await stage.policy("bmc")
        async with stage.running():
            spec = {"nodeName": "a", "requestedBy": "me", **wrong}
            await stage.api.create(NodeFence, {"metadata": {"name": "by-hand"}, "spec": spec})
            await stage.until_phase(wrong.get("nodeName", "a"), "Refused")
        assert not stage.bmc.given

    fencing(story)


def test_a_node_that_falls_silent_because_a_person_had_it_fenced_gets_no_second_fence(fencing: Any):
    async def story(stage: Any):
        await two_nodes(stage)
        await stage.policy("bmc")
        async with stage.running():
            await asyncio.sleep(5)
            spec = {"nodeName": "a", "requestedBy": "me"}
            await stage.api.create(NodeFence, {"metadata": {"name": "by-hand"}, "spec": spec})
            await stage.until_phase("a", "Fenced")
            await stage.silent("a")
            await asyncio.sleep(300)
        assert len((await stage.api.list(NodeFence)).items) == 1

    fencing(story)


def test_a_fence_that_is_deleted_switches_the_machine_on_before_it_goes(fencing: Any):
    async def story(stage: Any):
        await two_nodes(stage)
        await stage.policy("bmc")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            fence = await stage.until_phase("a", "Fenced")
            await stage.api.delete(NodeFence, fence.name)

            async def on() -> bool:
                return not stage.machines.off

            await stage.until(on)
            assert await stage.api.find(NodeFence, fence.name) is not None
            await stage.report("a", "boot-2")

            async def gone() -> bool:
                return await stage.api.find(NodeFence, fence.name) is None

            await stage.until(gone)

    fencing(story)


def test_a_network_fence_that_was_lifted_is_made_again(fencing: Any):
    async def story(stage: Any):
        await two_nodes(stage)
        await stage.policy("bmc")
        stage.bmc.scope = Scope.NETWORK
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_phase("a", "Fenced")
            assert not await tainted(stage, "a")
            stage.machines.off.clear()

            async def again() -> bool:
                return "a" in stage.machines.off

            await stage.until(again)
            await stage.report("a", "boot-2")
            await stage.until_phase("a", "Unfenced")
        assert not stage.machines.off

    fencing(story)


def test_a_policy_says_at_once_what_is_wrong_with_it(fencing: Any):
    async def story(stage: Any):
        await stage.node("a")
        await stage.policy("nothing")
        await stage.policy("nothing", name="second")
        async with stage.running():
            await asyncio.sleep(5)
        policy = await stage.api.get(FencePolicy, "policy")
        said = policy.status.conditions[0]
        assert (said.type, said.status) == ("Ready", "False")
        assert "there is no FenceMechanism 'nothing'" in said.message
        assert "FencePolicy second selects node a, too" in said.message

    fencing(story)


def test_a_policy_says_that_a_rung_which_releases_nothing_belongs_last(fencing: Any):
    async def story(stage: Any):
        await stage.node("a")
        stage.bmc.scope = Scope.NETWORK
        await stage.mechanism()
        await stage.mechanism("strip", "other")
        await stage.policy("bmc", "strip")
        await stage.policy("strip", "bmc", name="right", nodeSelector={"matchLabels": {"x": "y"}})
        async with stage.running():
            await asyncio.sleep(5)
        said = (await stage.api.get(FencePolicy, "policy")).status.conditions[0]
        assert "rung 1 (bmc) shows Network alone" in said.message
        assert (await stage.api.get(FencePolicy, "right")).status.conditions[0].status == "True"

    fencing(story)


def test_a_mechanism_says_by_day_of_which_nodes_it_knows_nothing(fencing: Any):
    async def story(stage: Any):
        await stage.node("a")
        await stage.mechanism()
        await stage.mechanism("typo", "plaid")
        stage.bmc.manner = Manner.SILENT
        async with stage.running():
            await asyncio.sleep(5)
        bmc, typo = [
            (await stage.api.get(FenceMechanism, name)).status.conditions[0] for name in ("bmc", "typo")
        ]
        assert (bmc.status, bmc.message) == ("False", "no word about a: the device does not answer")
        assert typo.status == "False"
        assert "'plaid' is not installed" in typo.message

    fencing(story)


def test_the_finalizer_and_the_taint_are_named_as_the_documents_say():
    assert TAINT == "node.kubernetes.io/out-of-service"
    assert FENCE_EVIDENCE == "mooring.dev/fence-evidence"


def test_a_machine_is_switched_on_only_when_what_it_had_is_released(fencing: Any):
    async def story(stage: Any):
        node = await stage.node("a")
        await stage.node("b")
        await stage.attachment(node)
        await stage.mechanism()
        await stage.policy("bmc", after="PowerOn")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until(lambda: tainted(stage, "a"))
            await asyncio.sleep(30)
            fence = await stage.fence("a")
            assert (fence.status.phase, fence.status.reason) == ("Fenced", "Releasing")
            assert stage.machines.off == {"a"}
            await stage.api.delete(VolumeAttachment, "va")

            async def on() -> bool:
                return not stage.machines.off

            await stage.until(on, 20)

    fencing(story)


def test_what_is_never_released_keeps_a_machine_off_for_a_while_only(fencing: Any):
    async def story(stage: Any):
        node = await stage.node("a")
        await stage.node("b")
        await stage.attachment(node)
        await stage.mechanism()
        await stage.policy("bmc", after="PowerOn")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")

            async def on() -> bool:
                return (await stage.fence("a")).status.power_on_at != ""

            await asyncio.sleep(10)
            await stage.until(on, 400)
        assert not stage.machines.off

    fencing(story)


def test_a_machine_of_which_it_is_not_known_whether_it_was_switched_on_is_switched_on_again(fencing: Any):
    async def story(stage: Any):
        await two_nodes(stage)
        await stage.policy("bmc", after="PowerOn")
        answers = [Answer(Outcome.UNKNOWN, "NoAnswer", "the device does not answer")]
        unfence = stage.bmc.unfence

        async def unknown_first(order: Any) -> Any:
            return answers.pop() if answers else await unfence(order)

        stage.bmc.unfence = unknown_first
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")

            async def said() -> bool:
                fence = await stage.fence("a")
                return fence is not None and fence.status.reason == "NotUnfenced"

            await stage.until(said)
            assert stage.machines.off == {"a"}

            async def on() -> bool:
                return not stage.machines.off

            await stage.until(on, 60)

    fencing(story)

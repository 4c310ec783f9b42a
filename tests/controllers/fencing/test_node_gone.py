"""A Node is gone under what is attached there: its fence is made of what was recorded while it lived."""

from __future__ import annotations

import asyncio
from typing import Any

from fencing_stage import FencingStage

from mooring.controllers.attachdetach.release import may_release
from mooring.controllers.attachdetach.state import Attachment
from mooring.controllers.fencing.gone import ABSENCE_S
from mooring.controllers.fencing.names import FINALIZER, fence_name
from mooring.kube.client import WatchEvent
from mooring.kube.objects import Node, VolumeAttachment
from mooring.kube.objects.fencing import FenceMechanism, NodeFence
from mooring.volumes.node_fences import Phase
from mooring.volumes.statements import Statement, annotation, evidence_of, statement_of

MACHINE = {"spec": {"providerID": "played:///machine-a"}}


async def covered(stage: FencingStage, **policy: Any) -> Node:
    """A node of a policy that has a volume, and of which its BMC was asked."""
    await stage.node("a")
    await stage.api.patch(Node, "a", MACHINE)
    await stage.node("b")
    await stage.node("c")
    await stage.mechanism()
    await stage.policy("bmc", **policy)
    node = await stage.api.get(Node, "a")
    await stage.attachment(node)
    return node


async def looked_at(stage: FencingStage, name: str = "a", policy: str = "policy") -> None:
    async def recorded() -> bool:
        said = (await stage.api.get(FenceMechanism, "bmc")).status.nodes
        return any(each.name == name and each.policy == policy for each in said)

    await stage.until(recorded)


async def vanishes(stage: FencingStage, name: str = "a") -> None:
    """A person takes what holds the Node off and deletes it, in an instant."""
    node = await stage.api.get(Node, name)
    await stage.api.revise(node, {"metadata": {"finalizers": None}}, any_version=True)
    await stage.api.delete(Node, name)
    while (node_now := await stage.api.find(Node, name)) is not None:
        await stage.api.revise(node_now, {"metadata": {"finalizers": None}}, any_version=True)


async def released(stage: FencingStage) -> bool:
    record = await stage.api.get(VolumeAttachment, "va")
    return may_release(None, Attachment.of(record)).forced


def test_what_is_attached_to_a_node_that_is_gone_is_released_after_its_machine_was_cut_off(fencing: Any):
    async def story(stage: FencingStage) -> None:
        node = await covered(stage)
        async with stage.running():
            await looked_at(stage)
            await vanishes(stage)
            fence = await stage.until_phase("a", Phase.PENDING)
            assert not await released(stage)
            fence = await stage.until_phase("a", Phase.FENCED)
            await stage.until(lambda: released(stage))
        found = evidence_of(await stage.api.get(VolumeAttachment, "va"))
        assert found is not None
        assert (found.node_uid, found.boot_id, found.absent) == (node.uid, "boot-1", True)
        target = fence.status.target
        assert target is not None
        assert (target.node_uid, target.boot_id) == (node.uid, "boot-1")
        assert (target.provider_id, target.absent) == ("played:///machine-a", True)
        assert target.identities["bmc"]["guid"] == "g-a"
        assert stage.bmc.given[0].target.bmc_guid == "g-a"

    fencing(story)


def test_it_is_not_fenced_before_an_agent_that_is_alive_had_the_time_to_register_anew(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage)
        async with stage.running():
            await looked_at(stage)
            await vanishes(stage)
            await stage.until_phase("a", Phase.PENDING)
            await asyncio.sleep(ABSENCE_S - 5)
            assert not stage.bmc.given
            await stage.node("a")
            await stage.until_phase("a", Phase.CANCELLED)
            await asyncio.sleep(ABSENCE_S * 3)
        assert not stage.machines.off

    fencing(story)


def test_a_node_that_was_there_for_a_moment_has_all_of_that_time_again(fencing: Any):
    """Between two looks: what is read of a node that is gone may take seconds."""

    async def story(stage: FencingStage) -> None:
        node = await stage.node("a")
        controller = stage.controller()
        looks, known = controller._looks, controller.cache(Node)
        assert looks.absent_for("a") == 0
        await asyncio.sleep(ABSENCE_S - 5)
        assert looks.absent_for("a") == ABSENCE_S - 5
        for change in ("ADDED", "DELETED"):
            known.apply(WatchEvent(change, node, node.metadata.resource_version))
        assert looks.absent_for("a") == 0
        await asyncio.sleep(5)
        assert looks.absent_for("a") == 5

    fencing(story)


def test_a_word_about_a_node_that_is_gone_is_void_once_it_has_registered_anew(fencing: Any):
    async def said(stage: FencingStage) -> bool:
        fence = await stage.fence("a")
        return fence is not None and statement_of(fence) is not None

    async def story(stage: FencingStage) -> None:
        node = await covered(stage, paused="not now")
        async with stage.running():
            await looked_at(stage)
            await vanishes(stage)
            fence = await stage.until_phase("a", Phase.PENDING)
            word = annotation(Statement(node.uid, absent=True))
            await stage.api.revise(fence, {"metadata": {"annotations": word}}, any_version=True)
            await asyncio.sleep(ABSENCE_S * 3)
            assert await said(stage)
            await stage.node("a")

            async def void() -> bool:
                return not await said(stage)

            await stage.until(void, seconds=5)

    fencing(story)


def test_a_controller_that_has_not_seen_the_node_fences_it_by_the_record(fencing: Any):
    async def story(stage: FencingStage) -> None:
        node = await covered(stage)
        async with stage.running():
            await looked_at(stage)
        await vanishes(stage)
        async with stage.running():
            fence = await stage.until_phase("a", Phase.FENCED)
            await stage.until(lambda: released(stage))
        assert fence.spec.node_uid == node.uid

    fencing(story)


def test_a_node_that_no_policy_covered_is_not_fenced_when_it_is_gone(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage, nodeSelector={"matchLabels": {"fencing": "yes"}})
        async with stage.running():
            await looked_at(stage, policy="")
            await vanishes(stage)
            await asyncio.sleep(ABSENCE_S * 3)
        assert await stage.fence("a") is None
        assert not stage.machines.off

    fencing(story)


def test_evidence_of_before_the_node_was_gone_does_not_count_and_is_shown_once_more(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage)
        async with stage.running():
            await looked_at(stage)
            await stage.silent("a")
            await stage.until_phase("a", Phase.FENCED)
            await vanishes(stage)
            assert not await released(stage)
            await stage.until(lambda: released(stage))
        assert [each.token.rsplit("-", 3)[1:] for each in stage.bmc.given] == [
            ["0", "0", "1"],
            ["1", "0", "1"],
        ]

    fencing(story)


def test_a_fence_that_was_cancelled_goes_on_when_the_node_is_gone(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage, worth={"patienceSeconds": 0}, peers={"required": 1})
        async with stage.running():
            await looked_at(stage)
            await stage.silent("a")
            await stage.until_phase("a", Phase.PENDING)
            await stage.report("a")
            await stage.until_phase("a", Phase.CANCELLED)
            await vanishes(stage)
            await stage.until_phase("a", Phase.FENCED)

    fencing(story)


def test_one_without_anything_left_is_not_fenced_and_what_was_recorded_goes(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage)
        async with stage.running():
            await looked_at(stage)
            await stage.api.delete(VolumeAttachment, "va")
            await vanishes(stage)

            async def forgotten() -> bool:
                said = (await stage.api.get(FenceMechanism, "bmc")).status.nodes
                return {each.name for each in said} == {"b", "c"}

            await stage.until(forgotten)
            await asyncio.sleep(ABSENCE_S * 3)
        assert await stage.fence("a") is None

    fencing(story)


def test_nodes_that_are_gone_at_once_are_a_storm(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage)
        await stage.attachment(await stage.api.get(Node, "b"), "vb")
        async with stage.running():
            await looked_at(stage, "a")
            await looked_at(stage, "b")
            await vanishes(stage, "a")
            await vanishes(stage, "b")
            await asyncio.sleep(ABSENCE_S * 3)
            for name in "ab":
                fence = await stage.fence(name)
                assert fence is not None
                assert (fence.status.phase, fence.status.reason) == (Phase.PENDING, "Storm")
        assert not stage.machines.off

    fencing(story)


def test_a_pause_holds_it_and_it_begins_when_that_ends(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage)
        async with stage.running():
            await looked_at(stage)
            await stage.pause("a trial")
            await vanishes(stage)
            await asyncio.sleep(ABSENCE_S * 3)
            assert not stage.machines.off
            await stage.pause("")
            await stage.until_phase("a", Phase.FENCED)

    fencing(story)


def test_what_a_detector_has_asked_for_is_held_by_its_policy_when_the_node_is_gone_too(fencing: Any):
    """207 of `storage-shuts-nodes-out.yaml`: peers had held it; a Node was deleted, and was there again at
    once under another uid. Its machine, which ran, was cut off in between."""

    async def story(stage: FencingStage) -> None:
        await covered(stage)
        async with stage.running():
            await looked_at(stage)
            await stage.pause("a trial")
            asked = {"nodeName": "a", "requestedBy": "a detector"}
            await stage.api.create(NodeFence, {"metadata": {"name": "asked"}, "spec": asked})
            await stage.until_phase("a", Phase.PENDING)
            await asyncio.sleep(1)
            await vanishes(stage)
            await asyncio.sleep(ABSENCE_S / 2)
            await stage.pause("")
            await asyncio.sleep(ABSENCE_S / 2 - 5)
            assert not stage.machines.off, "it may be back at once"
            await stage.pause("a trial")
            await asyncio.sleep(ABSENCE_S * 3)
            assert not stage.machines.off
            await stage.pause("")
            await stage.until_phase("a", Phase.FENCED)

    fencing(story)


def test_what_a_mechanism_saw_that_was_described_otherwise_is_no_word_that_the_machine_was_on(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage)
        async with stage.running():
            await looked_at(stage)
        await vanishes(stage)
        stage.machines.off.add("a")  # or the device that is asked now is another one
        await stage.api.patch(FenceMechanism, "bmc", {"spec": {"parameters": {"port": "2"}}})
        async with stage.running():
            fence = await stage.until_phase("a", Phase.AWAITING_PERSON)
            assert fence.status.reason == "SecondSourceNeeded"
            assert not await released(stage)

    fencing(story)


def test_a_record_of_another_boot_tells_a_fence_nothing(fencing: Any):
    async def story(stage: FencingStage) -> None:
        node = await covered(stage)
        async with stage.running():
            await looked_at(stage)
        await vanishes(stage)
        spec = {
            "nodeName": "a",
            "nodeUID": node.uid,
            "bootID": "boot-0",
            "requestedBy": "a test",
            "override": True,
        }
        body = {
            "metadata": {"name": fence_name("a", node.uid, "boot-0"), "finalizers": [FINALIZER]},
            "spec": spec,
        }
        await stage.api.create(NodeFence, body)
        async with stage.running():

            async def frozen() -> Any:
                fence = await stage.fence("a")
                return fence.status.target if fence is not None else None

            target = await stage.until(frozen)
        assert (target.boot_id, target.provider_id, target.identities) == ("boot-0", "", {})

    fencing(story)


def test_of_a_node_that_is_not_there_nothing_is_remembered_without_a_fence_of_it(fencing: Any):
    async def story(stage: FencingStage) -> None:
        await covered(stage)
        async with stage.running() as controller:
            spec = {"nodeName": "never", "nodeUID": "u", "requestedBy": "me", "reason": "r"}
            await stage.api.create(NodeFence, {"metadata": {"name": "f"}, "spec": spec})
            await stage.until(lambda: stage.fence("never"))
            await asyncio.sleep(5)
            looks: Any = vars(controller)["_looks"]
            assert vars(looks)["_absent_since"]
            await stage.api.delete(NodeFence, "f")
            gone = await stage.api.find(NodeFence, "f")
            if gone is not None:
                await stage.api.revise(gone, {"metadata": {"finalizers": None}}, any_version=True)
            await asyncio.sleep(5)
            assert not vars(looks)["_absent_since"]

    fencing(story)

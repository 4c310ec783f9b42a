"""A fence of the storage releases the volumes that it shuts the node out of, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from controller_stage import refuse_deletions
from crashes import ended_at
from played_mechanism import Manner
from storage_stage import IN_STATEFUL_SET, IQN, REQUEST, StorageStage

from mooring.controllers.fencing.keys import FenceKey
from mooring.controllers.fencing.removing import remove
from mooring.fence.interface import Scope
from mooring.kube.client import Client
from mooring.kube.errors import Forbidden
from mooring.kube.keys import NodeKey
from mooring.kube.objects import (
    Event,
    Node,
    Pod,
    VolumeAttachment,
)
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, FenceTarget, NodeFence
from mooring.kube.transport import Request, Response, Transport
from mooring.simulation.parts.faulty_transport import role
from mooring.volumes.out_of_service import taint_of
from mooring.volumes.statements import evidence_of


def test_what_the_node_cannot_write_any_more_is_released_and_its_pods_are_not(storage: Any):
    async def story(stage: StorageStage):
        node = await stage.lost_node()
        await stage.lun(node, "shut")
        await stage.lun(node, "elsewhere", "iqn.2026-01.dev.mooring:one.more")
        async with stage.running(Client(role(stage.server, "fencing"))):
            await asyncio.sleep(5)
            await stage.silent("a")
            fence = await stage.until_phase("a", "Fenced")
            await stage.until_released("shut")
            await asyncio.sleep(200)
            assert await stage.released() == {"shut"}
        assert fence.status.attempts[-1].volumes == {"shut": "pv-shut"}
        record = await stage.api.get(VolumeAttachment, "shut")
        found = evidence_of(record)
        assert found is not None
        assert (found.node_uid, found.boot_id) == (node.uid, "boot-1")
        assert taint_of(await stage.api.get(Node, "a")) is None
        said = (await stage.api.get(NodeFence, fence.name)).status.message
        assert "pv-shut" in said
        assert "elsewhere" not in said

    storage(story)


@pytest.mark.parametrize(
    "given",
    [
        {"portals": ("10.0.0.1", "10.0.0.3")},
        {"portals": ("10.0.0.1:3261",)},
        {"recorded": "10.0.0.1:3260:iqn.2026-01.dev.mooring:other:1"},
    ],
    ids=["a way that is open", "another port", "attached as another volume"],
)
def test_a_volume_that_the_node_may_still_reach_is_not_released(storage: Any, given: dict[str, Any]):
    async def story(stage: StorageStage):
        node = await stage.lost_node()
        await stage.lun(node, "both", IQN, "10.0.0.1", "10.0.0.2")
        await stage.lun(node, "open", IQN, *given.pop("portals", ()), lun=2, **given)
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_phase("a", "Fenced")
            await stage.until_released("both")

    storage(story)


def test_without_a_word_about_portals_nothing_is_released(storage: Any):
    async def story(stage: StorageStage):
        node = await stage.lost_node()
        await stage.api.patch(
            FenceMechanism, "bmc", {"spec": {"parameters": {"target": IQN, "portals": None}}}
        )
        await stage.lun(node, "shut")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            fence = await stage.until_phase("a", "Fenced")
            await asyncio.sleep(100)
        assert await stage.released() == set()
        assert "releases nothing by itself" in (await stage.api.get(NodeFence, fence.name)).status.message

    storage(story)


def test_a_fence_that_was_lifted_takes_its_release_back_until_it_holds_again(storage: Any):
    async def story(stage: StorageStage):
        node = await stage.lost_node()
        await stage.lun(node, "shut")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_released("shut")
            stage.bmc.takes_s = 20.0
            stage.machines.off.clear()
            await stage.until_released()
            assert not stage.machines.off, "it is taken back before it is ordered again"
            await stage.until_released("shut")
            assert stage.machines.off == {"a"}

    storage(story)


def test_what_was_attached_after_the_order_waits(storage: Any):
    async def story(stage: StorageStage):
        node = await stage.lost_node()
        await stage.lun(node, "shut")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_released("shut")
            await stage.lun(node, "late", lun=2)
            await asyncio.sleep(200)
            assert await stage.released() == {"shut"}

    storage(story)


def test_a_mechanism_that_is_described_anew_releases_what_it_covered_when_it_was_ordered(storage: Any):
    """The new description is about another target, of which the node has a volume, too."""

    async def story(stage: StorageStage):
        node = await stage.lost_node()
        await stage.lun(node, "shut")
        await stage.lun(node, "other", "iqn.2026-01.dev.mooring:two")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_phase("a", "Fenced")
            described = {"spec": {"parameters": {"target": "iqn.2026-01.dev.mooring:two"}}}
            await stage.api.patch(FenceMechanism, "bmc", described)
            await asyncio.sleep(200)
            assert await stage.released() == {"shut"}

    storage(story)


def test_whatever_await_its_controller_dies_at_the_volume_is_released_once_it_is_shut(storage: Any):
    kinds = (Node, FencePolicy, FenceMechanism, NodeFence)

    async def crashed_at(stage: StorageStage, steps: int) -> bool:
        node = await stage.lost_node()
        await stage.lun(node, "shut")
        first = stage.controller()
        await stage.fill(first, *kinds)
        mechanism = await stage.api.get(FenceMechanism, "bmc")
        await first.reconcile(first._of_mechanism(mechanism)[0])  # pyright: ignore[reportPrivateUsage]
        await stage.silent("a")
        maker = stage.controller()
        await stage.fill(maker, *kinds)
        await maker.reconcile(NodeKey("a"))
        fence = await stage.fence("a")
        assert fence is not None
        dying = stage.controller()
        await stage.fill(dying, *kinds)
        crashed = await ended_at(dying.reconcile(FenceKey(fence.name)), steps)
        assert not await stage.released() or stage.machines.off == {"a"}
        async with stage.running():
            await stage.until_released("shut")
        assert stage.machines.off == {"a"}
        return crashed

    steps = 0
    while storage(lambda stage: crashed_at(stage, steps)):  # noqa: B023 - it is played at once
        steps += 1
    assert steps > 5


def test_evidence_of_a_network_releases_what_is_reached_through_it_and_no_pod_whatever_the_policy(
    storage: Any,
):
    async def story(stage: StorageStage):
        stage.bmc.scope = Scope.NETWORK
        node = await stage.lost_node()
        await stage.opt_in()
        await stage.lun(node, "shut")
        await stage.lun(node, "elsewhere", "iqn.2026-01.dev.mooring:two")
        await stage.claim("shut")
        await stage.pod("shut")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_released("shut")
            await asyncio.sleep(200)
            assert await stage.released() == {"shut"}
            assert await stage.pods() == ["web-0"]
            assert "none of its pods" in (await stage.until_phase("a", "Fenced")).status.message
        assert taint_of(await stage.api.get(Node, "a")) is None

    storage(story)


# --- pods of StatefulSets, where the policy opts in


def test_a_stateful_sets_pod_is_removed_after_its_volume_where_the_policy_says_so(storage: Any):
    async def story(stage: StorageStage):
        node = await stage.lost_node()
        await stage.opt_in()
        await stage.lun(node, "shut")
        await stage.claim("shut")
        pod = await stage.pod("shut", volumes=[{"name": "scratch", "emptyDir": {}}])
        async with stage.running(Client(role(stage.server, "fencing"))):
            await asyncio.sleep(5)
            assert await stage.pods() == ["web-0"]
            await stage.silent("a")
            await stage.until_gone()
            assert stage.machines.off == {"a"}
            assert await stage.released() == {"shut"}
            fence = await stage.until_phase("a", "Fenced")
            await asyncio.sleep(1)
        assert "pods of StatefulSets" in fence.status.message
        events = (await stage.api.list(Event)).items
        said = next(each for each in events if each.reason == "RemovedByStorageFence")
        assert (said.involved_object.uid, said.type) == (pod.uid, "Warning")
        assert "may still run" in said.message

    storage(story)


def test_a_policy_that_opts_in_while_the_fence_holds_is_followed_at_once(storage: Any):
    async def story(stage: StorageStage):
        node = await stage.lost_node()
        await stage.lun(node, "shut")
        await stage.claim("shut")
        await stage.pod("shut")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_released("shut")
            await asyncio.sleep(70)
            assert await stage.pods() == ["web-0"]
            looks = stage.bmc.looks
            await stage.opt_in()
            await asyncio.sleep(1)
            assert await stage.pods() == []
            assert stage.bmc.looks == looks + 1, "it was looked at first, and once"

    storage(story)


def test_a_policy_that_opts_in_is_not_followed_while_the_storage_does_not_say_that_it_is_shut(storage: Any):
    async def story(stage: StorageStage):
        node = await stage.lost_node()
        await stage.lun(node, "shut")
        await stage.claim("shut")
        await stage.pod("shut")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_released("shut")
            stage.bmc.manner = Manner.SILENT
            looks = stage.bmc.looks
            await stage.opt_in()
            await asyncio.sleep(20)
            assert await stage.pods() == ["web-0"]
            assert stage.bmc.looks == looks + 1, "it is not asked without an end"
            stage.bmc.manner = Manner.HONEST
            await stage.until_gone()

    storage(story)


@pytest.mark.parametrize(
    "given",
    [
        {"metadata": {"ownerReferences": []}},
        {"metadata": {"ownerReferences": [{**IN_STATEFUL_SET["ownerReferences"][0], "kind": "ReplicaSet"}]}},
        {"volumes": [{"name": "more", "persistentVolumeClaim": {"claimName": "elsewhere"}}]},
        {"volumes": [{"name": "more", "persistentVolumeClaim": {"claimName": "of-another"}}]},
        {"volumes": [{"name": "more", "persistentVolumeClaim": {"claimName": "missing"}}]},
        {"volumes": [{"name": "more", "ephemeral": {"volumeClaimTemplate": {"spec": REQUEST}}}]},
        {"volumes": [{"name": "more", "nfs": {"server": "10.0.0.9", "path": "/"}}]},
        {"volumes": [{"name": "more", "csi": {"driver": "shared.example.com"}}]},
        {"tolerations": [{"key": "node.kubernetes.io/out-of-service", "operator": "Exists"}]},
        {"claims": ()},
    ],
    ids=[
        "of no controller",
        "of a ReplicaSet",
        "a volume elsewhere",
        "a volume of another claim",
        "a claim that is not there",
        "an ephemeral claim that is not there",
        "a share",
        "a volume of a driver",
        "it tolerates that",
        "no volume",
    ],
)
def test_a_pod_that_may_share_something_else_or_is_no_stateful_sets_stays(
    storage: Any, given: dict[str, Any]
):
    async def story(stage: StorageStage):
        node = await stage.lost_node()
        await stage.opt_in()
        await stage.lun(node, "shut")
        await stage.claim("shut")
        await stage.lun(node, "elsewhere", "iqn.2026-01.dev.mooring:two", lun=2)
        await stage.claim("elsewhere")
        await stage.lun(node, "of-another", lun=3)
        await stage.claim("of-another", of_another=True)
        await stage.pod(*given.pop("claims", ("shut",)), name="stays-0", **given)
        await stage.pod("shut")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_gone()
            await asyncio.sleep(200)
            assert await stage.pods() == ["stays-0"]

    storage(story)


def test_pods_are_removed_as_soon_as_the_policy_says_so_and_not_before(storage: Any):
    async def story(stage: StorageStage):
        node = await stage.lost_node()
        await stage.lun(node, "shut")
        await stage.claim("shut")
        await stage.pod("shut")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_phase("a", "Fenced")
            await asyncio.sleep(200)
            assert await stage.pods() == ["web-0"]
            await stage.opt_in()
            await stage.until_gone()

    storage(story)


def test_no_pod_is_removed_from_a_node_that_answers_again_or_is_let_in_again(storage: Any):
    async def story(stage: StorageStage):
        node = await stage.lost_node()
        await stage.lun(node, "shut")
        await stage.claim("shut")
        await stage.pod("shut")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_released("shut")
            await stage.report("a")
            await stage.opt_in()
            await asyncio.sleep(200)
            assert await stage.pods() == ["web-0"]
            stage.bmc.takes_s = 1000.0
            stage.machines.off.clear()
            await stage.silent("a")
            await asyncio.sleep(200)
            assert await stage.pods() == ["web-0"]

    storage(story)


def test_the_pods_of_another_boot_stay_however_late_it_is_seen(storage: Any):
    async def story(stage: StorageStage):
        node = await stage.lost_node()
        await stage.lun(node, "shut")
        await stage.claim("shut")
        await stage.pod("shut")
        await stage.silent("a", "boot-2")

        async def removed_of(boot: str) -> list[str]:
            target = FenceTarget(node_name="a", node_uid=node.uid, boot_id=boot)
            recorder = stage.controller().recorder
            return await remove(stage.api, target, {"shut": "pv-shut"}, recorder, stage.now)

        assert await removed_of("boot-1") == []
        assert await removed_of("boot-2") == ["default/web-0"]

    storage(story)


def test_a_pod_that_may_not_be_removed_keeps_no_other_from_going(storage: Any):
    async def story(stage: StorageStage):
        node = await stage.lost_node()
        await stage.lun(node, "shut")
        await stage.claim("shut")
        for name in ("web-0", "web-1"):
            await stage.pod("shut", name=name)
        await stage.silent("a")
        refuse_deletions(stage.api, "web-0")
        target = FenceTarget(node_name="a", node_uid=node.uid, boot_id="boot-1")
        with pytest.raises(Forbidden):
            await remove(stage.api, target, {"shut": "pv-shut"}, stage.controller().recorder, stage.now)
        assert await stage.pods() == ["web-0"]

    storage(story)


class Overtaken:
    """Another writer labels the pod just before each of the first `times` writes to it."""

    def __init__(self, stage: StorageStage, inner: Transport, times: int) -> None:
        self._stage, self._inner, self._times = stage, inner, times

    async def send(self, request: Request) -> Response:
        if request.method != "GET" and "/pods/web-0" in request.path and self._times:
            self._times -= 1
            label = {"metadata": {"labels": {"written": str(self._times)}}}
            await self._stage.api.patch(Pod, "web-0", label, "default")
        return await self._inner.send(request)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.parametrize(("times", "left"), [(2, []), (20, ["web-0"])])
def test_a_pod_that_another_writes_meanwhile_is_removed_all_the_same(
    storage: Any, times: int, left: list[str]
):
    """33002050 of `fencing-by-storage.yaml`: it stayed until the fence was looked at again."""

    async def story(stage: StorageStage):
        node = await stage.lost_node()
        await stage.lun(node, "shut")
        await stage.claim("shut")
        await stage.pod("shut")
        await stage.silent("a")
        client = Client(Overtaken(stage, role(stage.server, "fencing"), times))
        target = FenceTarget(node_name="a", node_uid=node.uid, boot_id="boot-1")
        await remove(client, target, {"shut": "pv-shut"}, stage.controller().recorder, stage.now)
        assert await stage.pods() == left

    storage(story)


def test_whatever_await_its_controller_dies_at_the_pod_goes_once_its_volume_is_shut(storage: Any):
    kinds = (Node, FencePolicy, FenceMechanism, NodeFence)

    async def crashed_at(stage: StorageStage, steps: int) -> bool:
        node = await stage.lost_node()
        await stage.opt_in()
        await stage.lun(node, "shut")
        await stage.claim("shut")
        await stage.pod("shut")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.opt_in(releases=False)
            await stage.silent("a")
            fence = await stage.until_phase("a", "Fenced")
            await stage.until_released("shut")
            await asyncio.sleep(1)
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=30)
        await stage.opt_in()
        await asyncio.sleep(120)
        dying = stage.controller()
        await stage.fill(dying, *kinds)
        crashed = await ended_at(dying.reconcile(FenceKey(fence.name)), steps)
        async with stage.running():
            await stage.until_gone()
        return crashed

    steps = 0
    while storage(lambda stage: crashed_at(stage, steps)):  # noqa: B023 - it is played at once
        steps += 1
    assert steps > 5

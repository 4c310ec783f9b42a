"""The stories of a volume's life, with all parts in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from in_process_cluster import InProcessCluster, loses_power

from mooring.controllers.attachdetach.controller import AttachDetachController
from mooring.controllers.attacher.controller import AttacherController
from mooring.kube.objects import Event, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.simulation.cluster.controllers import ATTACHING, PLACING, WATCHING
from mooring.simulation.parts.faulty_transport import Fault, request

Play = Callable[[Any], Any]


def test_a_claim_gets_a_volume_and_a_pod_runs_with_it(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.stateful_set()
        node = await cluster.until(cluster.running)
        await cluster.settled(node)
        assert await cluster.event("SuccessfulAttachVolume")
        assert await cluster.event("ProvisioningSucceeded")

    play(story)


def test_a_drained_pod_moves_with_its_volume(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.stateful_set()
        first = await cluster.until(cluster.running)
        await cluster.drain(first)
        second = await cluster.until(lambda: cluster.running(other_than=first))
        await cluster.settled(second)
        assert cluster.array.holders(*cluster.array.disks) == [first, second]

    play(story)


def test_a_pod_that_moves_back_and_forth_ends_where_it_is_wanted(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.stateful_set()
        here = await cluster.until(cluster.running)
        for _ in range(3):
            await cluster.drain(here)
            there = await cluster.until(lambda here=here: cluster.running(other_than=here))
            await cluster.uncordon(here)
            here = there
        await cluster.settled(here)
        assert len(cluster.array.holders(*cluster.array.disks)) == 4

    play(story)


def test_without_anybodys_word_a_volume_of_a_silent_node_stays_there_for_ever(play: Play):
    async def story(cluster: InProcessCluster):
        node = await loses_power(cluster)
        for _ in range(60):
            await cluster.until(lambda: True)
            pod = await cluster.pod()
            assert pod is not None
            assert pod.spec.node_name == node, "the identity is not given anew"
            assert list(cluster.array.attached.values()) == [node]
            await asyncio.sleep(60)

    play(story)


def test_a_declaration_that_the_node_is_out_of_service_lets_pod_and_volume_move(play: Play):
    async def story(cluster: InProcessCluster):
        node = await loses_power(cluster)
        await asyncio.sleep(30)
        await cluster.out_of_service(node)
        other = await cluster.until(lambda: cluster.running(other_than=node))
        await cluster.settled(other)
        assert cluster.array.holders(*cluster.array.disks) == [node, other]
        assert await cluster.event("ForcedDetach", "declared out of service")

    play(story)


def test_a_node_that_comes_back_before_anybody_says_that_it_is_dead_keeps_its_volume(play: Play):
    async def story(cluster: InProcessCluster):
        node = await loses_power(cluster)
        cluster.machines[node].power_on()
        there = await cluster.until(cluster.running)
        await cluster.settled(there)

    play(story)


def test_a_node_that_is_only_cut_off_keeps_its_volume_in_spite_of_a_spent_taint(play: Play):
    """Protocol C11: the taint is left over from an earlier loss of power."""

    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.stateful_set()
        node = await cluster.until(cluster.running)
        await cluster.out_of_service(
            node
        )  # by mistake: the node answers, and its next report spends the taint
        await asyncio.sleep(30)
        there = await cluster.until(cluster.running)
        cluster.machines[there].wire.down = True
        await asyncio.sleep(600)
        assert (list(cluster.array.attached.values()), len(cluster.array.mounted)) == ([there], 1)
        assert not cluster.array.harms
        assert not cluster.array.refused

    play(story)


def test_a_pod_deleted_while_its_volume_is_being_attached_leaves_nothing_behind(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        cluster.array.attach_s = 20
        await cluster.claim("c")
        await cluster.create_pod("p", "c")
        await cluster.until(lambda: cluster.array.busy)
        await cluster.api.delete(Pod, "p", "default")
        await cluster.until(lambda: nothing_attached(cluster))
        assert not cluster.array.harms

    play(story)


async def nothing_attached(cluster: InProcessCluster) -> bool:
    return not cluster.array.attached and not await cluster.records()


def test_two_pods_on_two_nodes_that_want_one_volume_get_it_one_after_the_other(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.claim("c")
        await cluster.create_pod("first", "c", nodeName="n0")
        await cluster.until(lambda: cluster.running("first"))
        await cluster.create_pod("second", "c", nodeName="n1")
        await cluster.until(lambda: cluster.event("FailedAttachVolume", "Multi-Attach error"))
        assert not await cluster.running("second")
        await cluster.api.delete(Pod, "first", "default")
        await cluster.until(lambda: cluster.running("second"))
        await cluster.settled("n1")

    play(story)


def test_deleted_claims_take_their_disks_with_them(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.claim("c")
        await cluster.create_pod("p", "c")
        await cluster.until(lambda: cluster.running("p"))
        await cluster.api.delete(PersistentVolumeClaim, "c", "default")
        await asyncio.sleep(60)
        assert cluster.array.disks, "protected while a pod uses it"
        await cluster.api.delete(Pod, "p", "default")
        await cluster.until(lambda: not cluster.array.disks)
        await cluster.until(lambda: no_volumes(cluster))
        assert not cluster.array.attached

    play(story)


async def no_volumes(cluster: InProcessCluster) -> bool:
    return not (await cluster.api.list(PersistentVolume)).items


def test_an_agent_that_is_restarted_changes_nothing(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.stateful_set()
        node = await cluster.until(cluster.running)
        before = list(cluster.array.history)
        for _ in range(3):
            await cluster.machines[node].agent_dies()
            await asyncio.sleep(3)
            cluster.machines[node].start_agent()
            await asyncio.sleep(20)
        await cluster.settled(node)
        assert cluster.array.history == before

    play(story)


def test_no_more_requests_are_made_to_a_storage_at_once_than_the_cap_allows(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        cluster.array.attach_s = 5
        for number in range(40):
            await cluster.claim(f"c{number}")
            await cluster.create_pod(f"p{number}", f"c{number}")
        await cluster.until(lambda: len(cluster.array.attached) == 40)
        assert cluster.array.busiest == AttacherController.workers

    play(story)


def test_each_pod_that_waits_for_a_volume_is_told_so_also_one_that_takes_anothers_place(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.claim("c")
        await cluster.create_pod("holder", "c", nodeName="n0")
        await cluster.until(lambda: cluster.running("holder"))
        for _ in range(2):
            await cluster.create_pod("waiter", "c", nodeName="n1")
            pod = await cluster.pod("waiter")
            assert pod is not None
            uid = pod.uid
            await cluster.until(lambda uid=uid: is_reported(cluster, uid))
            await cluster.api.delete(Pod, "waiter", "default", grace_period_seconds=0)

    async def is_reported(cluster: InProcessCluster, uid: str) -> bool:
        events = (await cluster.api.list(Event)).items
        return any(each.involved_object.uid == uid and each.reason == "FailedAttachVolume" for each in events)

    play(story)


def test_a_controller_that_has_moved_volumes_remembers_nothing_of_it(play: Play):
    async def story(cluster: InProcessCluster):
        await cluster.start()
        await cluster.stateful_set()
        here = await cluster.until(cluster.running)
        await cluster.drain(here)
        await cluster.until(lambda: cluster.running(other_than=here))
        await asyncio.sleep(5)
        controller = cluster.processes[0].controllers[0]
        assert isinstance(controller, AttachDetachController)
        assert controller._deleted == {}

    play(story)


def test_a_late_creation_by_a_dead_leader_leads_to_no_second_attachment(play: Play):
    """As far as protocol C14 goes for a storage that refuses: its word is the lock."""

    async def story(cluster: InProcessCluster):
        await cluster.start(controllers=(PLACING, WATCHING))
        dead = cluster.run(ATTACHING)
        late = dead.wire.late(request("POST", "/volumeattachments"))
        await cluster.claim("c")
        await cluster.create_pod("first", "c", nodeName="n0")
        await late_has_struck(late)
        await cluster.kill(dead)
        cluster.run(ATTACHING)
        await cluster.api.delete(Pod, "first", "default", grace_period_seconds=0)
        await cluster.create_pod("second", "c", nodeName="n1")
        await cluster.until(lambda: cluster.running("second"))
        assert await late.deliver() == 201
        await cluster.until(lambda: one_record(cluster))
        await asyncio.sleep(5)
        assert list(cluster.array.attached.values()) == ["n1"]
        assert cluster.array.holders(*cluster.array.disks) == ["n1"]
        assert not cluster.array.harms

    async def late_has_struck(late: Fault) -> None:
        await asyncio.wait_for(late.arrived.wait(), 60)

    async def one_record(cluster: InProcessCluster) -> bool:
        return [record.spec.node_name for record in await cluster.records()] == ["n1"]

    play(story)

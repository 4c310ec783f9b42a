"""The stories of a volume's life, with all parts in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from world import World, loses_power

from mooring.controllers.attachdetach.controller import AttachDetachController
from mooring.controllers.attacher.controller import AttacherController
from mooring.kube.objects import Event, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.simulation.cluster.controllers import ATTACHING, PLACING, WATCHING
from mooring.simulation.parts.faulty_transport import Fault, request

Play = Callable[[Any], Any]


def test_a_claim_gets_a_volume_and_a_pod_runs_with_it(play: Play):
    async def story(world: World):
        await world.start()
        await world.stateful_set()
        node = await world.until(world.running)
        await world.settled(node)
        assert await world.event("SuccessfulAttachVolume")
        assert await world.event("ProvisioningSucceeded")

    play(story)


def test_a_drained_pod_moves_with_its_volume(play: Play):
    async def story(world: World):
        await world.start()
        await world.stateful_set()
        first = await world.until(world.running)
        await world.drain(first)
        second = await world.until(lambda: world.running(other_than=first))
        await world.settled(second)
        assert world.array.holders(*world.array.disks) == [first, second]

    play(story)


def test_a_pod_that_moves_back_and_forth_ends_where_it_is_wanted(play: Play):
    async def story(world: World):
        await world.start()
        await world.stateful_set()
        here = await world.until(world.running)
        for _ in range(3):
            await world.drain(here)
            there = await world.until(lambda here=here: world.running(other_than=here))
            await world.uncordon(here)
            here = there
        await world.settled(here)
        assert len(world.array.holders(*world.array.disks)) == 4

    play(story)


def test_without_anybodys_word_a_volume_of_a_silent_node_stays_there_for_ever(play: Play):
    async def story(world: World):
        node = await loses_power(world)
        for _ in range(60):
            await world.until(lambda: True)
            pod = await world.pod()
            assert pod is not None
            assert pod.spec.node_name == node, "the identity is not given anew"
            assert list(world.array.attached.values()) == [node]
            await asyncio.sleep(60)

    play(story)


def test_a_declaration_that_the_node_is_out_of_service_lets_pod_and_volume_move(play: Play):
    async def story(world: World):
        node = await loses_power(world)
        await asyncio.sleep(30)
        await world.out_of_service(node)
        other = await world.until(lambda: world.running(other_than=node))
        await world.settled(other)
        assert world.array.holders(*world.array.disks) == [node, other]
        assert await world.event("ForcedDetach", "declared out of service")

    play(story)


def test_a_node_that_comes_back_before_anybody_says_that_it_is_dead_keeps_its_volume(play: Play):
    async def story(world: World):
        node = await loses_power(world)
        world.machines[node].power_on()
        there = await world.until(world.running)
        await world.settled(there)

    play(story)


def test_a_node_that_is_only_cut_off_keeps_its_volume_in_spite_of_a_spent_taint(play: Play):
    """Protocol C11: the taint is left over from an earlier loss of power."""

    async def story(world: World):
        await world.start()
        await world.stateful_set()
        node = await world.until(world.running)
        await world.out_of_service(node)  # by mistake: the node answers, and its next report spends the taint
        await asyncio.sleep(30)
        there = await world.until(world.running)
        world.machines[there].wire.down = True
        await asyncio.sleep(600)
        assert (list(world.array.attached.values()), len(world.array.mounted)) == ([there], 1)
        assert not world.array.harms
        assert not world.array.refused

    play(story)


def test_a_pod_deleted_while_its_volume_is_being_attached_leaves_nothing_behind(play: Play):
    async def story(world: World):
        await world.start()
        world.array.attach_s = 20
        await world.claim("c")
        await world.create_pod("p", "c")
        await world.until(lambda: world.array.busy)
        await world.api.delete(Pod, "p", "default")
        await world.until(lambda: nothing_attached(world))
        assert not world.array.harms

    play(story)


async def nothing_attached(world: World) -> bool:
    return not world.array.attached and not await world.records()


def test_two_pods_on_two_nodes_that_want_one_volume_get_it_one_after_the_other(play: Play):
    async def story(world: World):
        await world.start()
        await world.claim("c")
        await world.create_pod("first", "c", nodeName="n0")
        await world.until(lambda: world.running("first"))
        await world.create_pod("second", "c", nodeName="n1")
        await world.until(lambda: world.event("FailedAttachVolume", "Multi-Attach error"))
        assert not await world.running("second")
        await world.api.delete(Pod, "first", "default")
        await world.until(lambda: world.running("second"))
        await world.settled("n1")

    play(story)


def test_deleted_claims_take_their_disks_with_them(play: Play):
    async def story(world: World):
        await world.start()
        await world.claim("c")
        await world.create_pod("p", "c")
        await world.until(lambda: world.running("p"))
        await world.api.delete(PersistentVolumeClaim, "c", "default")
        await asyncio.sleep(60)
        assert world.array.disks, "protected while a pod uses it"
        await world.api.delete(Pod, "p", "default")
        await world.until(lambda: not world.array.disks)
        await world.until(lambda: no_volumes(world))
        assert not world.array.attached

    play(story)


async def no_volumes(world: World) -> bool:
    return not (await world.api.list(PersistentVolume)).items


def test_an_agent_that_is_restarted_changes_nothing(play: Play):
    async def story(world: World):
        await world.start()
        await world.stateful_set()
        node = await world.until(world.running)
        before = list(world.array.history)
        for _ in range(3):
            await world.machines[node].agent_dies()
            await asyncio.sleep(3)
            world.machines[node].start_agent()
            await asyncio.sleep(20)
        await world.settled(node)
        assert world.array.history == before

    play(story)


def test_no_more_requests_are_made_to_a_storage_at_once_than_the_cap_allows(play: Play):
    async def story(world: World):
        await world.start()
        world.array.attach_s = 5
        for number in range(40):
            await world.claim(f"c{number}")
            await world.create_pod(f"p{number}", f"c{number}")
        await world.until(lambda: len(world.array.attached) == 40)
        assert world.array.busiest == AttacherController.workers

    play(story)


def test_each_pod_that_waits_for_a_volume_is_told_so_also_one_that_takes_anothers_place(play: Play):
    async def story(world: World):
        await world.start()
        await world.claim("c")
        await world.create_pod("holder", "c", nodeName="n0")
        await world.until(lambda: world.running("holder"))
        for _ in range(2):
            await world.create_pod("waiter", "c", nodeName="n1")
            pod = await world.pod("waiter")
            assert pod is not None
            uid = pod.uid
            await world.until(lambda uid=uid: told(world, uid))
            await world.api.delete(Pod, "waiter", "default", grace_period_seconds=0)

    async def told(world: World, uid: str) -> bool:
        events = (await world.api.list(Event)).items
        return any(each.involved_object.uid == uid and each.reason == "FailedAttachVolume" for each in events)

    play(story)


def test_a_controller_that_has_moved_volumes_remembers_nothing_of_it(play: Play):
    async def story(world: World):
        await world.start()
        await world.stateful_set()
        here = await world.until(world.running)
        await world.drain(here)
        await world.until(lambda: world.running(other_than=here))
        await asyncio.sleep(5)
        controller = world.processes[0].controllers[0]
        assert isinstance(controller, AttachDetachController)
        assert controller._deleted == {}

    play(story)


def test_a_late_creation_by_a_dead_leader_leads_to_no_second_attachment(play: Play):
    """As far as protocol C14 goes for a storage that refuses: its word is the lock."""

    async def story(world: World):
        await world.start(controllers=(PLACING, WATCHING))
        dead = world.run(ATTACHING)
        late = dead.wire.late(request("POST", "/volumeattachments"))
        await world.claim("c")
        await world.create_pod("first", "c", nodeName="n0")
        await late_has_struck(late)
        await world.kill(dead)
        world.run(ATTACHING)
        await world.api.delete(Pod, "first", "default", grace_period_seconds=0)
        await world.create_pod("second", "c", nodeName="n1")
        await world.until(lambda: world.running("second"))
        assert await late.deliver() == 201
        await world.until(lambda: one_record(world))
        await asyncio.sleep(5)
        assert list(world.array.attached.values()) == ["n1"]
        assert world.array.holders(*world.array.disks) == ["n1"]
        assert not world.array.harms

    async def late_has_struck(late: Fault) -> None:
        await asyncio.wait_for(late.arrived.wait(), 60)

    async def one_record(world: World) -> bool:
        return [record.spec.node_name for record in await world.records()] == ["n1"]

    play(story)

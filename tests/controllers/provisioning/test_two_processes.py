"""Two processes that make and empty volumes: one that has lost its lease and does not know it yet, or whose
request is still on its way, and its successor, which goes on with what is begun."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from provisioning_scenes import only_volume, released, restarted, storage_says, waiting_claim

from mooring.controllers.provisioning.askers import ASKED_BY, MOST
from mooring.controllers.provisioning.begun_claims import LATEST_REQUEST_S
from mooring.controllers.provisioning.decide import BEGUN
from mooring.controllers.provisioning.reclaim import RECYCLING
from mooring.kube.errors import Conflict, Unreachable
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.errors import NotAsked, OutcomeUnknown, StorageRefused

CLAIM = ClaimKey("default/c")
VOLUME = VolumeKey("pv")
OFFERED = request("PATCH", "persistentvolumes/pv", '"claimRef"')
LET_GO = request("PATCH", "persistentvolumeclaims/c")


async def tries(controller: Any, error: Exception) -> None:
    storage_says(controller, error)
    with pytest.raises(type(error)):
        await controller.reconcile(CLAIM)


async def now(stage: ControllerStage) -> PersistentVolumeClaim:
    return await stage.api.get(PersistentVolumeClaim, "c", "default")


async def deleted(stage: ControllerStage, *controllers: Any) -> None:
    await stage.api.delete(PersistentVolumeClaim, "c", "default")
    for each in controllers:
        await stage.fill(each, PersistentVolumeClaim)


@pytest.mark.parametrize("late", [True, False])
def test_who_was_certain_lets_no_claim_go_for_which_its_successor_has_asked(play: Play, late: bool):
    """Whether the former one knows it or not: the disk may be in the making (81039 of the swarm)."""

    async def story(stage: ControllerStage):
        former, _ = await waiting_claim(stage)
        await tries(former, NotAsked("away"))
        successor = await restarted(stage)
        await deleted(stage, former, successor)
        await tries(successor, OutcomeUnknown("lost"))
        if not late:
            await stage.fill(former, PersistentVolumeClaim)
        with pytest.raises(NotAsked):
            await former.reconcile(CLAIM)
        assert BEGUN in (await now(stage)).metadata.finalizers

    play(story)


def test_a_request_that_is_still_on_its_way_lets_no_claim_go_for_which_a_successor_has_asked(play: Play):
    async def story(stage: ControllerStage):
        former, _ = await waiting_claim(stage)
        await tries(former, StorageRefused("no such type"))
        await deleted(stage, former)
        on_its_way = stage.wire.hold(LET_GO)
        letting_go = asyncio.create_task(former.reconcile(CLAIM))
        await on_its_way.arrived.wait()
        await tries(await restarted(stage), OutcomeUnknown("lost"))
        on_its_way.release()
        with pytest.raises(Conflict):
            await letting_go
        assert BEGUN in (await now(stage)).metadata.finalizers

    play(story)


def test_a_request_of_its_own_that_comes_late_lets_no_claim_go_for_which_it_has_asked_again(play: Play):
    async def story(stage: ControllerStage):
        controller, _ = await waiting_claim(stage)
        await tries(controller, NotAsked("away"))
        await deleted(stage, controller)
        late = stage.wire.late(LET_GO)
        storage_says(controller, StorageRefused("no such type"))
        with pytest.raises(Unreachable):
            await controller.reconcile(CLAIM)
        await tries(controller, OutcomeUnknown("lost"))
        await late.deliver()
        assert BEGUN in (await now(stage)).metadata.finalizers

    play(story)


def test_each_process_signs_once(play: Play):
    """Two would else wake each other for ever."""

    async def story(stage: ControllerStage):
        former, _ = await waiting_claim(stage)
        await tries(former, NotAsked("away"))
        successor = await restarted(stage)
        await tries(successor, NotAsked("away"))
        signed = (await now(stage)).metadata
        assert len(signed.annotations[ASKED_BY].split()) == 2
        for each in (former, successor):
            await stage.fill(each, PersistentVolumeClaim)
            await tries(each, NotAsked("away"))
        assert (await now(stage)).metadata == signed

    play(story)


async def two_askers(stage: ControllerStage) -> tuple[Any, Any]:
    """Both have signed a claim that is to go by now."""
    former, _ = await waiting_claim(stage)
    await tries(former, NotAsked("away"))
    successor = await restarted(stage)
    await tries(successor, NotAsked("away"))
    await deleted(stage, former, successor)
    return former, successor


REFUSED = StorageRefused("no such type")


def test_what_the_storage_refuses_to_one_lets_no_claim_go_while_another_may_ask(play: Play):
    """90335 of clusters with `kept`."""

    async def story(stage: ControllerStage):
        former, successor = await two_askers(stage)
        await tries(successor, REFUSED)
        left = (await now(stage)).metadata
        assert (BEGUN in left.finalizers, len(left.annotations[ASKED_BY].split())) == (True, 1)
        await stage.fill(former, PersistentVolumeClaim)
        await tries(former, REFUSED)
        assert BEGUN not in (await now(stage)).metadata.finalizers

    play(story)


def test_who_asks_for_a_claim_that_is_to_go_beside_another_signs_each_time(play: Play):
    async def story(stage: ControllerStage):
        former, successor = await two_askers(stage)
        for _ in range(2):
            before = (await now(stage)).metadata.annotations[ASKED_BY].split()
            await tries(former, OutcomeUnknown("lost"))
            after = (await now(stage)).metadata.annotations[ASKED_BY].split()
            assert (len(before), len(after), before[-1] == after[-1]) == (2, 2, False)
        await stage.fill(successor, PersistentVolumeClaim)
        await tries(successor, REFUSED)
        assert BEGUN in (await now(stage)).metadata.finalizers

    play(story)


def test_a_claim_goes_for_which_no_other_process_has_asked_for_as_long_as_a_request_may_take(play: Play):
    async def story(stage: ControllerStage):
        _, successor = await two_askers(stage)
        for waits_s in (0.0, LATEST_REQUEST_S - 1, 1.0):
            await asyncio.sleep(waits_s)
            assert BEGUN in (await now(stage)).metadata.finalizers
            await tries(successor, REFUSED)
        assert BEGUN not in (await now(stage)).metadata.finalizers

    play(story)


def test_a_signature_whose_answer_was_lost_is_not_relied_upon(play: Play):
    async def story(stage: ControllerStage):
        await tries((await waiting_claim(stage))[0], NotAsked("away"))
        successor = await restarted(stage)
        stage.wire.unanswered(LET_GO)
        with suppress(Unreachable):
            await successor.reconcile(CLAIM)
        await tries(successor, NotAsked("away"))
        assert len((await now(stage)).metadata.annotations[ASKED_BY].split()) == 3

    play(story)


def test_the_signatures_do_not_grow_with_the_restarts_and_go_with_the_mark(play: Play):
    async def story(stage: ControllerStage):
        await tries((await waiting_claim(stage))[0], NotAsked("away"))
        for _ in range(MOST + 1):
            await tries(await restarted(stage), NotAsked("away"))
        assert len((await now(stage)).metadata.annotations[ASKED_BY].split()) == MOST
        await (await restarted(stage)).reconcile(CLAIM)
        assert {(await only_volume(stage)).name} == stage.array.disks
        left = (await now(stage)).metadata
        assert (ASKED_BY in left.annotations, BEGUN in left.finalizers) == (False, False)

    play(story)


async def emptying(stage: ControllerStage, successor: Any) -> asyncio.Task[None]:
    """The successor is in the middle of it."""
    begun = asyncio.Event()

    async def slowly(disk: str) -> None:
        begun.set()
        await asyncio.sleep(10.0)

    stage.array.recycle = slowly  # type: ignore[method-assign]
    task = asyncio.create_task(successor.reconcile(VOLUME))
    await begun.wait()
    return task


async def is_offered(stage: ControllerStage) -> bool:
    reference = (await stage.api.get(PersistentVolume, "pv")).spec.claim_ref
    return reference is None or not reference.uid


def test_a_volume_is_not_offered_by_a_former_leader_while_its_successor_empties_it(play: Play):
    """The next claim would have it, and what that has written would be removed."""

    async def story(stage: ControllerStage):
        former = await released(stage, policy="Recycle")
        on_its_way = stage.wire.hold(OFFERED)
        offering = asyncio.create_task(former.reconcile(VOLUME))
        await on_its_way.arrived.wait()
        successor = stage.make(type(former), plugins=stage.plugins())
        await stage.fill(successor, PersistentVolume)
        empties = await emptying(stage, successor)
        on_its_way.release()
        with pytest.raises(Conflict):
            await offering
        assert not await is_offered(stage)
        await empties
        assert await is_offered(stage)
        assert RECYCLING not in (await stage.api.get(PersistentVolume, "pv")).metadata.annotations

    play(story)


def test_an_offer_of_its_own_that_comes_late_is_refused_while_the_volume_is_emptied_again(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage, policy="Recycle")
        late = stage.wire.late(OFFERED)
        with pytest.raises(Unreachable):
            await controller.reconcile(VOLUME)
        empties = await emptying(stage, controller)
        await late.deliver()
        assert not await is_offered(stage)
        await empties
        assert await is_offered(stage)

    play(story)


def test_a_volume_that_cannot_be_emptied_is_written_once_in_a_process(play: Play):
    """Each write would end the backoff."""

    async def story(stage: ControllerStage):
        controller = await released(stage, policy="Recycle")

        async def fails(disk: str) -> None:
            raise OutcomeUnknown("lost")

        stage.array.recycle = fails  # type: ignore[method-assign]
        for _ in range(3):
            with pytest.raises(OutcomeUnknown):
                await controller.reconcile(VOLUME)
        assert stage.wire.sent.count("PATCH /api/v1/persistentvolumes/pv") == 1

    play(story)

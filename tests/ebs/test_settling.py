"""When descriptions can be believed."""

from __future__ import annotations

import asyncio

import pytest
from cloud_api import create, delete, publish, unpublish, world

from mooring.ebs.ec2.settling import LATE_S, Settling


def test_nothing_is_proven_within_the_lag_of_the_start(run) -> None:
    async def story() -> None:
        settling = Settling(5)
        assert not settling.proves(4.9, "attach vol-1")
        assert settling.proves(5.0, "attach vol-1")
        assert await settling.settle()
        assert asyncio.get_running_loop().time() == 5
        assert not await settling.settle()

    run(story())


def test_after_the_lag_of_the_last_change_all_changes_show(run) -> None:
    async def story() -> None:
        settling = Settling(5)
        await asyncio.sleep(100)
        settling.note("attach vol-1")
        await asyncio.sleep(2)
        settling.note("detach vol-2")
        assert await settling.settle_all()
        assert asyncio.get_running_loop().time() == 107
        assert not await settling.settle_all()

    run(story())


def test_what_was_asked_for_too_early_proves_nothing_however_late_it_is_answered(run) -> None:
    async def story() -> None:
        settling = Settling(5)
        await asyncio.sleep(100)
        settling.note("detach vol-1")
        await asyncio.sleep(14)
        settling.note("attach vol-2")
        assert not settling.proves(104.9, "detach vol-1")
        assert settling.proves(105.0, "detach vol-1")

    run(story())


def test_what_was_asked_for_too_early_after_a_change_proves_nothing_of_it(run) -> None:
    async def story() -> None:
        settling = Settling(5)
        await asyncio.sleep(100)
        settling.note("attach vol-1")
        assert settling.is_recent("attach vol-1")
        assert not settling.proves(104.9, "attach vol-1", "detach vol-1")
        assert settling.proves(105, "attach vol-1")
        assert settling.proves(100, "detach vol-1", "attach vol-2")
        await settling.settle("attach vol-1")
        assert asyncio.get_running_loop().time() == 105
        assert not settling.is_recent("attach vol-1")

    run(story())


def test_old_notes_are_forgotten_and_repeated_ones_are_not(run) -> None:
    async def story() -> None:
        settling = Settling(5)
        settling.note("a")
        settling.note("b")
        await asyncio.sleep(LATE_S)
        settling.note("a")
        await asyncio.sleep(6)
        settling.note("c")
        assert not settling.is_recent("b")
        assert len(settling._changed) == 2

    run(story())


def test_what_is_answered_later_than_notes_are_kept_is_no_proof_of_what_is_forgotten(run) -> None:
    async def story() -> None:
        settling = Settling(5)
        await asyncio.sleep(100)
        settling.note("detach vol-1")
        await asyncio.sleep(LATE_S + 6)
        settling.note("attach vol-2")
        assert not settling.proves(104.9, "detach vol-1")
        assert settling.proves(105.0, "detach vol-1")

    run(story())


@pytest.mark.parametrize("settle_s", [0.0, 30.0])
def test_after_a_start_the_settle_time_is_what_a_new_volume_waits_for(run, settle_s: float) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client(settle_time=settle_s)
            began = asyncio.get_running_loop().time()
            await create(client)
            assert settle_s <= asyncio.get_running_loop().time() - began < settle_s + 10

    run(story())


def test_without_a_settle_time_a_volume_goes_through_its_life_at_an_endpoint_that_shows_what_is(run) -> None:
    async def story() -> None:
        async with world() as w:
            client = w.client(settle_time=0)
            for _ in range(2):
                volume = (await create(client)).volume_id
                for node in w.nodes:
                    device = await publish(client, volume, node)
                    assert w.attached(volume) == [(node, device, "attached")]
                    await unpublish(client, volume, node)
                await delete(client, volume)
                assert w.named("pvc-1") == []

    run(story())

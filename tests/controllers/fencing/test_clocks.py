"""What a fence waits for comes in its time, also if the controller's clock is set meanwhile."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from played_mechanism import Manner

from mooring.fence.interface import Scope

TIMES = pytest.mark.parametrize("hours", [-1, 0, 1])


def set_clock(stage: Any, hours: int) -> None:
    """From now on it is wrong."""
    stage.hours = hours


async def lost(stage: Any, manner: Manner) -> None:
    """Node a is lost, and its mechanism behaves like this. The clock may be set."""
    right, stage.hours = stage.now, 0
    stage.now = lambda: right() + timedelta(hours=stage.hours)
    for name in ("a", "b"):
        await stage.node(name)
    await stage.attachment(await stage.report("a"))
    await stage.mechanism(timeoutSeconds=5)
    await stage.policy("bmc")
    stage.bmc.manner = manner
    await stage.silent("a")


@TIMES
def test_the_ladder_is_begun_again_after_its_pause(fencing: Any, hours: int):
    async def story(stage: Any):
        await lost(stage, Manner.REFUSES)
        async with stage.running():
            await stage.until_phase("a", "AwaitingPerson")
            set_clock(stage, hours)
            stage.bmc.manner = Manner.HONEST
            await asyncio.sleep(50)
            assert not stage.machines.off
            await stage.until_phase("a", "Fenced", seconds=30)

    fencing(story)


@TIMES
def test_a_fence_in_force_is_looked_at_again(fencing: Any, hours: int):
    async def story(stage: Any):
        stage.bmc.scope = Scope.STORAGE
        await lost(stage, Manner.HONEST)
        async with stage.running():
            await stage.until_phase("a", "Fenced")
            set_clock(stage, hours)
            stage.machines.off.clear()  # another client lets the node in
            await asyncio.sleep(90)
            assert stage.machines.off == {"a"}

    fencing(story)


@TIMES
def test_what_came_of_an_order_that_is_given_up_is_asked_for_some_minutes(fencing: Any, hours: int):
    """If it were given up earlier, the storage would shut the node out for good, and no record would say so;
    as long as it is asked, the fence is not over."""

    async def story(stage: Any):
        stage.bmc.scope = Scope.STORAGE
        await lost(stage, Manner.LOST_ANSWER)
        async with stage.running():
            await stage.until_phase("a", "AwaitingPerson")
            stage.bmc.manner = Manner.SILENT
            await stage.report("a")
            set_clock(stage, hours)
            await asyncio.sleep(200)
            assert stage.machines.off == {"a"}
            assert (await stage.fence("a")).status.phase != "Cancelled"
            await stage.until_phase("a", "Cancelled", seconds=150)

    fencing(story)

"""Until when a fence waits, as far as that is known."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from played_mechanism import Manner

from mooring.controllers.fencing.waits import Wait, is_as_written, wait_of
from mooring.kube.objects import Pod
from mooring.kube.objects.fencing import FenceAttempt, FencePolicy, NodeFence, NodeFenceStatus

AT, LATER = "2030-01-01T00:00:00Z", "2030-01-01T00:01:05Z"
NOW = datetime(2030, 1, 1, 0, 0, 30, tzinfo=UTC)


def fence(phase: str, **status: Any) -> NodeFence:
    return NodeFence(status=NodeFenceStatus(phase=phase, **status))


@pytest.mark.parametrize(
    ("found", "words", "left"),
    [
        (fence("Pending", waits_until=LATER), "looked at again", 35),
        (fence("AwaitingPerson", round_ended_at=AT), "the ladder is begun again", 30),
        (fence("AwaitingPerson", round_ended_at=AT, round=1), "the ladder is begun again", 90),
        (
            fence("Fencing", attempts=(FenceAttempt(mechanism="bmc", ordered_at=AT, waits_until=LATER),)),
            "bmc is waited for no longer",
            35,
        ),
        (fence("Fenced", verified_at=AT), "whether it holds", 30),
    ],
)
def test_each_wait_that_has_an_end_says_when(found: NodeFence, words: str, left: int):
    wait = wait_of(found)
    assert wait is not None
    assert words in wait.what
    assert wait.left(NOW) == left


@pytest.mark.parametrize(
    "found",
    [
        fence("Pending"),
        fence("AwaitingPerson"),
        fence("Fencing", attempts=(FenceAttempt(waits_until=LATER, outcome="Unknown"),)),
        fence("Unfenced", verified_at=AT, waits_until=LATER),
        fence(""),
    ],
)
def test_what_only_a_change_ends_has_no_end(found: NodeFence):
    assert wait_of(found) is None


def test_what_is_over_has_nothing_left():
    assert Wait("x", datetime(2029, 1, 1, tzinfo=UTC)).left(NOW) == 0


def test_a_time_that_moves_a_little_is_not_written_again():
    assert is_as_written("", None)
    assert not is_as_written(AT, None)
    assert not is_as_written("", NOW)
    assert is_as_written("2030-01-01T00:00:28Z", NOW)
    assert not is_as_written(AT, NOW)


def test_a_fence_says_how_long_patience_lasts_and_then_no_more(fencing: Any):
    async def story(stage: Any):
        await stage.node("a")
        await stage.node("b")
        await stage.mechanism()
        await stage.policy("bmc", storm={"nodes": 1, "cooldownSeconds": 30})
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            held = await stage.until_phase("a", "Pending")
            assert held.status.waits_until == "", "a storm ends by a change"
            await stage.api.patch(FencePolicy, "policy", STORM_OVER)

            async def told() -> Any:
                fence = await stage.fence("a")
                return fence if fence.status.waits_until else None

            held = await stage.until(told, 60)
            assert held.status.reason == "StormCooldown"
            fence = await stage.until_phase("a", "Fenced")
            assert fence.status.waits_until == ""
            assert fence.status.attempts[-1].waits_until

    fencing(story)


STORM_OVER = {"spec": {"storm": {"nodes": 2, "cooldownSeconds": 30}}}


@pytest.mark.parametrize("until", [{}, {"effect": "NoExecute", "tolerationSeconds": 2**63 - 1}])
def test_a_wait_without_an_end_has_no_time(fencing: Any, until: dict[str, Any]):
    async def story(stage: Any):
        await stage.node("a")
        await stage.node("b")
        await stage.mechanism()
        worth = {"forgiveness": "Honour", "onlyExclusive": False}
        await stage.policy("bmc", worth=worth)
        tolerates = [{"key": "node.kubernetes.io/unreachable", "operator": "Exists", **until}]
        spec = {"nodeName": "a", "tolerations": tolerates, "containers": [{"name": "c", "image": "i"}]}
        await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            held = await stage.until_phase("a", "Pending")
            await asyncio.sleep(60)
            held = await stage.fence("a")
            assert (held.status.reason, held.status.waits_until) == ("Tolerated", "")

    fencing(story)


def test_while_a_mechanism_is_waited_for_it_is_said_how_long(fencing: Any):
    async def story(stage: Any):
        await stage.node("a")
        await stage.node("b")
        await stage.mechanism(timeoutSeconds=100)
        await stage.policy("bmc")
        stage.bmc.manner = Manner.SILENT
        async with stage.running():
            await asyncio.sleep(5)
            await stage.silent("a")
            fence = await stage.until_phase("a", "Fencing")
            wait = wait_of(fence)
            assert wait is not None
            assert 90 < wait.left(stage.now()) <= 105
            fence = await stage.until_phase("a", "AwaitingPerson", 400)
            assert "ladder is begun again" in (wait_of(fence) or Wait("", NOW)).what

    fencing(story)

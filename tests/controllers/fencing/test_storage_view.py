"""What a storage counts of a node is a detector: it may start a fence, and keep one from being begun."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from storage_stage import PlayedSessions, StorageStage

from mooring.controllers.fencing.detection import FRESH_S, SEEN_BY_STORAGE, Verdict, held_by_storage
from mooring.controllers.fencing.storage_view import QUIET_S, Seen, signal_of, taken
from mooring.fence.interface import Scope, Sessions, State
from mooring.kube.client import Client
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import Detector, FencePolicy, FencePolicySpec, NodeFence, Quorum
from mooring.simulation.parts.faulty_transport import role

DETECTOR = Detector(type="Storage", mechanism="bmc")
BOTH = [{"type": "Ready"}, {"type": "Storage", "mechanism": "bmc"}]


def seen(*looks: tuple[float, Mapping[str, int] | None]) -> Seen:
    found: Seen | None = None
    for at, moved in looks:
        state = State.UNKNOWN if moved is None else State.OPEN
        found = taken(found, Sessions(state, "looked", moved), at)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("looks", "now", "verdict"),
    [
        ([(0, {"a": 1})], 5, Verdict.UNKNOWN),
        ([(0, {"a": 1}), (5, {"a": 2})], 5, Verdict.HEALTHY),
        ([(0, {"a": 1}), (5, {"a": 1})], QUIET_S, Verdict.LOST),
        ([(0, {"a": 1}), (5, {"a": 1, "b": 0})], 5, Verdict.HEALTHY),
        ([(0, {"a": 1}), (5, {})], QUIET_S, Verdict.LOST),
        ([(0, {"a": 9}), (5, {"a": 1})], QUIET_S, Verdict.UNKNOWN),
        ([(0, {"a": 1}), (5, {"a": 2})], 5 + FRESH_S, Verdict.LOST),
        ([(0, {"a": 1}), (5, None)], 2 * QUIET_S, Verdict.UNKNOWN),
        ([(0, {"a": 1}), (5, None), (10, {"a": 1})], 10, Verdict.UNKNOWN),
        ([(0, None), (5, None)], 60, Verdict.UNKNOWN),
    ],
    ids=[
        "looked once",
        "it has written",
        "nothing has moved",
        "it has logged in",
        "its session is gone",
        "the storage has begun to count anew",
        "long ago",
        "no answer",
        "no answer in between",
        "never an answer",
    ],
)
def test_two_looks_are_compared(looks: list[Any], now: float, verdict: Verdict):
    assert signal_of(DETECTOR, seen(*looks), now).verdict is verdict


LOOKS = st.lists(
    st.tuples(st.floats(1, 20), st.none() | st.dictionaries(st.sampled_from("ab"), st.integers(0, 3))),
    min_size=1,
)


@given(LOOKS, st.floats(0, 60))
def test_a_verdict_rests_on_answers(looks: list[tuple[float, Mapping[str, int] | None]], later: float):
    """HEALTHY: something has grown between two answers in a row, at most FRESH_S ago. LOST: nothing has, and
    each look since was answered."""
    at, moments = 0.0, list[tuple[float, Mapping[str, int] | None]]()
    for gap, moved in looks:
        at += gap
        moments.append((at, moved))
    now = at + later
    grew = [
        two
        for (_, before), (two, after) in itertools.pairwise(moments)
        if before is not None and after is not None and any(after[k] > before.get(k, -1) for k in after)
    ]
    signal = signal_of(DETECTOR, seen(*moments), now)
    if signal.verdict is Verdict.HEALTHY:
        assert grew
        assert now - grew[-1] < FRESH_S
    if signal.verdict is Verdict.LOST:
        since = now - signal.lasting + 1e-6
        assert all(moved is not None for at, moved in moments if at >= since)
        assert not [each for each in grew if each > since]
        assert signal.lasting >= QUIET_S


def test_where_no_detector_has_a_veto_the_storage_has_none():
    signal = signal_of(DETECTOR, seen((0, {"a": 1}), (5, {"a": 2})), 5)
    for veto in (True, False):
        policy = FencePolicy(spec=FencePolicySpec(quorum=Quorum(veto=veto)))
        held = held_by_storage("a", policy, [signal])
        assert (held is not None) == veto
        assert held is None or (held.reason.code, held.after) == (SEEN_BY_STORAGE, FRESH_S)


# --- the controller


async def lost(stage: StorageStage, **policy: Any) -> PlayedSessions:
    """Node a has a volume, and will not answer; its storage counts."""
    stage.bmc = device = PlayedSessions(stage.machines, scope=Scope.STORAGE)
    device.counts = lambda: 0
    node = await stage.lost_node()
    await stage.api.patch(FencePolicy, "policy", {"spec": {"detectors": BOTH, **policy}})
    await stage.lun(node, "shut")
    return device


def writing() -> Any:
    """A count that grows with each look."""
    count = iter(range(1, 10**6))
    return lambda: next(count)


async def fence_of(stage: StorageStage) -> NodeFence:
    found = await stage.until(lambda: stage.fence("a"))
    assert isinstance(found, NodeFence)
    return found


def test_a_node_that_writes_still_is_not_fenced_until_it_does_not(storage: Any):
    async def story(stage: StorageStage) -> None:
        device = await lost(stage)
        device.counts = writing()
        async with stage.running(Client(role(stage.server, "fencing"))):
            await asyncio.sleep(5)
            await stage.silent("a")
            await asyncio.sleep(200)
            assert (await fence_of(stage)).status.reason == SEEN_BY_STORAGE
            assert not stage.machines.off
            device.counts = lambda: 10**7
            await stage.until_released("shut")

    storage(story)


def test_a_person_may_fence_it_nevertheless(storage: Any):
    async def story(stage: StorageStage) -> None:
        device = await lost(stage)
        device.counts = writing()
        async with stage.running(Client(role(stage.server, "fencing"))):
            await asyncio.sleep(5)
            await stage.silent("a")
            await asyncio.sleep(60)
            fence = await fence_of(stage)
            await stage.api.patch(NodeFence, fence.name, {"spec": {"requestedBy": "me", "override": True}})
            await stage.until_phase("a", "Fenced")

    storage(story)


def test_a_fence_that_has_begun_goes_on_though_the_node_writes(storage: Any):
    async def story(stage: StorageStage) -> None:
        device = await lost(stage)
        device.takes_s = 20.0
        async with stage.running(Client(role(stage.server, "fencing"))):
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_phase("a", "Fencing")
            device.counts = writing()
            await stage.until_phase("a", "Fenced")

    storage(story)


def test_with_a_quorum_of_two_a_node_is_lost_when_its_storage_says_so_too(storage: Any):
    async def story(stage: StorageStage) -> None:
        device = await lost(stage, quorum={"required": 2, "veto": False})
        device.counts = writing()
        async with stage.running(Client(role(stage.server, "fencing"))):
            await asyncio.sleep(5)
            await stage.silent("a")
            await asyncio.sleep(200)
            assert await stage.fence("a") is None
            device.counts = lambda: 10**7
            await stage.until_phase("a", "Fenced")

    storage(story)


def test_a_storage_that_does_not_answer_neither_starts_nor_keeps_a_fence(storage: Any):
    async def story(stage: StorageStage) -> None:
        device = await lost(stage)
        device.counts, device.mute = lambda: None, True
        async with stage.running(Client(role(stage.server, "fencing"))):
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.until_phase("a", "Fenced")

    storage(story)


def test_a_quiet_storage_ends_no_storm(storage: Any):
    async def story(stage: StorageStage) -> None:
        await lost(stage)
        async with stage.running(Client(role(stage.server, "fencing"))):
            await asyncio.sleep(5)
            await stage.silent("a")
            await stage.silent("b")
            await asyncio.sleep(100)
            assert (await fence_of(stage)).status.reason == "Storm"

    storage(story)


def test_a_node_that_answers_is_not_asked_about(storage: Any):
    async def story(stage: StorageStage) -> None:
        device = await lost(stage)
        asked = [0]

        def counted() -> int:
            asked[0] += 1
            return 0

        device.counts = counted
        async with stage.running(Client(role(stage.server, "fencing"))):
            await asyncio.sleep(100)
        assert asked == [0]

    storage(story)


def test_what_was_counted_of_a_node_goes_with_it(storage: Any):
    """Nodes of a cloud come and go for months, each with a name of its own."""

    async def story(stage: StorageStage) -> None:
        device = await lost(stage)
        device.counts = writing()
        async with stage.running(Client(role(stage.server, "fencing"))) as controller:
            await asyncio.sleep(5)
            await stage.silent("a")
            await asyncio.sleep(60)
            seen: Any = vars(controller)["_observer"]
            assert vars(seen)["_seen"]
            node = await stage.api.get(Node, "a")
            await stage.api.delete(Node, "a")
            await stage.api.revise(node, {"metadata": {"finalizers": None}}, any_version=True)
            await asyncio.sleep(5)
            assert not vars(seen)["_seen"]

    storage(story)

"""Which pods are ended for what they have put into their volumes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mooring.kube.objects import ObjectMeta, Pod
from mooring.kube.reason import Reason
from mooring.node.volumes import eviction
from mooring.node.volumes.decide import Presence
from mooring.node.volumes.eviction import Evictions
from mooring.node.volumes.manager import VolumeManager
from mooring.node.volumes.volume import Want
from mooring.volumes.spec import VolumeSpec

POD = Pod(metadata=ObjectMeta(name="a", namespace="default", uid="a"))


def looked(monkeypatch: pytest.MonkeyPatch, *, ends: str) -> tuple[list[str], Evictions]:
    """Which pods are evicted in some looks, of one that has put too much into its volume, and begins to end
    before the first of them, or while it is measured."""
    monkeypatch.setattr(eviction, "PERIOD_S", 0.0)
    want = Want(POD, ("cache",), cast(VolumeSpec, None), 0.0)

    async def limit_exceeded(volume: Any, want: Want) -> str:
        await asyncio.sleep(0)
        want.starting = ends != "while it is measured"
        return "too much"

    record = SimpleNamespace(has_device=False, unique_name="u")
    volume: Any = SimpleNamespace(record=record, wants={"a": want}, pods={"a": Presence.PRESENT})
    operations: Any = SimpleNamespace(limit_exceeded=limit_exceeded)
    evicted: list[str] = []
    evictions = Evictions(operations, {"u": volume}, lambda pod, why: evicted.append(pod.name))
    want.starting = ends != "before"

    async def story() -> None:
        evictions.look_at(volume)
        task = asyncio.create_task(evictions.run())
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(story())
    return evicted, evictions


def test_a_pod_that_has_put_too_much_into_a_volume_is_evicted_once(monkeypatch: pytest.MonkeyPatch):
    evicted, evictions = looked(monkeypatch, ends="never")
    assert evicted == ["a"]
    assert evictions.reason("a") is not None


@pytest.mark.parametrize("ends", ["before", "while it is measured"])
def test_a_pod_that_ends_anyway_is_not_evicted_and_nothing_is_remembered_of_it(
    monkeypatch: pytest.MonkeyPatch, ends: str
):
    """Found by the simulation (2000011 of the swarm, L18): it may be gone from the API already."""
    evicted, evictions = looked(monkeypatch, ends=ends)
    assert evicted == []
    assert evictions.reason("a") is None


@pytest.mark.parametrize(
    "successor", [None, Pod(metadata=ObjectMeta(name="a", namespace="default", uid="b"))]
)
def test_nothing_is_remembered_of_a_pod_that_is_gone_or_has_another_in_its_place(successor: Pod | None):
    """Found by the simulation (2000011 of the swarm, L18): a watch that was broken tells of both at once."""
    evictions = Evictions(cast(Any, None), {}, lambda pod, why: None)
    evictions._reasons["a"] = Reason("Evicted", "too much")  # pyright: ignore[reportPrivateUsage]
    ends: list[str] = []
    manager: Any = SimpleNamespace(
        _evictions=evictions, terminating=ends.append, _known=SimpleNamespace(of=lambda uid: ())
    )
    VolumeManager.pod_updated(manager, POD, POD)
    assert evictions.reason("a") is not None
    VolumeManager.pod_updated(manager, POD, None)
    assert evictions.reason("a") is None
    assert ends == ["a"]

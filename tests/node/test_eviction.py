"""Which pods are ended for what they have put into their volumes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
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
from mooring.volumes.errors import VolumeError
from mooring.volumes.spec import VolumeSpec

Run = Callable[[Coroutine[Any, Any, None]], None]

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


# --- the looks, in virtual time


class Measured:
    """What is in the volumes of a node is measured; `full`: why a pod of these volumes must go, or what
    measuring raises."""

    def __init__(self, **full: str | Exception) -> None:
        self.full = full
        self.volumes: dict[str, Any] = {}
        self.looks: list[tuple[float, str]] = []
        self.evicted: list[tuple[Pod, Reason]] = []
        operations: Any = SimpleNamespace(limit_exceeded=self._limit_exceeded)
        self.evictions = Evictions(operations, self.volumes, lambda pod, why: self.evicted.append((pod, why)))

    async def _limit_exceeded(self, volume: Any, want: Want) -> str | None:
        self.looks.append((asyncio.get_running_loop().time(), volume.record.unique_name))
        why = self.full.get(volume.record.unique_name)
        if isinstance(why, Exception):
            raise why
        return why

    def add(self, name: str, presence: Presence = Presence.PRESENT, *, has_device: bool = False) -> Pod:
        """A pod has a volume, both of this name."""
        pod = Pod(metadata=ObjectMeta(name=name, uid=name))
        record = SimpleNamespace(has_device=has_device, unique_name=name)
        wants = {name: Want(pod, (name,), cast(VolumeSpec, None), 0.0)}
        self.volumes[name] = SimpleNamespace(record=record, wants=wants, pods={name: presence})
        self.evictions.look_at(self.volumes[name])
        return pod

    async def after(self, seconds: float) -> None:
        """So long they are looked at, from now on."""
        looks = asyncio.create_task(self.evictions.run())
        await asyncio.sleep(seconds)
        assert not looks.done()
        looks.cancel()


def test_what_pods_have_in_volumes_without_a_device_is_looked_at_every_ten_seconds(run: Run):
    async def story() -> None:
        node = Measured()
        node.add("disk", has_device=True)
        asyncio.get_running_loop().call_later(5, node.add, "waits", Presence.UNCERTAIN)
        asyncio.get_running_loop().call_later(5, node.add, "cache")
        await node.after(40)
        assert node.looks == [(15.0, "cache"), (25.0, "cache"), (35.0, "cache")]
        assert node.evicted == []

    run(story())


def test_why_a_pod_must_end_is_said_with_the_pod_and_kept_until_it_is_gone(run: Run):
    async def story() -> None:
        node = Measured(cache="too much")
        pod = node.add("cache")
        await node.after(15)
        assert node.evicted == [(pod, Reason("Evicted", "too much"))]
        assert node.evictions.reason("cache") == Reason("Evicted", "too much")
        node.evictions.forget("cache")
        assert node.evictions.reason("cache") is None

    run(story())


@pytest.mark.parametrize("error", [OSError("stale handle"), VolumeError("the driver is away")])
def test_a_volume_that_cannot_be_measured_ends_no_pod_and_keeps_no_other_from_being_measured(
    run: Run, error: Exception
):
    async def story() -> None:
        node = Measured(broken=error, cache="too much")
        node.add("broken")
        node.add("cache")
        await node.after(25)
        assert [pod.name for pod, _ in node.evicted] == ["cache"]
        assert [name for _, name in node.looks].count("broken") == 2

    run(story())


def test_an_error_in_measuring_that_is_not_the_volumes_is_not_passed_over(run: Run):
    async def story() -> None:
        node = Measured(cache=RuntimeError("a bug"))
        node.add("cache")
        with pytest.raises(RuntimeError, match="a bug"):
            await asyncio.wait_for(node.evictions.run(), 60)

    run(story())


class Counted(dict[str, Any]):
    """Counts how often all volumes are gone through."""

    times = 0

    def values(self) -> Any:
        self.times += 1
        return super().values()


def test_an_agent_without_such_volumes_goes_through_none(run: Run):
    """Nodes with many disks, and nothing else, are not woken up for nothing."""

    async def story() -> None:
        volumes = Counted()
        evictions = Evictions(cast(Any, None), volumes, lambda pod, why: None)
        disk: Any = SimpleNamespace(record=SimpleNamespace(has_device=True))
        cache: Any = SimpleNamespace(record=SimpleNamespace(has_device=False))
        looks = asyncio.create_task(evictions.run())
        evictions.look_at(disk)
        await asyncio.sleep(100)
        assert volumes.times == 0
        evictions.look_at(cache)
        await asyncio.sleep(100)
        assert volumes.times == 1, "it has gone meanwhile"
        looks.cancel()

    run(story())

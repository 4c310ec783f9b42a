"""Plays all cases of upstream's tables: one function for each package."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from tests.conftest import run_in_virtual_time, virtual_now
from tests.upstream import (
    cases,
    matching,
    node_health,
    persistent_volumes,
    pods_gc,
    protection,
    resizing,
    scheduler,
    scheduler_binding,
    scheduler_wakes,
    stateful_sets,
    taints,
)
from tests.upstream.differences import known

T = TypeVar("T")


def persistentvolume() -> dict[str, list[str]]:
    """Each case of the persistent volume controller → its differences."""
    found = dict(matching.outcomes())
    left_out = known("persistentvolume")
    for case in cases.cases():
        if not left_out.is_left_out(case.key):
            found[case.key] = run_in_virtual_time(_awake(persistent_volumes.play(case, virtual_now)))
    return found


def volumezone() -> dict[str, list[str]]:
    """Each case of the plugin VolumeZone → its differences."""
    return scheduler.played(scheduler.zones) | _woken("volumezone")


def volumerestrictions() -> dict[str, list[str]]:
    """Each case of the plugin VolumeRestrictions → its differences."""
    return scheduler.played(scheduler.restrictions) | _woken("volumerestrictions")


def nodevolumelimits() -> dict[str, list[str]]:
    """Each case of the plugin NodeVolumeLimits → its differences."""
    return scheduler.played(scheduler.limits) | _woken("nodevolumelimits")


def volumebinding() -> dict[str, list[str]]:
    """Each case of the plugin VolumeBinding → its differences."""
    return scheduler_binding.played() | _woken("volumebinding")


def podgc() -> dict[str, list[str]]:
    """Each case of the pod garbage collector → its differences."""
    return run_in_virtual_time(_awake(pods_gc.cases(virtual_now)))


def pvcprotection() -> dict[str, list[str]]:
    """Each case of the protection of claims → its differences."""
    return run_in_virtual_time(_awake(protection.claims(virtual_now)))


def pvprotection() -> dict[str, list[str]]:
    """Each case of the protection of volumes → its differences."""
    return run_in_virtual_time(_awake(protection.volumes(virtual_now)))


def statefulset() -> dict[str, list[str]]:
    """Each case of the StatefulSet controller → its differences."""
    return run_in_virtual_time(_awake(stateful_sets.cases(virtual_now)))


def tainteviction() -> dict[str, list[str]]:
    """Each case of the taint eviction controller → its differences."""
    return run_in_virtual_time(_awake(taints.cases(virtual_now)))


def nodelifecycle() -> dict[str, list[str]]:
    """Each case of the node life-cycle controller → its differences."""
    return run_in_virtual_time(_awake(node_health.cases(virtual_now)))


def expand() -> dict[str, list[str]]:
    """Each case of the expand controller → its differences."""
    return run_in_virtual_time(_awake(resizing.cases(virtual_now)))


async def _awake(story: Coroutine[Any, Any, T]) -> T:
    asleep = asyncio.create_task(asyncio.sleep(1e7))  # a story that waits for nothing ends in an error
    try:
        return await story
    finally:
        asleep.cancel()


def _woken(package: str) -> dict[str, list[str]]:
    return scheduler_wakes.played(scheduler_wakes.wakes(package))


PACKAGES: dict[str, Callable[[], dict[str, list[str]]]] = {
    each.__name__: each
    for each in (
        persistentvolume,
        volumezone,
        volumerestrictions,
        nodevolumelimits,
        volumebinding,
        podgc,
        pvcprotection,
        pvprotection,
        statefulset,
        tainteviction,
        nodelifecycle,
        expand,
    )
}

"""Plays all cases of upstream's tables: one function for each package."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.conftest import run_in_virtual_time, virtual_now
from tests.upstream import cases, matching, persistent_volumes, scheduler, scheduler_binding, scheduler_wakes
from tests.upstream.differences import known


def persistentvolume() -> dict[str, list[str]]:
    """Each case of the persistent volume controller → its differences."""
    found = dict(matching.outcomes())
    left_out = known("persistentvolume")
    for case in cases.cases():
        if not left_out.is_left_out(case.key):
            found[case.key] = run_in_virtual_time(_played(case))
    return found


async def _played(case: cases.Case) -> list[str]:
    asleep = asyncio.create_task(asyncio.sleep(1e6))  # a story that waits for nothing ends in an error
    try:
        return await persistent_volumes.play(case, virtual_now)
    finally:
        asleep.cancel()


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


def _woken(package: str) -> dict[str, list[str]]:
    return scheduler_wakes.played(scheduler_wakes.wakes(package))


PACKAGES: dict[str, Callable[[], dict[str, list[str]]]] = {
    each.__name__: each
    for each in (persistentvolume, volumezone, volumerestrictions, nodevolumelimits, volumebinding)
}

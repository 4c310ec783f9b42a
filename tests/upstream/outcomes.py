"""Plays all cases of upstream's tables: one function for each package."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.conftest import run_in_virtual_time, virtual_now
from tests.upstream import cases, matching, persistent_volumes
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


PACKAGES: dict[str, Callable[[], dict[str, list[str]]]] = {"persistentvolume": persistentvolume}

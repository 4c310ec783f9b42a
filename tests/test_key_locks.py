"""A lock for each key, and none for those of long ago."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mooring.key_locks import KeyLocks


def test_one_task_at_a_time_has_a_key_and_nothing_is_left_of_it(run: Callable[[Any], Any]):
    async def story() -> None:
        locks, inside, most = KeyLocks(), 0, 0

        async def operation(key: str) -> None:
            nonlocal inside, most
            async with locks[key]:
                inside, most = inside + 1, max(most, inside + 1)
                await asyncio.sleep(1)
                inside -= 1

        await asyncio.gather(*(operation("a") for _ in range(3)))
        assert most == 1
        await asyncio.gather(operation("a"), operation("b"))
        assert (most, len(locks)) == (2, 0)

    run(story())

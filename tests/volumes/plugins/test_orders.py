"""Orders to the kernel that do not end keep nobody."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mooring.volumes.errors import OutcomeUnknown
from mooring.volumes.plugins.orders import ordered


async def test_an_order_returns_what_it_returns_and_raises_what_it_raises():
    assert await ordered("count", lambda: 3, 5) == 3

    def broken() -> None:
        raise OSError(5, "broken")

    for _ in range(2):
        with pytest.raises(OSError, match="broken"):
            await ordered("break", broken, 5)


async def test_an_order_that_has_not_ended_is_joined_and_not_given_again():
    held, calls = threading.Event(), []

    def hang() -> int:
        calls.append(1)
        held.wait()
        return len(calls)

    for _ in range(2):
        with pytest.raises(OutcomeUnknown, match="hang on"):
            await ordered("hang on", hang, 0.01)
    joined = asyncio.create_task(ordered("hang on", hang, 5))
    await asyncio.sleep(0)
    held.set()
    assert await joined == 1
    assert await ordered("hang on", hang, 5) == 2


async def test_an_order_whose_caller_is_cancelled_goes_on():
    held, ended = threading.Event(), threading.Event()

    def hang() -> None:
        held.wait()
        ended.set()

    asking = asyncio.create_task(ordered("be cancelled", hang, 5))
    await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    held.set()
    await ordered("be cancelled", hang, 5)
    assert ended.is_set()

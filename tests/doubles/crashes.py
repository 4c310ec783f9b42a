"""Work that ends in the middle: its connection to the API server crashes under it, or its process dies at an
await."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any


async def crashed_under(wire: Any, work: Coroutine[Any, Any, object]) -> bool:
    """Does the work until the wire crashes, or it is done; whether it crashed. Then the wire is well
    again."""
    doing = asyncio.create_task(work)
    crash = asyncio.create_task(wire.crashed.wait())
    await asyncio.wait({doing, crash}, return_when=asyncio.FIRST_COMPLETED)
    crashed = wire.crashed.is_set()
    doing.cancel()
    crash.cancel()
    await asyncio.gather(doing, crash, return_exceptions=True)
    wire.crashed.clear()
    wire.spare()
    return crashed


@types.coroutine
def ended_at(method: Coroutine[Any, Any, Any], steps: int) -> Generator[Any, None, bool]:
    """The method, ended at its await number `steps` as with its process; what is under way in a thread or a
    tool comes to its end. False if the method had ended before."""
    try:
        for _ in range(steps):
            yield method.send(None)
        waiting = method.send(None)
    except StopIteration:
        return False
    try:
        yield waiting
        waiting = method.throw(asyncio.CancelledError())
        while True:
            yield waiting
            waiting = method.send(None)
    except (StopIteration, asyncio.CancelledError):
        return True

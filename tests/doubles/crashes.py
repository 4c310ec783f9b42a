"""Work whose connection to the API server crashes under it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def crashed_under(wire: Any, work: Coroutine[Any, Any, object]) -> bool:
    """Does the work until the wire crashes, or it is done; whether it crashed. Then the wire is well again."""
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

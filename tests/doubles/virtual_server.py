"""The embedded API server in memory, in virtual time: what controllers and clients are tested on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from random import Random
from typing import Any

from mooring.apiserver import Server

STUCK_S = 1e6


async def started(now: Callable[[], datetime]) -> Server:
    server = Server.in_memory(now=now, random=Random(1))
    await server.start()
    return server


async def not_stuck(story: Awaitable[Any]) -> Any:
    """Returns the story's result; fails if it took STUCK_S (eleven days) of virtual time."""
    guard = asyncio.create_task(asyncio.sleep(STUCK_S))
    found = await story
    assert not guard.done(), "the story waited in vain for something"
    return found

"""Several things at once, in the start and the end of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any


async def together(*doing: Awaitable[Any]) -> None:
    """Does all at once, and returns when each has ended, also if one fails or this is cancelled: what is
    started or taken down afterwards meets none that is still at it. Raises the first failure."""
    for result in await asyncio.gather(*doing, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result

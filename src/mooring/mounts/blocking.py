"""The one way to run blocking work beside the event loop: a capped pool of threads.

Guarantee: when `blocking` returns or raises, the function has ended, also if the task was
cancelled meanwhile. So a cancelled operation has no effect later, when another operation on
the same device may be in flight.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

THREADS = 32

_P = ParamSpec("_P")
_T = TypeVar("_T")
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="mooring-blocking")


async def blocking(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Runs `function` in a thread and returns what it returns. At most `THREADS` run at once, others wait."""
    future = asyncio.get_running_loop().run_in_executor(_pool, lambda: function(*args, **kwargs))
    return await finish(future)


async def finish(future: asyncio.Future[_T]) -> _T:
    """Awaits `future` to its end, however often this task is cancelled meanwhile; then the
    cancellation is raised."""
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        future.exception()  # the task was cancelled: asyncio must not log this error as "never retrieved"
        raise cancelled
    return future.result()

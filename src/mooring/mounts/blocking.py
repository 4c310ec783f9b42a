"""The one way to run blocking work beside the event loop: a capped pool of threads.

Guarantee: when `blocking` returns or raises, the function has ended, also if the task was
cancelled meanwhile (but see `apart`). So a cancelled operation has no effect later, when another operation on
the same device may be in flight.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Thread
from typing import ParamSpec, TypeVar, cast

THREADS = 32

_P = ParamSpec("_P")
_T = TypeVar("_T")
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="mooring-blocking")
_is_apart: ContextVar[bool] = ContextVar("apart", default=False)


@contextmanager
def apart() -> Generator[None]:
    """Within it a call has a thread of its own, which a task that is cancelled leaves behind, and which the
    end of the process does not wait for. For looking at what may never answer, as a file system whose server
    has gone; not for anything that has effects."""
    token = _is_apart.set(True)
    try:
        yield
    finally:
        _is_apart.reset(token)


async def blocking(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Runs `function` in a thread and returns what it returns. At most `THREADS` run at once, others wait;
    but see `apart`."""
    if _is_apart.get():
        return await _in_own_thread(lambda: function(*args, **kwargs))
    future = asyncio.get_running_loop().run_in_executor(_pool, lambda: function(*args, **kwargs))
    return await finish(future)


def _in_own_thread(function: Callable[[], _T]) -> asyncio.Future[_T]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def end(result: _T | None, error: BaseException | None) -> None:
        if future.done():
            return  # its task was cancelled
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast("_T", result))

    def run() -> None:
        result, problem = None, None
        try:
            result = function()
        except BaseException as error:
            problem = error
        with suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(end, result, problem)

    Thread(target=run, name="mooring-apart", daemon=True).start()
    return future


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

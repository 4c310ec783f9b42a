"""Waiting until something holds: on an event loop (in real or in virtual time), or in a thread.

A wait in vain fails with what was waited for, what was seen last, and what the caller has to add.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any


async def until(
    holds: Callable[[], Any],
    what: str = "",
    *,
    seconds: float = 60.0,
    every_s: float = 0.05,
    check: Callable[[], object] = lambda: None,
    state: Callable[[], Any] = lambda: "",
) -> Any:
    """Returns what `holds` (plain, or a coroutine function) gives, once that is true.

    `check` is called between two looks, and raises if waiting is in vain. `state` (likewise) tells of the
    scene when time is over. Raises AssertionError after so many seconds of the loop's time.
    """
    seen: Any = None
    try:
        async with asyncio.timeout(seconds) as patience:
            while not (seen := await _called(holds)):
                check()
                await asyncio.sleep(every_s)
    except TimeoutError:
        if not patience.expired():
            raise  # of what was called
        raise AssertionError(_in_vain(holds, what, seconds, seen, await _called(state))) from None
    return seen


def until_in_thread(
    holds: Callable[[], Any], what: str = "", *, seconds: float = 30.0, state: Callable[[], Any] = lambda: ""
) -> Any:
    """The same without an event loop, in real time."""
    pause, end = threading.Event(), time.monotonic() + seconds
    while not (seen := holds()):
        if time.monotonic() > end:
            raise AssertionError(_in_vain(holds, what, seconds, seen, state()))
        pause.wait(0.05)
    return seen


async def _called(function: Callable[[], Any]) -> Any:
    found = function()
    return await found if inspect.isawaitable(found) else found


def _in_vain(holds: Callable[[], Any], what: str, seconds: float, seen: Any, state: Any) -> str:
    lines = [f"not so after {seconds:g} s: {what or _source(holds)}", f"seen last: {seen!r}"]
    return "\n".join([*lines, str(state)] if state else lines)


def _source(holds: Callable[[], Any]) -> str:
    """The condition as it is written, as far as Python knows it."""
    try:
        return " ".join(inspect.getsource(holds).split())[:300]
    except (OSError, TypeError):
        return repr(holds)

"""Orders to the kernel that may wait for a disk which does not answer: a scan, a flush, a removal.

Guarantees: no caller waits longer than its deadline; an order that has not ended is never given a second time
meanwhile, so that a lost disk holds one thread and not one for each try. What was not answered in time may
happen still (`OutcomeUnknown`): who asks again joins it. These threads keep no process from its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from mooring.volumes.errors import OutcomeUnknown

_T = TypeVar("_T")
_under_way: dict[str, Future[Any]] = {}


async def ordered(what: str, act: Callable[[], _T], deadline_s: float) -> _T:
    """What `act` returns or raises. `what` names the order, in words, with the device: it is the same for the
    same order. Raises OutcomeUnknown after `deadline_s` seconds."""
    future: Future[_T] = _under_way.get(what) or _begin(what, act)
    return (await _ended(what, future, deadline_s)).result()


async def over(what: str, deadline_s: float) -> None:
    """Returns when no such order is under way any more, whatever came of it. Raises OutcomeUnknown after
    `deadline_s` seconds."""
    if (future := _under_way.get(what)) is not None:
        _seen(await _ended(what, future, deadline_s))


async def _ended(what: str, future: Future[_T], deadline_s: float) -> asyncio.Future[_T]:
    answer = asyncio.wrap_future(future)
    await asyncio.wait({answer}, timeout=deadline_s)
    if not answer.done():
        answer.add_done_callback(_seen)
        raise OutcomeUnknown(
            f"the kernel has not ended this within {deadline_s:g} s: {what}. Does the storage answer? It is asked again"
        )
    return answer


def _begin(what: str, act: Callable[[], _T]) -> Future[_T]:
    future: Future[_T] = Future()
    future.set_running_or_notify_cancel()
    _under_way[what] = future
    threading.Thread(target=_run, args=(what, act, future), name=f"kernel: {what}", daemon=True).start()
    return future


def _run(what: str, act: Callable[[], _T], future: Future[_T]) -> None:
    try:
        result = act()
    except BaseException as error:
        _end(what)
        future.set_exception(error)
    else:
        _end(what)
        future.set_result(result)


def _end(what: str) -> None:
    with contextlib.suppress(KeyError):
        del _under_way[what]


def _seen(answer: asyncio.Future[Any]) -> None:
    """An answer that is not waited for any more: asyncio must not log its error as never retrieved."""
    if not answer.cancelled():
        answer.exception()

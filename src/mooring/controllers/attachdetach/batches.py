"""Groups changes of one object into one write: while a write of the object is in flight,
further changes wait for the next.

Guarantees:
- At most one write for a key is in flight. Its changes are taken at one moment, and each gets its own result.
- A change that comes alone is written at once, also right after another. Only a burst waits, so that it takes
  few writes, however many objects it is spread over.
- Each change is carried out once, or its caller gets an error; also if the caller that writes is cancelled.

Knows nothing of what is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

E = TypeVar("E")
R = TypeVar("R")

STEP_S = 0.01
"""Seconds for which a write waits for each other change in flight: a hundred changes a
second begin a burst."""
LONGEST_S = 0.5
"""Seconds for which a write waits for further changes at most."""
WRITES = 32
"""Writes in flight at once, of all keys: more of them make no server faster."""


@dataclass
class _Waiting(Generic[E, R]):
    """The changes that wait for one key, and the lock that its writer holds."""

    entries: list[tuple[E, asyncio.Future[R]]] = field(default_factory=list[tuple[E, asyncio.Future[R]]])
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Batches(Generic[E, R]):
    """`write(key, entries)` carries out all entries of one key, and returns their results in
    the same order."""

    def __init__(self, write: Callable[[str, Sequence[E]], Awaitable[Sequence[R]]]) -> None:
        self._write = write
        # One is there as long as a change waits or is being written: keys are nodes, which come and go.
        self._waiting: WeakValueDictionary[str, _Waiting[E, R]] = WeakValueDictionary()
        self._places = asyncio.Semaphore(WRITES)
        self.under_way = 0
        """Changes that wait or are being written, of all keys."""

    async def through(self, key: str, entry: E) -> R:
        """Carries out `entry` in one write with whatever else waits for `key`. Returns its result, or raises
        what the write raised."""
        waiting = self._waiting.setdefault(key, _Waiting[E, R]())
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        waiting.entries.append((entry, future))
        self.under_way += 1
        try:
            # Every caller competes for the lock. The one that gets it writes everything that waits, its own
            # entry among it; the others find their futures done when they get the lock, and do nothing.
            async with waiting.lock:
                if not future.done():
                    await self._carry_out(key, waiting)
            return future.result()
        finally:
            self.under_way -= 1
            # An error keeps its traceback, the traceback this frame, and the frame the future that holds the
            # error: without this, each failed write stays in memory until the garbage collector runs.
            del future

    async def _carry_out(self, key: str, waiting: _Waiting[E, R]) -> None:
        await self._gather()
        async with self._places:
            await self._write_all(key, waiting)

    async def _gather(self) -> None:
        """Waits for further changes: the longer, the more are in flight. A change that is
        alone does not wait."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        # Other keys' changes count, too: a burst that is spread over many objects is to take few writes for
        # each.
        while (left := begun + min((self.under_way - 1) * STEP_S, LONGEST_S) - loop.time()) > 0:  # noqa: ASYNC110 - time itself is waited for
            await asyncio.sleep(left)

    async def _write_all(self, key: str, waiting: _Waiting[E, R]) -> None:
        taken, waiting.entries = waiting.entries, []
        try:
            results = await self._write(key, [entry for entry, _ in taken])
        except Exception as error:
            _fail([future for _, future in taken], error)
            taken.clear()  # as in `through`: the traceback holds this frame
        except BaseException:
            # Cancelled: the callers of the other entries still wait for the lock, and the next one writes
            # them.
            waiting.entries = taken + waiting.entries
            raise
        else:
            for (_, future), result in zip(taken, results, strict=True):
                future.set_result(result)


def _fail(futures: Sequence[asyncio.Future[R]], error: Exception) -> None:
    for future in futures:
        future.set_exception(error)
        future.exception()  # marks it as retrieved: the caller may have been cancelled, and asyncio would complain

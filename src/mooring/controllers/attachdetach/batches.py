"""Changes of one object that wait together are written together: one write under way, the rest goes with the next.

The more changes are under way, of whichever objects, the longer a write waits for what else comes for its object: a
burst takes few writes, however many objects it is spread over. A change that comes alone is written at once, also soon
after another. No object waits for another's write, as long as there are few of them. Knows nothing of what is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

E = TypeVar("E")
R = TypeVar("R")

STEP_S = 0.01
"""How long a write waits for each other change that is under way: a hundred changes a second begin a burst."""
LONGEST_S = 0.5
"""No write waits longer for changes."""
WRITES = 32
"""So many writes at once: more of them make no server faster."""


@dataclass
class _Waiting(Generic[E, R]):
    """What waits for one object."""

    entries: list[tuple[E, asyncio.Future[R]]] = field(default_factory=list[tuple[E, asyncio.Future[R]]])
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Batches(Generic[E, R]):
    """`write(key, entries)` carries out all entries of one key, and returns their results in order."""

    def __init__(self, write: Callable[[str, Sequence[E]], Awaitable[Sequence[R]]]) -> None:
        self._write = write
        self._waiting: dict[str, _Waiting[E, R]] = {}
        self._places = asyncio.Semaphore(WRITES)
        self.under_way = 0
        """Changes that wait, or are being written."""

    async def through(self, key: str, entry: E) -> R:
        """Carries out `entry`, with what else waits for `key`; its result, or what the common write raised."""
        waiting = self._waiting.setdefault(key, _Waiting[E, R]())
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        waiting.entries.append((entry, future))
        self.under_way += 1
        try:
            async with waiting.lock:
                if not future.done():
                    await self._carry_out(key, waiting)
            return future.result()
        finally:
            self.under_way -= 1
            del future  # or an error and who waited for it hold each other until garbage is collected

    async def _carry_out(self, key: str, waiting: _Waiting[E, R]) -> None:
        await self._gather()
        async with self._places:
            await self._write_all(key, waiting)

    async def _gather(self) -> None:
        """Waits for more changes. Those that come meanwhile make it longer."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while (left := begun + min((self.under_way - 1) * STEP_S, LONGEST_S) - loop.time()) > 0:  # noqa: ASYNC110 - time itself is waited for
            await asyncio.sleep(left)

    async def _write_all(self, key: str, waiting: _Waiting[E, R]) -> None:
        taken, waiting.entries = waiting.entries, []
        try:
            results = await self._write(key, [entry for entry, _ in taken])
        except Exception as error:
            _fail([future for _, future in taken], error)
            taken.clear()  # as above
        except BaseException:
            waiting.entries = taken + waiting.entries  # another one who waits carries them out
            raise
        else:
            for (_, future), result in zip(taken, results, strict=True):
                future.set_result(result)


def _fail(futures: Sequence[asyncio.Future[R]], error: Exception) -> None:
    for future in futures:
        future.set_exception(error)
        future.exception()  # whoever waited may be gone

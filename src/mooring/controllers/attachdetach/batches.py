"""Changes of one object that come together are written together: one write under way, the rest waits for the next.

A burst is slowed down a little, so that it takes few writes; a change that comes alone is written at once, also soon
after another. Knows nothing of what is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

E = TypeVar("E")
R = TypeVar("R")

FIRST_GAP_S = 0.02
LAST_GAP_S = 0.25
GROWTH = 4


@dataclass
class _Waiting(Generic[E, R]):
    """What waits for one object, and how its writes are paced."""

    entries: list[tuple[E, asyncio.Future[R]]] = field(default_factory=list[tuple[E, asyncio.Future[R]]])
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    written: float = float("-inf")  # when the last write ended
    gap: float = 0.0

    def pause(self, now: float) -> float:
        """Seconds until the next write may begin."""
        return max(self.written + self.gap - now, 0.0)

    def wrote(self, changes: int, now: float) -> None:
        """A burst goes on for as long as more than one change has gathered meanwhile."""
        self.gap = min(max(self.gap * GROWTH, FIRST_GAP_S), LAST_GAP_S) if changes > 1 else 0.0
        self.written = now


class Batches(Generic[E, R]):
    """`write(key, entries)` carries out all entries of one key, and returns their results in order."""

    def __init__(self, write: Callable[[str, Sequence[E]], Awaitable[Sequence[R]]]) -> None:
        self._write = write
        self._waiting: dict[str, _Waiting[E, R]] = {}

    async def through(self, key: str, entry: E) -> R:
        """Carries out `entry`, with what else waits for `key`; its result, or what the common write raised."""
        waiting = self._waiting.setdefault(key, _Waiting[E, R]())
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        waiting.entries.append((entry, future))
        async with waiting.lock:
            if not future.done():
                await self._carry_out(key, waiting)
        return future.result()

    async def _carry_out(self, key: str, waiting: _Waiting[E, R]) -> None:
        loop = asyncio.get_running_loop()
        if pause := waiting.pause(loop.time()):
            await asyncio.sleep(pause)
        taken, waiting.entries = waiting.entries, []
        try:
            results = await self._write(key, [entry for entry, _ in taken])
        except Exception as error:
            for _, future in taken:
                future.set_exception(error)
                future.exception()  # whoever waited may be gone
        except BaseException:
            waiting.entries = taken + waiting.entries  # another one who waits carries them out
            raise
        else:
            for (_, future), result in zip(taken, results, strict=True):
                future.set_result(result)
        finally:
            waiting.wrote(len(taken), loop.time())

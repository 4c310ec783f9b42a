"""What a part asks for seldom: by the place in its code that leads to a request.

A storm loses one request of ten, whatever each is for. What comes up once in a run (an error that is to be
stored, a write after another one was overtaken) it hardly ever strikes. This fault strikes what comes from a
place of which few requests came, and lets all else pass: each place once or twice, so that what a part does
again and again soon goes well, and what it does once goes wrong.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from types import CodeType
from typing import Any

Place = tuple[tuple[CodeType, int], ...]
"""The lines at which the calls wait for each other that lead to a request, the outermost first."""
OFTEN = 2
"""From so many requests on a place is none that is seldom reached."""
STRUCK = 0.6
"""The share of the others that is struck."""


def place() -> Place:
    """Of the request that the present task is about to send."""
    task = asyncio.current_task()
    found: list[tuple[CodeType, int]] = []
    waits: Any = task.get_coro() if task is not None else None
    while (frame := getattr(waits, "cr_frame", None)) is not None:
        found.append((frame.f_code, frame.f_lineno))
        waits = waits.cr_await
    return tuple(found)


class RareRequests:
    """Of one part, since the fault began."""

    def __init__(self) -> None:
        self._seen: Counter[Place] = Counter()

    def strikes(self, chance: Random) -> bool:
        """Whether this request is struck."""
        here = place()
        self._seen[here] += 1
        return self._seen[here] <= OFTEN and chance.random() < STRUCK

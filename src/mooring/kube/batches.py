"""Several writes at once, begun carefully: when the first ones fail, hundreds of the same kind are not tried.

One rule for the controllers that make or delete many objects at once. Source: upstream's slow start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

LARGEST = 500
"""How many are under way at once, at most."""


async def in_growing_batches(items: Sequence[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Acts on one item, then on two at once, on four, and so on. The first error of a batch is raised when
    the batch has ended, and ends the work."""
    if items:
        await act(items[0])
    done, size = 1, 2
    while done < len(items):
        batch = items[done : done + size]
        failures = await asyncio.gather(*map(act, batch), return_exceptions=True)
        for failure in failures:
            if failure is not None:
                raise failure
        done, size = done + size, min(2 * size, LARGEST)

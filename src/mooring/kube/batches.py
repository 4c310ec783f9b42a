"""Writes of many objects, by two rules.

Several at once, begun carefully: when the first ones fail, hundreds of the same kind are not tried. Source:
upstream's slow start. And one after the other, where they are independent: an object that the API server
refuses to have deleted, or written (an admission webhook protects it), keeps no other from its turn. It would
do so for ever, as they come in the same order each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from mooring.kube.errors import ApiError

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


async def one_by_one(items: Iterable[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Acts on one item after the other. The first refusal is raised when each had its turn; anything else, as
    an API server that does not answer, at once."""
    refusals: list[ApiError] = []
    for item in items:
        try:
            await act(item)
        except ApiError as error:
            refusals.append(error)
    try:
        if refusals:
            raise refusals[0]
    finally:
        refusals.clear()  # an error's traceback holds this frame


async def in_turn(*steps: Callable[[], Awaitable[None]]) -> None:
    """Takes one step after the other, as `one_by_one` acts on items."""
    await one_by_one(steps, lambda step: step())

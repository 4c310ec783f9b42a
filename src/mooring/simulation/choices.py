"""Where all chance of a run comes from: named streams for what happens, and the choice of the next callback.

Each name has a stream of its own, so a new draw in one part shifts no other part. The choices of the scheduler are
noted: a run is repeated from its seed, or from the list of its choices.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from hashlib import blake2b
from random import Random

Choose = Callable[[int], int]
"""Takes how many callbacks are ready (at least 2) and says which comes next."""


def stream(seed: int, name: str) -> Random:
    """The stream of chance of that name. Does not depend on PYTHONHASHSEED, platform or other streams."""
    return Random(int.from_bytes(blake2b(f"{seed}:{name}".encode(), digest_size=8).digest(), "big"))


def first_come_first_served(ready: int) -> int:
    """The order of asyncio itself."""
    return 0


class Seeded:
    """Any ready callback may come next. `taken` has the choices, two bytes each."""

    def __init__(self, random: Random) -> None:
        self._draw = random.random
        self.taken = array("H")

    def __call__(self, ready: int) -> int:
        choice = int(self._draw() * ready)
        self.taken.append(choice)
        return choice


class Replayed:
    """Repeats choices; after their end, or where one does not fit, first come, first served."""

    def __init__(self, choices: Sequence[int]) -> None:
        self._choices = iter(choices)

    def __call__(self, ready: int) -> int:
        choice = next(self._choices, 0)
        return choice if choice < ready else 0

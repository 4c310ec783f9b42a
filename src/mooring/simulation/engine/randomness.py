"""The randomness of a run: named streams for what happens, and the choice of the next callback.

Each name has a stream of its own, so a new draw in one part shifts no other part. The choices of the
scheduler are recorded: a run is repeated from its seed, or from the list of its choices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from random import Random
from typing import TypeVar

T = TypeVar("T")
Choose = Callable[[int], int]
"""Takes how many callbacks are ready (at least 2) and says which comes next."""


def stream(seed: int, name: str) -> Random:
    """The random stream of that name. Does not depend on PYTHONHASHSEED, platform or other streams."""
    return Random(int.from_bytes(blake2b(f"{seed}:{name}".encode(), digest_size=8).digest(), "big"))


def dealt(seed: int, cards: Sequence[T], name: str) -> T:
    """This seed's card of a deck that is shuffled again whenever it has been dealt."""
    deck, number = divmod(seed, len(cards))
    return stream(deck, name).sample(list(cards), len(cards))[number]


class SeededOrder:
    """Any ready callback may come next. `taken` has the choices other than the first, by their number."""

    def __init__(self, random: Random) -> None:
        self._draw = random.random
        self._number = 0
        self.taken: dict[int, int] = {}

    def __call__(self, ready: int) -> int:
        choice = int(self._draw() * ready)
        if choice:
            self.taken[self._number] = choice
        self._number += 1
        return choice


class ReplayedOrder:
    """Repeats choices. Where none is given, or one does not fit: first come, first served, as asyncio itself
    does."""

    def __init__(self, choices: Mapping[int, int]) -> None:
        self.choices = choices
        self.number = -1
        """Of the choice that was made last."""

    def __call__(self, ready: int) -> int:
        self.number += 1
        choice = self.choices.get(self.number, 0)
        return choice if choice < ready else 0

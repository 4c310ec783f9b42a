"""How soon a node is chosen again for a claim whose node was taken back.

A provisioner takes a choice back when it cannot make the volume there: the node's driver is not registered,
its storage is full. Chosen again at once, the two would write to the claim hundreds of times a second. Values
only, no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable

FIRST_S, LONGEST_S = 1.0, 10.0
"""As upstream's scheduler lets a pod rest that it could not place."""


class Selections:
    """Which claims had a node chosen, how often, and until when (seconds of the loop) none is chosen again."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[int, float]] = {}  # uid of the claim -> how often, and until when

    def rest(self, claims: Iterable[str], now: float) -> float:
        """Seconds until a node may be chosen for all of these claims (uids); 0: now."""
        return max([self._made[uid][1] - now for uid in claims if uid in self._made], default=0.0)

    def note(self, claim: str, now: float) -> None:
        """A node was chosen for the claim."""
        number, _ = self._made.get(claim, (0, 0.0))
        self._made[claim] = number + 1, now + min(FIRST_S * 2.0 ** min(number, 10), LONGEST_S)

    def forget(self, claim: str) -> None:
        """The claim has its volume, or is gone."""
        self._made.pop(claim, None)

    def begin_anew(self) -> None:
        """What kept a volume from being made may have changed: the next choice need not wait."""
        self._made.clear()

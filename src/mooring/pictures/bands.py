"""From the moments at which a state changed to the bands of a lane. Pure.

A state is written as a look's value, as in "attached, in use"; "; node silent" may follow, or "node silent"
stand alone. "" is nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise

from mooring.pictures.looks import Look
from mooring.pictures.model import Band

SILENT = "node silent"
HELD = frozenset({Look.ATTACHED, Look.IN_USE, Look.DETACHING})
"""What is reported of a node that has a volume, or may have it still."""


def bands(changes: Iterable[tuple[float, str]], end: float) -> list[Band]:
    """Each state lasts until the next change, the last one until the end."""
    moments = [*changes, (end, "")]
    found = (_band(start, until, state) for (start, state), (until, _) in pairwise(moments))
    return [band for band in found if band is not None and band.end > band.start]


def _band(start: float, end: float, state: str) -> Band | None:
    if state == SILENT:
        return Band(start, end, None, silent=True)
    look, _, rest = state.partition("; ")
    return Band(start, end, Look(look), silent=rest == SILENT) if look else None


def joined(found: Sequence[Band]) -> list[tuple[float, float]]:
    """From when to when; bands that follow one another at once count as one. They are in order."""
    whole: list[tuple[float, float]] = []
    for band in found:
        if whole and whole[-1][1] >= band.start:
            whole[-1] = (whole[-1][0], max(whole[-1][1], band.end))
        else:
            whole.append((band.start, band.end))
    return whole


def silences(found: Sequence[Band]) -> list[tuple[float, float]]:
    """From when to when a lane's node was silent while it had, or might have had, what the lane is about."""
    return joined([band for band in found if band.silent and band.look in HELD])


def shared(
    lanes: Sequence[tuple[str, Sequence[Band]]], looks: frozenset[Look]
) -> Iterator[tuple[float, float, str, str]]:
    """From when to when two lanes have one of the looks at the same time, and the names of the two."""
    for (first, some), (second, others) in combinations(lanes, 2):
        both = (
            Band(max(one.start, other.start), min(one.end, other.end), None)
            for one in some
            for other in others
            if one.look in looks and other.look in looks
        )
        overlaps = sorted((band for band in both if band.start < band.end), key=lambda band: band.start)
        yield from ((start, end, first, second) for start, end in joined(overlaps))

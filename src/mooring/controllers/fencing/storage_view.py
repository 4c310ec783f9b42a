"""Whether a node that does not answer reads or writes, by what its storage counts. Pure.

Two looks are compared, by the time at which their answers came in here; no other clock is read, and after a
restart it is looked twice anew. It is a detector, as others are: no evidence, in either direction. A node
that is idle is quiet, too, and a storage that is cut off hears of no node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mooring.controllers.fencing.detection import FRESH_S, Signal, Verdict
from mooring.fence.interface import Sessions, State
from mooring.kube.objects.fencing import Detector

QUIET_S = 10.0
"""What has not moved for less says nothing yet."""
LOOK_S = 5.0
"""Seconds between two looks."""
LONGEST_S = 10.0
"""So long, at the most, is the storage waited for."""


class Seen(NamedTuple):
    """What is known of one boot of a node. `first`: when it was first asked about, `looked`: last. `counted`:
    what the storage had counted then, None if it did not say. `quiet_since`: nothing has moved since, None if
    that is not known. `moved_at`: when something was last seen to have moved."""

    first: float
    looked: float
    counted: Mapping[str, int] | None = None
    quiet_since: float | None = None
    moved_at: float | None = None
    message: str = ""


def taken(before: Seen | None, said: Sessions, now: float) -> Seen:
    """What is known after another look. What was not told between two looks may have moved meanwhile."""
    first = before.first if before is not None else now
    moved_at = before.moved_at if before is not None else None
    if said.state is State.UNKNOWN or said.moved is None:
        return Seen(first, now, None, None, moved_at, said.message)
    known = before.counted if before is not None else None
    quiet_since = before.quiet_since if before is not None else None
    if known is not None and _grew(known, said.moved):
        quiet_since = moved_at = now
    elif known is None or _begun_anew(known, said.moved):
        quiet_since = now
    return Seen(first, now, said.moved, quiet_since, moved_at, said.message)


def _grew(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Whether something went through, or the node has logged in."""
    return any(many > before.get(what, -1) for what, many in now.items())


def _begun_anew(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Whether the storage has lost count."""
    return any(many < before.get(what, 0) for what, many in now.items())


def signal_of(detector: Detector, seen: Seen, now: float) -> Signal:
    """What the detector says by that."""
    name = detector.mechanism
    if seen.moved_at is not None and now - seen.moved_at < FRESH_S:
        age = now - seen.moved_at
        said = f"{name}: it has read or written there less than {FRESH_S:g} s ago"
        return Signal(detector, Verdict.HEALTHY, age, said)
    quiet = now - seen.quiet_since if seen.quiet_since is not None else 0.0
    if quiet >= QUIET_S:
        said = f"{name}: it has neither read nor written there for {quiet:.0f} s"
        return Signal(detector, Verdict.LOST, quiet, said)
    patience = max(QUIET_S - (now - seen.first), 0.0)
    return Signal(detector, Verdict.UNKNOWN, 0, f"{name}: {seen.message}", patience)

"""Until when a fence waits for what it waits for, where that is known. Pure; for people, and no rule goes by
it.

What only the controller's own clock knows (how long a peer's veto, a storm, patience last) it writes into the
fence as `waitsUntil`; the rest follows from the fence's other times. Times are the wall clock's: of who wrote
them, and of who asks.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from mooring.controllers.fencing.decide import has_begun, pause_after
from mooring.controllers.fencing.in_force import VERIFY_S
from mooring.kube.objects.fencing import NodeFence
from mooring.kube.times import parse_time
from mooring.volumes.node_fences import Phase

WRITTEN_ANEW_S = 3.0
"""A time that has moved by no more than this is not written again."""
LONGEST_S = 100 * 365 * 86400.0
"""What lasts longer has no end that is told: pods may tolerate a node for ever, or for 2^63 seconds."""


class Wait(NamedTuple):
    """`what` happens then at the latest."""

    what: str
    until: datetime

    def left(self, now: datetime) -> int:
        """Whole seconds; 0 if it is over."""
        return max(round((self.until - now).total_seconds()), 0)


def wait_of(fence: NodeFence) -> Wait | None:
    """What the fence waits for, and until when; None if that is not known, or only a change ends it."""
    status = fence.status
    match status.phase or Phase.PENDING:
        case Phase.PENDING if status.waits_until:
            return Wait("it is looked at again", parse_time(status.waits_until))
        case Phase.AWAITING_PERSON if status.round_ended_at:
            pause = timedelta(seconds=pause_after(status.round))
            return Wait("the ladder is begun again", parse_time(status.round_ended_at) + pause)
        case Phase.FENCING if (
            has_begun(fence) and not (last := status.attempts[-1]).outcome and last.waits_until
        ):
            return Wait(f"{last.mechanism} is waited for no longer", parse_time(last.waits_until))
        case Phase.FENCED if status.verified_at:
            ends = parse_time(status.verified_at) + timedelta(seconds=VERIFY_S)
            return Wait("whether it holds is looked at again", ends)
        case _:
            return None


def moment_in(seconds: float, now: datetime) -> datetime | None:
    """The moment in so many seconds; None if there is none to be told."""
    return now + timedelta(seconds=seconds) if 0 < seconds < LONGEST_S else None


def is_as_written(written: str, until: datetime | None) -> bool:
    """Whether `waitsUntil` need not be written anew."""
    if until is None or not written:
        return until is None and not written
    return abs((parse_time(written) - until).total_seconds()) <= WRITTEN_ANEW_S


def kept_because(fence: NodeFence) -> str:
    """Why the record of a fence that is over, and was deleted, is there still."""
    node = fence.spec.node_name
    return (
        f"an order of it may strike still: it is kept until node {node} reports, goes on renewing its Lease, "
        "boots anew, or is deleted"
    )

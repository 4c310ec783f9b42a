"""Which requests to the storage are outstanding: sent, not answered, and may still take effect. Pure.

A request that was not answered may be carried out later, until its validity has passed (docs/protocol.md
C15). So a volume is detached when the storage says so *and* no request is outstanding. The time of each
request is stored on the VolumeAttachment before the request is sent, and stays there while it may be in
flight. Where requests die with their sender (a validity of 0), none is ever outstanding. How old a request is
does not go by that time, but by `request_ages`: wall clocks are set.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from mooring.kube.objects import VolumeAttachment
from mooring.kube.times import format_micro_time


def times(record: VolumeAttachment, annotation: str) -> tuple[str, ...]:
    """Returns when requests of one kind were sent, the latest last, without those that the
    storage refused."""
    return tuple(each for each in record.metadata.annotations.get(annotation, "").split(",") if each)


def unanswered(attaches: Sequence[str], record: VolumeAttachment) -> Sequence[str]:
    """Returns the attach requests that were not answered: if the volume was attached, the latest one was."""
    return attaches[:-1] if record.status.attached else attaches


def begun(sent: Iterable[str], now: datetime) -> str:
    """Returns the annotation before one more request: the times of those that may be in flight, and of this
    one. No two are the same, however the clock was set."""
    known = list(sent)
    while (stamp := format_micro_time(now)) in known:
        now += timedelta(microseconds=1)
    return ",".join([*known, stamp])


def without(sent: Iterable[str], one: str) -> str | None:
    """Returns the annotation after one request was answered: that one has no effect any more."""
    rest = list(sent)
    if one in rest:
        rest.remove(one)  # only one: another request of the same time stays
    return ",".join(rest) or None


def outstanding_for(since: Iterable[float], now: float, validity_s: float) -> float:
    """Returns the seconds until none of these unanswered requests can take effect any more; 0 if none can
    now. `since`: when each was known to be sent, and `now`, in seconds of a clock that does not jump."""
    return max([0.0, *(each + validity_s - now for each in since)])

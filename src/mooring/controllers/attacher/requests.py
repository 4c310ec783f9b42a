"""Which requests to the storage are outstanding: sent, not answered, and may still take effect. Pure.

A request that was not answered may be carried out later, until its validity has passed (docs/protocol.md
C15). So a volume is detached when the storage says so *and* no request is outstanding. The time of each
request is stored on the VolumeAttachment before the request is sent, and stays there while it may be in
flight. Where requests die with their sender (a validity of 0), none is ever outstanding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from mooring.kube.objects import VolumeAttachment
from mooring.kube.times import format_micro_time, parse_time


def times(record: VolumeAttachment, annotation: str) -> tuple[str, ...]:
    """Returns when requests of one kind were sent, the latest last, without those that the
    storage refused."""
    return tuple(each for each in record.metadata.annotations.get(annotation, "").split(",") if each)


def unanswered(attaches: Sequence[str], record: VolumeAttachment) -> Sequence[str]:
    """Returns the attach requests that were not answered: if the volume was attached, the latest one was."""
    return attaches[:-1] if record.status.attached else attaches


def begun(sent: Iterable[str], now: datetime, validity_s: float) -> str:
    """Returns the annotation before one more request: the times of those that may be in
    flight, and of this one."""
    return ",".join([*not_later(still_valid(sent, now, validity_s), now), format_micro_time(now)])


def not_later(sent: Iterable[str], now: datetime) -> list[str]:
    """Returns the times, none later than now: a clock that was ahead and was set right must
    not keep a request valid."""
    return [each if parse_time(each) <= now else format_micro_time(now) for each in sent]


def without(sent: Iterable[str], one: str) -> str | None:
    """Returns the annotation after one request was answered: that one has no effect any more."""
    rest = list(sent)
    if one in rest:
        rest.remove(one)  # only one: another request of the same time stays
    return ",".join(rest) or None


def still_valid(sent: Iterable[str], now: datetime, validity_s: float) -> list[str]:
    """Returns the times of requests that may still take effect."""
    return [each for each in sent if parse_time(each) + timedelta(seconds=validity_s) > now]


def outstanding_for(unanswered: Iterable[str], now: datetime, validity_s: float) -> float:
    """Returns the seconds until no unanswered request can take effect any more; 0 if none can now."""
    valid = still_valid(unanswered, now, validity_s)
    return max(((parse_time(each) - now).total_seconds() + validity_s for each in valid), default=0.0)

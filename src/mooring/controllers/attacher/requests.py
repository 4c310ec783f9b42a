"""Which requests to the storage may still have an effect. Pure.

A request that was not answered may be carried out later, until its validity has passed (protocol.md C15): a volume is
detached when the storage says so *and* no request is outstanding. The times of requests are stored on the
VolumeAttachment before they are sent; those that may still be under way stay there. Where requests die with their
sender (a validity of 0), nothing is ever outstanding.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from mooring.kube.objects import VolumeAttachment
from mooring.kube.times import format_micro_time, parse_time


def times(record: VolumeAttachment, annotation: str) -> tuple[str, ...]:
    """When requests of one kind were sent, the latest last; without those that were answered with a refusal."""
    return tuple(each for each in record.metadata.annotations.get(annotation, "").split(",") if each)


def begun(sent: Iterable[str], now: datetime, validity_s: float) -> str:
    """The annotation before one more request: those that may still be under way, and this one."""
    return ",".join([*not_later(still_valid(sent, now, validity_s), now), format_micro_time(now)])


def not_later(sent: Iterable[str], now: datetime) -> list[str]:
    """No request was sent later than now: a clock that was ahead and is right again must not keep one valid."""
    return [each if parse_time(each) <= now else format_micro_time(now) for each in sent]


def without(sent: Iterable[str], one: str) -> str | None:
    """The annotation after one request was answered: it has no effect any more."""
    rest = list(sent)
    if one in rest:
        rest.remove(one)  # another one of the same time stays
    return ",".join(rest) or None


def still_valid(sent: Iterable[str], now: datetime, validity_s: float) -> list[str]:
    """Those that can still have an effect."""
    return [each for each in sent if parse_time(each) + timedelta(seconds=validity_s) > now]


def outstanding_for(unanswered: Iterable[str], now: datetime, validity_s: float) -> float:
    """Seconds until nothing that was not answered can have an effect any more; 0 if nothing can."""
    valid = still_valid(unanswered, now, validity_s)
    return max(((parse_time(each) - now).total_seconds() + validity_s for each in valid), default=0.0)

"""How fast the driver calls EC2, and what it does again: EC2's documentation, "Request throttling for the
Amazon EC2 API" and "Error codes", and docs/ebs.md, "Quotas"."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mooring.ebs.ec2 import paced
from mooring.ebs.ec2.buckets import Bucket, Quota
from mooring.ebs.ec2.paced import PacedApi
from mooring.ebs.errors import Ec2Error, Ec2Unreachable
from mooring.simulation.checks.second_opinions import near_ebs
from mooring.simulation.checks.second_opinions.memories import Memories, now
from mooring.simulation.checks.second_opinions.question import Question

LISTS = ("DescribeInstances", "DescribeSnapshots", "DescribeVolumes")
"""Of what may be very many: without a filter, and not in pages, these have less."""
LISTED = {
    "CreateVolume": (100, 5), "DeleteVolume": (100, 5), "CreateSnapshot": (100, 5), "DeleteSnapshot": (100, 5),
    "CreateTags": (100, 10), "DeleteTags": (100, 10),
}  # fmt: skip
INTERNAL = ("InternalError", "InternalFailure", "InternalServerError", "Unavailable", "ServiceUnavailable")
"""EC2's own failures: what was asked for may have been done."""
SMALL = 1e-6


def of_a_bucket(answer: str, action: str, request: Mapping[str, Any]) -> Iterator[str]:
    """Each action has one of its own, and lists of all another one."""
    lists_all = action in LISTS and not request.get("Filters") and "MaxResults" not in request
    if answer != (f"{action} (all)" if lists_all else action):
        yield f"{action} takes its token from {answer}"


def of_a_quota(answer: Quota, name: str) -> Iterator[str]:
    """What EC2 documents: so many calls at once, and so many a second."""
    questions = (50, 10) if name.endswith("(all)") else (100, 20)
    expected = questions if name.startswith("Describe") else LISTED.get(name, (50, 5))
    if (answer.capacity, answer.refill) != expected:
        yield f"{name} has the quota {answer}, and not {expected}"


@dataclass
class Level:
    """A bucket after what was done with it last. `refused_at`: when a refusal was counted last."""

    tokens: float = 0.0
    rate: float = 0.0
    at: float = float("nan")
    refused_at: float = float("-inf")

    def flow(self, bucket: Bucket, at: float) -> None:
        """Until then it fills: at its rate, up to two less than EC2's has; the rate regains a hundredth of
        its whole each second."""
        full, passed = bucket.quota.capacity - 2, max(at - self.at, 0.0)
        if self.at != self.at:  # nothing was done with it yet
            self.tokens, self.rate, self.at, passed = full, bucket.quota.refill, at, 0.0
        self.tokens = min(full, self.tokens + passed * self.rate)
        self.rate = min(bucket.quota.refill, self.rate + passed * bucket.quota.refill / 100)
        self.at += passed

    def differs(self, bucket: Bucket) -> Iterator[str]:
        if abs(self.tokens - bucket.tokens) > SMALL or abs(self.rate - bucket.rate) > SMALL:
            yield (
                f"a bucket of {bucket.quota} has {bucket.tokens:g} tokens at {bucket.rate:g} a second, and not "
                f"{self.tokens:g} at {self.rate:g}"
            )


LEVELS = Memories(Level)


@dataclass
class Counts:
    """Of one process: calls that have ended, and tokens that were taken."""

    calls: int = 0
    tokens: int = 0


COUNTS = Memories(Counts)


def of_a_wait(answer: float, bucket: Bucket, at: float) -> Iterator[str]:
    """Nothing is waited for while there is a token; else until there is one."""
    level = LEVELS.of(bucket)
    level.flow(bucket, at)
    yield from level.differs(bucket)
    if abs(answer - max(1 - level.tokens, 0.0) / level.rate) > SMALL:
        yield f"with {level.tokens:g} tokens at {level.rate:g} a second {answer:g} s are waited"


def of_a_call(answer: None, bucket: Bucket, at: float) -> Iterator[str]:
    """A call takes a token, and none that is not there."""
    level = LEVELS.of(bucket)
    level.flow(bucket, at)
    level.tokens -= 1
    COUNTS.of_this_process().tokens += 1
    yield from level.differs(bucket)
    if level.tokens < -SMALL:
        yield f"a token is taken of {level.tokens + 1:g}"


def of_a_refusal(answer: bool, bucket: Bucket, at: float) -> Iterator[str]:
    """EC2 has none left, so there is none; and the rate falls by three tenths, once a second, and not below a
    sixteenth of the quota's. It is said whether it was the whole one."""
    level, least = LEVELS.of(bucket), bucket.quota.refill / 16
    level.flow(bucket, at)
    level.tokens, was_whole = min(level.tokens, 0.0), level.rate >= bucket.quota.refill
    counts = at >= level.refused_at + 1
    if counts:
        level.rate, level.refused_at = max(least, level.rate * 0.7), at
    yield from level.differs(bucket)
    if answer is not (counts and was_whole):
        yield f"that calls are made more slowly is {'' if answer else 'not '}said"


def of_another_try(answer: Exception | None, action: str, error: Exception, failures: int) -> Iterator[str]:
    """A question that EC2 could not answer is put up to four times. What it has refused is over. What changes
    something, and may have been done, is not asked for again: its outcome is unknown."""
    expected: Any = type(None)
    if isinstance(error, Ec2Error) and error.code not in INTERNAL:
        expected = Ec2Error
    elif not action.startswith("Describe"):
        expected = Ec2Unreachable
    elif failures >= 4:
        expected = type(error)
    if type(answer) is not expected:
        yield f"{action} has failed for the {failures}. time ({error!r}), and what follows is {answer!r}"


RESTS: Memories[list[float]] = Memories(list)
"""By the task that calls: until when it waits after its last try."""


def a_call_begins(*asked: object) -> None:
    RESTS.of(asyncio.current_task()).clear()


def _is_early() -> bool:
    return now() < max(RESTS.of(asyncio.current_task()), default=0.0) - SMALL


def of_a_backoff(answer: float, api: PacedApi, attempt: int) -> Iterator[str]:
    """Half a second, which doubles with each attempt up to twenty; of that at least a half. The one before is
    over."""
    if _is_early():
        yield f"attempt {attempt} has ended before the backoff of the last one"
    RESTS.of(asyncio.current_task()).append(now() + answer)
    span = 0.5
    for _ in range(min(attempt - 1, 6)):
        span = min(20.0, span * 2)
    if not span / 2 <= answer <= span:
        yield f"after attempt {attempt} {answer:g} s are waited"


def of_an_outcome(
    answer: Any, before: None, api: PacedApi, action: str, request: Mapping[str, Any]
) -> Iterable[str]:
    """That EC2 throttles is no error: the call is made again. Each call takes a token."""
    counts = COUNTS.of_this_process()
    counts.calls += 1
    if _is_early():
        yield f"{action} is answered before the backoff of its last attempt is over"
    if counts.calls > counts.tokens:
        yield f"{action} is called without a token"
    if isinstance(answer, Ec2Error) and ("Throttl" in answer.code or answer.code == "RequestLimitExceeded"):
        yield f"{action} fails because EC2 throttles it"


QUESTIONS = (
    Question(paced, "bucket_name", of_a_bucket, near=near_ebs.OF_A_BUCKET),
    Question(paced, "quota", of_a_quota, near=near_ebs.OF_A_QUOTA),
    Question(
        paced,
        "_check_repeatable",
        of_another_try,
        refusals=(Ec2Error, Ec2Unreachable),
        near=near_ebs.OF_ANOTHER_TRY,
    ),
    Question(Bucket, "wait_s", of_a_wait),
    Question(Bucket, "take", of_a_call),
    Question(Bucket, "refused", of_a_refusal),
    Question(PacedApi, "_backoff_s", of_a_backoff),
    Question(PacedApi, "call", of_an_outcome, before=a_call_begins, refusals=(Ec2Error, Ec2Unreachable)),
)

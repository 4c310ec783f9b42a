"""EC2's quotas, as data, and a token bucket that keeps to one of them. Pure: time is a parameter, in seconds.

Source: EC2's documentation, "Request throttling for the Amazon EC2 API": a bucket per account, region and
action. A bucket here holds a little less than EC2's, because network delays vary from request to request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SPARE = 2.0
"""Tokens of each bucket that are left unused, against variations of network delay."""
LESS = 0.7
"""A throttled call multiplies the rate by this factor."""
LEAST = 1 / 16
"""The lowest rate, as a share of the quota's rate."""
EASING_S = 1.0
"""Throttled calls within this time of one another count as one."""
RECOVERY = 0.01
"""The share of the quota's rate that a lowered rate regains each second."""


@dataclass(frozen=True)
class Quota:
    """A bucket of EC2's: `capacity` in calls, `refill` in calls per second."""

    capacity: float
    refill: float


DESCRIBING = Quota(100, 20)
DESCRIBING_ALL = Quota(50, 10)
"""For calls with neither a filter nor a page size. EC2 does not document whether ids count as a filter; here
they do not."""
MUTATING = Quota(50, 5)
QUOTAS: Mapping[str, Quota] = {
    "CreateVolume": Quota(100, 5),
    "DeleteVolume": Quota(100, 5),
    "CreateSnapshot": Quota(100, 5),
    "DeleteSnapshot": Quota(100, 5),
    "CreateTags": Quota(100, 10),
    "DeleteTags": Quota(100, 10),
}
"""The quotas of actions that EC2's documentation lists on their own."""
HEAVY = frozenset({"DescribeInstances", "DescribeSnapshots", "DescribeVolumes"})
"""Actions of this driver that use the smaller bucket without a filter or pages."""


def bucket_name(action: str, request: Mapping[str, Any]) -> str:
    """Which bucket the call takes its token from."""
    narrow = request.get("Filters") or "MaxResults" in request or action not in HEAVY
    return action if narrow else f"{action} (all)"


def quota(name: str) -> Quota:
    """The quota of the bucket with that name."""
    if name.endswith(" (all)"):
        return DESCRIBING_ALL
    return QUOTAS.get(name, DESCRIBING if name.startswith("Describe") else MUTATING)


@dataclass
class Bucket:
    """A model of one of EC2's buckets. Its rate falls when EC2 throttles (another client of the account
    shares the bucket, or the account's quota is lower), and slowly recovers."""

    quota: Quota
    rate: float = field(init=False)
    tokens: float = field(init=False)
    _at: float = field(init=False, default=0.0)
    _refused_at: float = field(init=False, default=float("-inf"))

    def __post_init__(self) -> None:
        self.rate = self.quota.refill
        self.tokens = self._capacity

    def wait_s(self, now: float) -> float:
        """Seconds until there is a token; 0 if there is one."""
        self._refill(now)
        return 0.0 if self.tokens >= 1 - 1e-9 else (1 - self.tokens) / self.rate

    def take(self, now: float) -> None:
        """Takes one token."""
        self._refill(now)
        self.tokens -= 1

    def refused(self, now: float) -> bool:
        """Notes that EC2 had no token left. Returns whether the rate was the full one until now."""
        self._refill(now)
        self.tokens = min(self.tokens, 0.0)
        if now - self._refused_at < EASING_S:
            return False
        was_full = self.rate >= self.quota.refill
        self.rate = max(self.rate * LESS, self.quota.refill * LEAST)
        self._refused_at = now
        return was_full

    @property
    def _capacity(self) -> float:
        return max(self.quota.capacity - SPARE, 1.0)

    def _refill(self, now: float) -> None:
        passed = max(now - self._at, 0.0)
        self.tokens = min(self.tokens + passed * self.rate, self._capacity)
        self.rate = min(self.rate + passed * RECOVERY * self.quota.refill, self.quota.refill)
        self._at = max(now, self._at)

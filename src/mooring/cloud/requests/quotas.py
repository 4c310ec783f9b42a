"""EC2's request quotas: a token bucket for each action.

Pure: time is a parameter. Sizes and refills are those of the EC2 API's documentation ("Request throttling"),
for one account in one region. A call takes one token; a throttled one takes none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mooring.cloud.requests.parameters import Request

UNFILTERED = frozenset({
    "DescribeInstances", "DescribeInstanceStatus", "DescribeNetworkInterfaces", "DescribeSecurityGroups",
    "DescribeSnapshots", "DescribeSpotInstanceRequests", "DescribeVolumes",
})  # fmt: skip
"""Actions with a smaller bucket for calls without filters and without a page size."""


class Quota(NamedTuple):
    """The size of a bucket in calls, and its refill in calls per second."""

    size: float
    refill: float


READING = Quota(100, 20)
READING_ALL = Quota(50, 10)
CHANGING = Quota(50, 5)
QUOTAS: Mapping[str, Quota] = {
    **dict.fromkeys(("CreateVolume", "DeleteVolume", "CreateSnapshot", "DeleteSnapshot"), Quota(100, 5)),
    **dict.fromkeys(("CreateTags", "DeleteTags"), Quota(100, 10)),
    **dict.fromkeys(("RunInstances", "StartInstances"), Quota(5, 2)),
}


def bucket_of(action: str, request: Request, *, ids_are_filters: bool) -> str:
    """The name of the bucket that a call takes its token from."""
    if action not in UNFILTERED or any(map(request.get, ("Filters", "MaxResults", "NextToken"))):
        return action
    ids = any(request.get(name) for name in ("VolumeIds", "InstanceIds", "SnapshotIds"))
    return action if ids and ids_are_filters else f"{action}:unfiltered"


def quota_of(bucket: str) -> Quota:
    """EC2's documented quota of the bucket."""
    if bucket.endswith(":unfiltered"):
        return READING_ALL
    if bucket in QUOTAS:
        return QUOTAS[bucket]
    return READING if bucket.startswith("Describe") else CHANGING


class TokenBucket:
    """A token bucket, full at first."""

    def __init__(self, quota: Quota, now: float) -> None:
        self.quota = quota
        self._tokens = quota.size
        self._at = now

    def take(self, now: float) -> bool:
        """Takes a token. Returns False if there is none."""
        grown = max(0.0, now - self._at) * self.quota.refill
        self._tokens = min(self.quota.size, self._tokens + grown)
        self._at = now
        if self._tokens < 1 - 1e-9:
            return False
        self._tokens = max(0.0, self._tokens - 1)
        return True


class Buckets:
    """All buckets of the account."""

    def __init__(self) -> None:
        self._buckets: dict[str, TokenBucket] = {}

    def take(self, bucket: str, quota: Quota, now: float) -> bool:
        """Takes a token from the bucket, which starts anew and full if its quota has changed."""
        found = self._buckets.get(bucket)
        if found is None or found.quota != quota:
            found = self._buckets[bucket] = TokenBucket(quota, now)
        return found.take(now)

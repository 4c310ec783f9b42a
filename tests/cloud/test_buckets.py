"""Token buckets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cloud.requests.quotas import Quota, TokenBucket, bucket_of, quota_of


@given(
    size=st.integers(1, 200),
    refill=st.integers(0, 50),
    gaps=st.lists(st.floats(0, 5), min_size=1, max_size=200),
)
def test_no_more_calls_pass_than_the_bucket_holds_and_gains(
    size: int, refill: int, gaps: list[float]
) -> None:
    bucket, now, passed = TokenBucket(Quota(size, refill), 0.0), 0.0, 0
    for gap in gaps:
        now += gap
        passed += bucket.take(now)
        assert passed <= size + refill * now + 1e-6


@given(size=st.integers(1, 100), refill=st.integers(1, 50))
def test_a_client_that_keeps_to_the_refill_is_never_refused(size: int, refill: int) -> None:
    bucket = TokenBucket(Quota(size, refill), 0.0)
    assert all(bucket.take(number / refill) for number in range(300))


def test_a_clock_that_goes_back_gives_no_tokens() -> None:
    bucket = TokenBucket(Quota(1, 1), 100.0)
    assert bucket.take(100.0)
    assert not bucket.take(50.0)


@pytest.mark.parametrize(
    ("action", "request_", "quota"),
    [
        ("AttachVolume", {}, (50, 5)),
        ("ModifyVolume", {}, (50, 5)),
        ("CreateVolume", {}, (100, 5)),
        ("DeleteSnapshot", {}, (100, 5)),
        ("CreateTags", {}, (100, 10)),
        ("RunInstances", {}, (5, 2)),
        ("DescribeVolumes", {}, (50, 10)),
        ("DescribeVolumes", {"VolumeIds": ["vol-1"]}, (50, 10)),
        ("DescribeVolumes", {"Filters": [{}]}, (100, 20)),
        ("DescribeVolumes", {"MaxResults": 5}, (100, 20)),
        ("DescribeVolumesModifications", {}, (100, 20)),
        ("DescribeAvailabilityZones", {}, (100, 20)),
    ],
)
def test_quotas_are_those_of_ec2s_documents(
    action: str, request_: dict[str, object], quota: tuple[int, int]
) -> None:
    assert quota_of(bucket_of(action, request_, ids_are_filters=False)) == quota


def test_ids_may_count_as_filters() -> None:
    request = {"InstanceIds": ["i-1"]}
    assert quota_of(bucket_of("DescribeInstances", request, ids_are_filters=True)) == (100, 20)

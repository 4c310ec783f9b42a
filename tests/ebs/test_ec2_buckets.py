"""EC2's quotas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.ebs.ec2.buckets import MUTATING, Bucket, Quota, bucket_name, quota


@pytest.mark.parametrize(
    ("action", "request_", "expected"),
    [
        ("AttachVolume", {}, Quota(50, 5)),
        ("CreateVolume", {}, Quota(100, 5)),
        ("CreateTags", {}, Quota(100, 10)),
        ("DescribeVolumes", {"Filters": [1]}, Quota(100, 20)),
        ("DescribeVolumes", {"MaxResults": 5}, Quota(100, 20)),
        ("DescribeVolumes", {"VolumeIds": ["vol-1"]}, Quota(50, 10)),
        ("DescribeVolumesModifications", {"VolumeIds": ["vol-1"]}, Quota(100, 20)),
    ],
)
def test_each_call_has_the_quota_that_ec2_documents(action, request_, expected) -> None:
    assert quota(bucket_name(action, request_)) == expected


@given(st.lists(st.floats(0, 20), max_size=200))
def test_what_is_taken_when_it_may_be_taken_never_exceeds_the_quota(pauses) -> None:
    bucket, now, taken = Bucket(MUTATING), 0.0, []
    for pause in pauses:
        now += pause
        wait_s = bucket.wait_s(now)
        now += wait_s
        bucket.take(now)
        taken.append(now)
    for start in range(len(taken)):
        for end in range(start, len(taken)):
            assert end - start + 1 <= MUTATING.capacity + MUTATING.refill * (taken[end] - taken[start]) + 1e-6


def test_a_refusal_lowers_the_rate_and_time_restores_it() -> None:
    bucket = Bucket(MUTATING)
    assert bucket.refused(0.0)
    assert bucket.rate == pytest.approx(3.5)
    assert bucket.wait_s(0.0) == pytest.approx(1 / 3.5)
    bucket.wait_s(10.0)
    assert 3.5 < bucket.rate < 5
    bucket.wait_s(100.0)
    assert bucket.rate == 5


def test_refusals_at_one_moment_count_as_one_and_the_rate_has_a_floor() -> None:
    bucket = Bucket(MUTATING)
    for _ in range(10):
        bucket.refused(0.0)
    assert bucket.rate == pytest.approx(3.5)
    for second in range(1, 100):
        bucket.refused(second * 1.5)
    assert bucket.rate >= MUTATING.refill / 16

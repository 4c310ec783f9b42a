"""Second opinions about how fast EC2 is called, and what is asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opinions import objections
from tests.conftest import run_in_virtual_time

from mooring.ebs.ec2 import paced
from mooring.ebs.ec2.buckets import MUTATING, Bucket, Quota
from mooring.ebs.ec2.paced import PacedApi
from mooring.ebs.errors import EbsError, Ec2Error, Ec2Unreachable
from mooring.simulation.checks.second_opinions import ebs_quotas
from mooring.simulation.checks.second_opinions.ebs_quotas import (
    of_a_backoff,
    of_a_bucket,
    of_a_call,
    of_a_quota,
    of_a_refusal,
    of_a_wait,
    of_an_outcome,
    of_another_try,
)

ACTIONS = ("AttachVolume", "CreateVolume", "CreateTags", "DescribeVolumes", "DescribeVolumesModifications")
REQUESTS = ({}, {"Filters": [1]}, {"MaxResults": 5}, {"Filters": []})
ERRORS = (Ec2Error("InternalError", ""), Ec2Error("VolumeInUse", ""), Ec2Unreachable(""))
API: Any = None


@given(st.sampled_from(ACTIONS), st.sampled_from(REQUESTS))
def test_buckets_and_quotas_are_not_objected_to(action: str, request: dict[str, Any]) -> None:
    with objections(ebs_quotas.QUESTIONS) as found:
        paced.quota(paced.bucket_name(action, request))
    assert found == []


steps = st.lists(st.tuples(st.sampled_from(["wait", "refused"]), st.floats(0, 30)), max_size=60)


@given(steps, st.integers(3, 60))
def test_what_is_taken_and_refused_is_not_objected_to(steps: list[tuple[str, float]], most: int) -> None:
    bucket, now = Bucket(Quota(most, 5)), 0.0
    with objections(ebs_quotas.QUESTIONS) as found:
        for kind, pause in steps:
            now += pause / 10
            if kind == "refused":
                bucket.refused(now)
            else:
                now += bucket.wait_s(now)
                bucket.take(now)
    assert found == []


@given(st.sampled_from(ACTIONS), st.sampled_from(ERRORS), st.integers(1, 5))
def test_another_try_is_not_objected_to_and_every_other_outcome_is(
    action: str, error: EbsError, failures: int
) -> None:
    outcomes: list[Any] = [None, Ec2Error("InternalError", ""), Ec2Unreachable("")]
    assert sum(not [*of_another_try(each, action, error, failures)] for each in outcomes) == 1
    with objections(ebs_quotas.QUESTIONS) as found, suppress(EbsError):
        paced._check_repeatable(action, error, failures)
    assert found == []


@given(st.integers(1, 20), st.floats(0, 1, exclude_max=True))
def test_backoffs_are_not_objected_to(attempt: int, chance: float) -> None:
    async def story() -> None:
        PacedApi(API, lambda: chance)._backoff_s(attempt)

    with objections(ebs_quotas.QUESTIONS) as found:
        run_in_virtual_time(story())
    assert found == []


@pytest.mark.parametrize(("answer", "attempt"), [(0.2, 1), (0.6, 1), (0.4, 2), (1.1, 2), (9.0, 9), (21.0, 9)])
def test_a_backoff_that_is_too_short_or_too_long_is_objected_to(answer: float, attempt: int) -> None:
    async def story() -> list[str]:
        return [*of_a_backoff(answer, API, attempt)]

    assert run_in_virtual_time(story())


@pytest.mark.parametrize(
    ("answer", "action", "request_"),
    [
        ("DescribeVolumes", "DescribeVolumes", {"VolumeIds": ["vol-1"]}),
        ("DescribeVolumes (all)", "DescribeVolumes", {"MaxResults": 5}),
        ("DescribeVolumes (all)", "DescribeVolumes", {"Filters": [1]}),
        ("AttachVolume (all)", "AttachVolume", {}),
        ("DetachVolume", "AttachVolume", {}),
    ],
)
def test_another_bucket_is_objected_to(answer: str, action: str, request_: dict[str, Any]) -> None:
    assert [*of_a_bucket(answer, action, request_)]


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (Quota(100, 5), "AttachVolume"),
        (Quota(50, 5), "CreateVolume"),
        (Quota(100, 5), "CreateTags"),
        (Quota(100, 20), "DescribeVolumes (all)"),
        (Quota(50, 10), "DescribeVolumes"),
    ],
)
def test_another_quota_is_objected_to(answer: Quota, name: str) -> None:
    assert [*of_a_quota(answer, name)]


def test_a_wait_for_a_token_that_is_there_is_objected_to() -> None:
    assert [*of_a_wait(0.2, Bucket(MUTATING), 0.0)]
    assert not [*of_a_wait(0.0, Bucket(MUTATING), 0.0)]


def test_a_call_that_takes_no_token_or_one_that_is_not_there_is_objected_to() -> None:
    bucket = Bucket(MUTATING)
    assert [*of_a_call(None, bucket, 0.0)]
    empty = Bucket(Quota(3, 5))
    with objections(ebs_quotas.QUESTIONS) as found:
        empty.take(0.0)
        empty.take(0.0)
    assert found == ["Bucket.take: a token is taken of 0"]


@pytest.mark.parametrize(("rate", "tokens"), [(5.0, 0.0), (3.5, 48.0), (3.0, 0.0)])
def test_a_refusal_after_which_the_bucket_is_another_is_objected_to(rate: float, tokens: float) -> None:
    bucket = Bucket(MUTATING)
    bucket.rate, bucket.tokens = rate, tokens
    assert [*of_a_refusal(True, bucket, 0.0)]


def test_a_refusal_that_counts_and_is_not_told_is_objected_to() -> None:
    bucket = Bucket(MUTATING)
    bucket.rate, bucket.tokens = 3.5, 0.0
    assert [*of_a_refusal(False, bucket, 0.0)]
    assert [*of_a_refusal(True, bucket, 0.0)]


@pytest.fixture(autouse=True)
def counts(monkeypatch: Any) -> ebs_quotas.Counts:
    """Those of a process that has tokens enough."""
    counts = ebs_quotas.Counts(tokens=9)
    monkeypatch.setattr(ebs_quotas, "COUNTS", SimpleNamespace(of_this_process=lambda: counts))
    return counts


def outcome(answer: Any) -> list[str]:
    async def ask() -> list[str]:
        return [*of_an_outcome(answer, None, API, "AttachVolume", {})]

    return run_in_virtual_time(ask())


def test_a_call_without_a_token_is_objected_to(counts: ebs_quotas.Counts) -> None:
    counts.calls = 9
    assert outcome({})
    of_a_call(None, bucket := Bucket(MUTATING), 0.0)
    with objections(ebs_quotas.QUESTIONS):
        bucket.take(0.0)
    assert counts.tokens == 10


def test_a_throttled_call_that_fails_is_objected_to() -> None:
    assert outcome(Ec2Error("RequestLimitExceeded", ""))
    assert not outcome(Ec2Error("VolumeInUse", ""))
    assert not outcome({})


@pytest.mark.parametrize(("waited_s", "wrong"), [(0.0, True), (0.3, True), (0.5, False)])
def test_a_try_that_does_not_wait_for_its_backoff_is_objected_to(waited_s: float, wrong: bool) -> None:
    async def story(opinion: Callable[[], Iterable[str]]) -> bool:
        ebs_quotas.a_call_begins()
        assert not [*of_a_backoff(0.5, API, 1)]
        await asyncio.sleep(waited_s)
        return [*opinion()] != []

    answered = lambda: of_an_outcome({}, None, API, "AttachVolume", {})  # noqa: E731
    for opinion in (answered, lambda: of_a_backoff(1.0, API, 2)):
        assert run_in_virtual_time(story(opinion)) == wrong


def test_the_backoff_of_an_earlier_call_does_not_count() -> None:
    async def story() -> list[str]:
        assert not [*of_a_backoff(0.5, API, 1)]
        ebs_quotas.a_call_begins()
        return [*of_an_outcome({}, None, API, "AttachVolume", {})]

    assert run_in_virtual_time(story()) == []

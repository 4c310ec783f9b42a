"""Times as the API writes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import hypothesis.strategies as st
import pytest
from hypothesis import given

from mooring.kube.times import format_micro_time, format_time, parse_time

MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


@given(MOMENTS)
def test_what_is_formatted_is_parsed_back(moment: datetime):
    assert parse_time(format_micro_time(moment)) == moment
    assert parse_time(format_time(moment)) == moment.replace(microsecond=0)


@given(MOMENTS, MOMENTS)
def test_formatted_times_sort_as_the_moments_do(one: datetime, other: datetime):
    assert (format_micro_time(one) < format_micro_time(other)) == (one < other)


def test_times_are_written_in_utc():
    there = datetime(2030, 1, 1, 3, tzinfo=timezone(timedelta(hours=2)))
    assert format_time(there) == "2030-01-01T01:00:00Z"


def test_a_time_without_a_zone_is_utc():
    assert parse_time("2030-01-01T00:00:00") == datetime(2030, 1, 1, tzinfo=UTC)


def test_what_is_no_time_is_refused():
    with pytest.raises(ValueError, match="Invalid isoformat"):
        parse_time("yesterday")

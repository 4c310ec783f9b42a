"""Which entries of a log are shown."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.node.endpoint.logs import BadLogOptions, LogOptions, entries, last_lines, read_options

NOW = datetime(2030, 1, 1, 0, 1, tzinfo=UTC)
LINES = [
    b"2030-01-01T00:00:00.000000001Z stdout F one",
    b"2030-01-01T00:00:01.000000001Z stderr F two",
    b"2030-01-01T00:00:02.000000001Z stdout P thr",
    b"2030-01-01T00:00:03.000000001Z stdout F ee",
    b"",
]


def shown(**options: object) -> bytes:
    return b"".join(entries(LINES, LogOptions(**options)))  # type: ignore[arg-type]


def test_entries_are_joined_to_lines() -> None:
    assert shown() == b"one\ntwo\nthree\n"


def test_one_stream_alone_or_from_a_time_on() -> None:
    assert shown(stream="Stderr") == b"two\n"
    assert shown(since="2030-01-01T00:00:01Z") == b"two\nthree\n"


def test_a_line_has_one_stamp_however_many_entries_it_has() -> None:
    assert shown(timestamps=True, since="2030-01-01T00:00:02Z") == b"2030-01-01T00:00:02.000000001Z three\n"


@given(st.lists(st.binary(max_size=5).map(lambda text: text.replace(b"\n", b""))), st.integers(0, 9))
def test_the_last_lines_are_the_end_of_all_lines(lines: list[bytes], count: int) -> None:
    texts = [line + b"\n" for line in lines]
    assert last_lines(texts, count) == texts[len(texts) - min(count, len(texts)) :]


def test_options_are_read_as_the_api_says_them() -> None:
    query = {"follow": "true", "tailLines": "3", "sinceSeconds": "60", "timestamps": "0"}
    assert read_options(query, NOW) == LogOptions(follow=True, tail=3, since="2030-01-01T00:00:00Z")


@pytest.mark.parametrize("query", [{"tailLines": "-1"}, {"limitBytes": "x"}, {"sinceTime": "yesterday"}])
def test_an_option_that_makes_no_sense_is_named(query: dict[str, str]) -> None:
    with pytest.raises(BadLogOptions, match=next(iter(query))):
        read_options(query, NOW)

"""Filters' values, pages' tokens, device names, and the table's memory."""

from __future__ import annotations

import re
import time
from fnmatch import translate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.cloud.actions.device_names import same
from mooring.cloud.errors import Ec2Error
from mooring.cloud.records.resources import Token
from mooring.cloud.records.table import Table
from mooring.cloud.requests.filters import accepts
from mooring.cloud.requests.paging import page_of, token_after

LETTERS = st.text("ab*?", max_size=6)


@given(pattern=LETTERS, given_=st.text("ab", max_size=6))
def test_wildcards_match_as_in_a_shell(pattern: str, given_: str) -> None:
    assert accepts([pattern])(given_) == bool(re.match(translate(pattern), given_))


@given(st.text(max_size=8))
def test_an_escaped_value_matches_itself_only(value: str) -> None:
    escaped = "".join("\\" + sign if sign in "*?\\" else sign for sign in value)
    assert accepts([escaped])(value)
    assert not accepts([escaped])(value + "x")


@given(st.text("abcdef0123456789-", max_size=30))
def test_a_token_leads_behind_the_id_it_was_made_of(id: str) -> None:
    request = {"NextToken": token_after("DescribeVolumes", id), "MaxResults": 7}
    assert page_of("DescribeVolumes", request, 5, 500, with_ids=True) == ("DescribeVolumes", 7, id)


def test_every_name_of_the_list_is_another_name() -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    names = [f"/dev/xvd{one}{two}" for one in "abcd" for two in letters] + [
        f"/dev/sd{one}" for one in letters
    ]
    assert len({same(name) for name in names}) == len(names)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.floats(0.1, 3)), max_size=40),
    st.floats(0, 5),
)
def test_a_table_knows_what_was_at_any_time_that_it_keeps(
    changes: list[tuple[str, int, float]], back: float
) -> None:
    table: Table[Token] = Table(lambda: 5.0)
    now, history = 100.0, [(100.0, dict[str, int]())]
    for id, used, gap in changes:
        now += gap
        state = dict(history[-1][1])
        if used:
            table.put(Token(id=id, digest="", resources=(), used=used), now)
            state[id] = used
        else:
            table.remove(id, now)
            state.pop(id, None)
        history.append((now, state))
    time = now - back
    then = [state for at, state in history if at <= time] or [{}]
    found = {id: table.as_of(id, time) for id in table.ids(time)}
    assert {id: one.used for id, one in found.items() if one} == then[-1]


def test_wildcards_take_time_by_the_length_of_the_text() -> None:
    accept = accepts(["*a" * 60 + "*b", "?*" * 60 + "b"])
    begun = time.process_time()
    assert not accept("a" * 255)
    assert time.process_time() - begun < 1  # backtracking would take years
    assert accept("a" * 255 + "b")


def test_a_value_that_no_pattern_can_be_made_of_is_refused() -> None:
    for value in ("*" + "ab?" * 400_000, "\ud800*"):
        with pytest.raises(Ec2Error, match="too long, or no text"):
            accepts([value])

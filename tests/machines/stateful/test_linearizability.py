"""The checker of registers: against histories that a register made, against damaged ones, and against the
definition."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machines.stateful.history import NEVER, Kind, Operation
from tests.machines.stateful.linearizability import Verdict, judge, judge_register


def put(value: int, called: float, returned: float = NEVER) -> Operation:
    return Operation("r", Kind.PUT, called, returned, value)


def get(value: int, called: float, returned: float) -> Operation:
    return Operation("r", Kind.GET, called, returned, value)


def cas(expected: int, value: int, called: float, returned: float = NEVER) -> Operation:
    return Operation("r", Kind.CAS, called, returned, value, expected)


def verdict(*history: Operation) -> Verdict:
    return judge_register("r", history).verdict


def by_definition(history: list[Operation]) -> bool:
    """Tries every order of every choice of the operations without an answer."""
    known = [each for each in history if each.known]
    unknown = [each for each in history if not each.known]
    for choice in range(1 << len(unknown)):
        taken = known + [each for bit, each in enumerate(unknown) if choice >> bit & 1]
        if any(_explains(order) for order in permutations(taken)):
            return True
    return False


def _explains(order: tuple[Operation, ...]) -> bool:
    state, latest = 0, 0.0
    for each in order:
        if each.returned < latest:
            return False
        latest = max(latest, each.called)
        after = each.apply(state)
        if after is None:
            return False
        state = after
    return True


@st.composite
def small_histories(draw: st.DrawFn) -> list[Operation]:
    """Up to six operations on few values, so that about half of them are linearizable."""
    history: list[Operation] = []
    for _ in range(draw(st.integers(1, 6))):
        called = draw(st.integers(0, 12))
        returned = draw(st.one_of(st.just(NEVER), st.integers(called + 1, called + 6)))
        kind = draw(st.sampled_from(Kind))
        value, expected = draw(st.integers(0 if kind is Kind.GET else 1, 3)), draw(st.integers(0, 3))
        history.append(Operation("r", kind, called, returned, value, expected))
    return history


def made_by_a_register(seed: int, count: int = 60) -> list[Operation]:
    """What five clients see of a correct register: each operation takes effect within its time; the answers
    of some are lost, and some of those have had no effect."""
    random, state, history = Random(seed), 0, list[Operation]()
    effects = sorted(random.uniform(0, count) for _ in range(count))
    for value, at in enumerate(effects, 1):
        called, returned = at - random.uniform(0.01, 3), at + random.uniform(0.01, 3)
        kind, lost = random.choice(list(Kind)), random.random() < 0.2
        if lost:
            returned = NEVER
            if random.random() < 0.5:
                history.append(Operation("r", kind, called, NEVER, value, state))
                continue
        expected = state if random.random() < 0.6 else value + 1000
        if kind is Kind.GET or (kind is Kind.CAS and expected != state and not lost):
            history.append(Operation("r", Kind.GET, called, returned, state))
            continue
        history.append(Operation("r", kind, called, returned, value, expected))
        state = value if kind is Kind.PUT or expected == state else state
    return history


@given(small_histories())
def test_it_agrees_with_the_definition(history: list[Operation]):
    assert (judge_register("r", history).verdict is Verdict.LINEARIZABLE) == by_definition(history)


@given(st.integers(0, 1 << 32))
def test_what_a_correct_register_did_is_linearizable(seed: int):
    assert judge_register("r", made_by_a_register(seed)).verdict is Verdict.LINEARIZABLE


@given(st.integers(0, 1 << 32))
def test_a_read_of_what_was_overwritten_before_it_began_is_found(seed: int):
    history = made_by_a_register(seed)
    end = 1000.0
    stale = [put(7001, end, end + 1), put(7002, end + 2, end + 3), get(7001, end + 4, end + 5)]
    assert judge_register("r", [*history, *stale]).verdict is Verdict.VIOLATED


@given(st.integers(0, 1 << 32))
def test_a_read_of_a_value_that_was_never_written_is_found(seed: int):
    history = made_by_a_register(seed)
    reads = [index for index, each in enumerate(history) if each.kind is Kind.GET and each.known]
    if reads:
        history[reads[0]] = replace(history[reads[0]], value=9999)
        assert judge_register("r", history).verdict is Verdict.VIOLATED


def test_an_acknowledged_write_that_is_lost_is_found():
    assert verdict(put(1, 0, 1), put(2, 2, 3), get(1, 4, 5)) is Verdict.VIOLATED


def test_a_write_without_an_answer_may_happen_late_or_never():
    assert verdict(put(1, 0, 1), put(2, 2), get(1, 4, 5), get(2, 6, 7)) is Verdict.LINEARIZABLE
    assert verdict(put(1, 0, 1), put(2, 2), get(1, 4, 5), get(1, 6, 7)) is Verdict.LINEARIZABLE


def test_a_write_without_an_answer_happens_once():
    assert verdict(put(2, 0), get(2, 2, 3), put(1, 4, 5), get(2, 6, 7)) is Verdict.VIOLATED


def test_two_swaps_of_one_value_cannot_both_succeed():
    assert verdict(put(1, 0, 1), cas(1, 2, 2, 5), cas(1, 3, 3, 6)) is Verdict.VIOLATED


def test_a_swap_without_an_answer_may_have_found_what_it_expected_or_not():
    assert verdict(put(1, 0, 1), cas(1, 2, 2), get(2, 4, 5)) is Verdict.LINEARIZABLE
    assert verdict(put(1, 0, 1), cas(1, 2, 2), get(1, 4, 5)) is Verdict.LINEARIZABLE
    assert verdict(put(1, 0, 1), cas(3, 2, 2), get(2, 4, 5)) is Verdict.VIOLATED


def test_what_cannot_be_next_is_named():
    found = judge_register("r", [put(1, 0, 1), put(2, 2, 3), get(1, 4, 5)])
    assert found.stuck == (get(1, 4, 5),)


def test_it_gives_up_rather_than_searching_for_ever():
    history = [put(value, 0, 100) for value in range(1, 30)] + [get(99, 200, 201)]
    assert judge_register("r", history, steps=1000).verdict is Verdict.GAVE_UP


def test_each_register_is_judged_on_its_own():
    good, bad = put(1, 0, 1), replace(get(3, 2, 3), key="s")
    assert [(each.key, each.verdict) for each in judge([good, bad])] == [
        ("r", Verdict.LINEARIZABLE),
        ("s", Verdict.VIOLATED),
    ]


@pytest.mark.parametrize("count", [3000])
def test_a_long_history_is_judged_whole(count: int):
    found = judge_register("r", made_by_a_register(1, count))
    assert found.verdict is Verdict.LINEARIZABLE
    assert found.steps < 100 * count

"""Which order comes next, and what the answer to one is worth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mooring.controllers.fencing.ladder import (
    HEAR_OUT_S,
    MOST_ATTEMPTS,
    MOST_KEPT,
    Step,
    doubtful,
    is_asked_for,
    judge,
    kept,
    next_step,
)
from mooring.fence.interface import Answer, Look, Outcome, State
from mooring.kube.objects.fencing import FenceAttempt, NodeFence, NodeFenceStatus, Rung

LADDER = (Rung(mechanism="bmc", retries=1), Rung(mechanism="strip", retries=0, confirm_with=("bmc",)))


def attempt(
    rung: int, outcome: str = "Unknown", *, round_: int = 0, reason: str = "", token: str = "t"
) -> FenceAttempt:
    return FenceAttempt(
        round=round_, rung=rung, mechanism=LADDER[rung].mechanism, token=token, outcome=outcome, reason=reason
    )


def where(step: Step | None) -> tuple[int, bool] | None:
    return (step.rung, step.again) if step is not None else None


@pytest.mark.parametrize(
    ("attempts", "round_", "found"),
    [
        ([], 0, (0, False)),
        ([attempt(0, "")], 0, (0, True)),
        ([attempt(0)], 0, (0, False)),
        ([attempt(0), attempt(0, "NotFenced")], 0, (1, False)),
        ([attempt(0, reason="Contradicted")], 0, (1, False)),
        ([attempt(0, reason="SecondSourceNeeded")], 0, (1, False)),
        ([attempt(0), attempt(0), attempt(1)], 0, None),
        ([attempt(0), attempt(0), attempt(1)], 1, (0, False)),
        ([attempt(1, "")], 0, (1, True)),
    ],
)
def test_what_is_ordered_next(attempts: list[FenceAttempt], round_: int, found: tuple[int, bool] | None):
    assert where(next_step(LADDER, attempts, round_, "f")) == found


def test_an_order_whose_answer_is_not_known_is_given_again_under_its_token():
    step = next_step(LADDER, [attempt(0, "", token="mine")], 0, "f")
    assert step is not None
    assert step.token == "mine"


def test_an_order_of_a_rung_that_the_policy_does_not_have_any_more_is_not_given_again():
    other = FenceAttempt(rung=0, mechanism="gone", token="t")
    step = next_step(LADDER, [other], 0, "f")
    assert step is not None
    assert (step.mechanism, step.again) == ("bmc", False)


def test_what_came_of_an_order_is_asked_for_a_while_after_its_mechanisms_deadline():
    ordered, until = "2030-01-01T00:00:00.000000Z", "2030-01-01T00:01:00Z"
    asked = FenceAttempt(mechanism="m", token="t", ordered_at=ordered, waits_until=until)
    assert is_asked_for(asked) == 60 + HEAR_OUT_S
    assert is_asked_for(replace(asked, waits_until="")) == 0


@pytest.mark.parametrize(
    ("outcome", "reason", "scope", "doubted"),
    [
        ("", "", "", True),
        ("Unknown", "NoAnswer", "Power", True),
        ("Unknown", "NotHeard", "Storage", False),
        ("Unknown", "Contradicted", "Power", False),
        ("Unknown", "Contradicted", "Storage", True),
        ("NotFenced", "Refused", "Storage", False),
    ],
)
def test_an_order_that_may_have_struck_is_doubtful_until_it_was_heard_out(
    outcome: str, reason: str, scope: str, doubted: bool
):
    of = NodeFence(
        status=NodeFenceStatus(
            attempts=(attempt(0, "NotFenced"), replace(attempt(1, outcome, reason=reason), scope=scope))
        )
    )
    found = doubtful(LADDER, of)
    assert (found is not None) is doubted
    assert found is None or (found.mechanism, found.confirm_with, found.again) == ("strip", ("bmc",), True)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=4),
    st.sampled_from(["NotFenced", "Unknown"]),
)
def test_every_ladder_comes_to_its_end_and_no_token_is_used_twice(rungs: list[tuple[int, int]], outcome: str):
    ladder = [Rung(mechanism=f"m{kind}", retries=retries) for kind, retries in rungs]
    attempts: list[FenceAttempt] = []
    while (step := next_step(ladder, attempts, 0, "f")) is not None:
        attempts.append(
            FenceAttempt(rung=step.rung, mechanism=step.mechanism, token=step.token, outcome=outcome)
        )
        assert len(attempts) <= 12
    assert len(attempts) == sum(retries + 1 for _, retries in rungs)
    assert len({each.token for each in attempts}) == len(attempts)


def said(state: State) -> Look:
    return Look(state, "Read", str(state))


OFF = Answer(Outcome.FENCED, "Off", "it is off", before=State.OPEN)
OFF_ALREADY = Answer(Outcome.FENCED, "Off", "it is off", before=State.SHUT)


@pytest.mark.parametrize(
    ("answer", "looks", "wanted", "seen", "outcome"),
    [
        (OFF, {}, 0, False, Outcome.FENCED),
        (OFF, {"s": State.SHUT}, 1, False, Outcome.FENCED),
        (OFF, {"s": State.OPEN}, 1, True, Outcome.UNKNOWN),
        (OFF, {"s": State.UNKNOWN}, 1, True, Outcome.UNKNOWN),
        (OFF, {"s": State.SHUT, "t": State.OPEN}, 2, True, Outcome.UNKNOWN),
        (OFF, {"s": State.SHUT, "t": State.UNKNOWN}, 2, True, Outcome.FENCED),
        (OFF_ALREADY, {}, 0, False, Outcome.UNKNOWN),
        (OFF_ALREADY, {}, 0, True, Outcome.FENCED),
        (OFF_ALREADY, {"s": State.SHUT}, 1, False, Outcome.FENCED),
        (Answer(Outcome.UNKNOWN, "Silent", "?"), {"s": State.SHUT}, 1, True, Outcome.UNKNOWN),
        (Answer(Outcome.NOT_FENCED, "Refused", "no"), {"s": State.SHUT}, 1, True, Outcome.NOT_FENCED),
    ],
)
def test_what_counts(answer: Answer, looks: dict[str, State], wanted: int, seen: bool, outcome: Outcome):
    confirmations = {name: said(state) for name, state in looks.items()}
    assert judge(answer, confirmations, wanted=wanted, seen_open=seen).outcome is outcome


def test_what_an_order_is_refused_that_was_given_before_says_nothing_of_that():
    refused = Answer(Outcome.NOT_FENCED, "NotUsable", "no")
    assert judge(refused, {}, wanted=0, seen_open=True, again=True).outcome is Outcome.UNKNOWN
    assert judge(OFF, {}, wanted=0, seen_open=True, again=True).outcome is Outcome.FENCED


@given(
    st.sampled_from(list(Outcome)),
    st.sampled_from(list(State)),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from(list(State))),
    st.booleans(),
)
def test_nothing_but_a_mechanisms_own_word_fences_and_a_contradiction_never_does(
    outcome: Outcome, before: State, looks: dict[str, State], seen: bool
):
    answer = Answer(outcome, "C", "m", before=before)
    found = judge(
        answer, {name: said(each) for name, each in looks.items()}, wanted=len(looks), seen_open=seen
    )
    if found.outcome is Outcome.FENCED:
        assert outcome is Outcome.FENCED
        assert State.OPEN not in looks.values()
        assert before is not State.SHUT or seen or State.SHUT in looks.values()


def test_what_an_order_may_have_shut_out_is_not_forgotten_for_those_that_came_after_it():
    told = [attempt(0, "NotFenced"), attempt(0, reason="NotHeard"), attempt(1, token="doubtful")]
    told += [attempt(0, "Fenced"), attempt(0, reason="Contradicted")]
    later = [attempt(1, "NotFenced", token=str(number)) for number in range(MOST_ATTEMPTS)]
    assert kept([*told, *later]) == (*told[2:], *later)
    assert kept(later) == tuple(later)


def test_a_fence_keeps_no_more_attempts_than_its_kind_has_room_for():
    attempts = [attempt(1, token=str(number)) for number in range(MOST_KEPT + 1)]
    assert kept(attempts) == tuple(attempts[1:])

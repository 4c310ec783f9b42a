"""Waiting, and what is said where it was in vain."""

from __future__ import annotations

import pytest

from mooring.kube.errors import NotFound
from mooring.testing.waiting import LONGEST, NotYet, until


def test_what_the_condition_gives_is_returned():
    looks = iter([None, "", "there"])
    assert until(lambda: next(looks), 5, str) == "there"


def test_an_assertion_that_does_not_hold_yet_is_waited_for():
    looks = iter([False, True])

    def holds() -> bool:
        assert next(looks), "not there"
        return True

    assert until(holds, 5, str)


def test_a_failure_says_what_was_waited_for_what_was_seen_and_what_explains_it():
    with pytest.raises(NotYet) as caught:
        until(lambda: {"phase": "Pending"}.get("message"), 0, lambda: "mooring why pod/x:")
    assert str(caught.value).splitlines() == [
        'not so within 0 s: until(lambda: {"phase": "Pending"}.get("message"), 0, lambda: "mooring why pod/x:")',
        "last seen: None",
        "mooring why pod/x:",
    ]


def test_a_failure_says_which_assertion_did_not_hold():
    def the_pod_runs() -> bool:
        raise AssertionError("phase is Pending")

    with pytest.raises(NotYet, match="the_pod_runs\nlast seen: AssertionError: phase is Pending"):
        until(the_pod_runs, 0, str)


def test_an_error_of_the_api_server_is_waited_out():
    answers = iter([NotFound("no pod", status=404), "there"])

    def ask() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert until(ask, 5, str) == "there"


def test_another_error_of_the_condition_ends_the_wait():
    with pytest.raises(ZeroDivisionError):
        until(lambda: 1 // 0, 5, str)


def test_what_was_seen_is_bounded_and_cannot_act_on_a_terminal():
    def holds() -> bool:
        raise AssertionError("\x1b[2J" + "x" * 2 * LONGEST)

    with pytest.raises(NotYet) as caught:
        until(holds, 0, str)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < LONGEST

"""Second opinions: whoever asks is listened to, what is wrong is told once, and each question is asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from mooring.simulation.checks.second_opinions import QUESTIONS, Question, SecondOpinions, unheard
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.engine.trace import Trace
from mooring.simulation.run import play

SEEDS = (*range(12), 27, 45, 89, 188)
"""EC2 throttles calls in 27, and refuses a device name in 45; in 89 a note is written on a VolumeAttachment,
and in 188 snapshots are taken and restored."""


def _wrong(answer: int, number: int) -> list[str]:
    return [] if answer == 2 * number else [f"{answer}"]


def _double(number: int) -> int:
    return number + number % 3


def _asker() -> Any:
    return SimpleNamespace(__name__="asker", double=_double)


def test_what_is_wrong_is_told_once():
    asker, found, opinions = _asker(), list[tuple[str, str]](), SecondOpinions()
    opinions.follow(Trace(lambda: 0.0), lambda name, words, event: found.append((name, words)))
    with opinions.heard((Question(asker, "double", _wrong),)):
        assert [asker.double(each) for each in (1, 3, 3)] == [2, 3, 3]
    assert (found, opinions.guarded) == ([("D7", "asker.double: 3")], 3)


def test_what_is_awaited_is_judged_when_it_is_answered():
    async def double(number: int) -> int:
        await asyncio.sleep(0)
        return 2 * number

    asker, judged = SimpleNamespace(__name__="asker", double=double), list[tuple[int, int]]()
    question = Question(asker, "double", lambda answer, number: judged.append((answer, number)) or ())
    with SecondOpinions().heard((question,)):
        asked = asker.double(3)
        assert judged == []
        assert asyncio.run(asked) == 6
    assert judged == [(6, 3)]


def test_of_what_is_yielded_all_is_judged_and_all_is_given():
    def several(number: int) -> Iterator[int]:
        yield from range(number)

    asker, judged = SimpleNamespace(__name__="asker", several=several), list[list[int]]()
    question = Question(asker, "several", lambda answer, number: judged.append([*answer]) or ())
    with SecondOpinions().heard((question,)):
        assert [*asker.several(3)] == [0, 1, 2]
    assert judged == [[0, 1, 2]]


def test_after_the_run_production_code_is_as_before():
    asker, opinions = _asker(), SecondOpinions()
    real = asker.double
    with opinions.heard((Question(asker, "double", _wrong),)):
        assert asker.double is not real
    assert asker.double is real


def test_a_bug_that_is_put_in_by_name_is_not_objected_to():
    asker, opinions = _asker(), SecondOpinions()
    with unheard(), opinions.heard((Question(asker, "double", _wrong),)):
        asker.double(1)
    with opinions.heard((Question(asker, "double", _wrong),)):
        asker.double(3)
    assert opinions.guarded == 1


def test_each_question_is_asked_within_a_few_seeds(monkeypatch: Any):
    asked = Counter[str]()
    real = SecondOpinions.follow

    def follow(self: SecondOpinions, *args: Any) -> None:
        self.asked = asked
        real(self, *args)

    monkeypatch.setattr(SecondOpinions, "follow", follow)
    for seed in SEEDS:
        assert play(seed, Scenario(swarm=True)).ok
        if all(asked[str(each)] for each in QUESTIONS):
            break
    assert [str(each) for each in QUESTIONS if not asked[str(each)]] == []


def test_what_was_so_before_is_given_to_the_opinion():
    def put(values: list[int], new: int) -> None:
        values.append(new)

    def opinion(answer: None, before: list[int], values: list[int], new: int) -> list[str]:
        return [f"{before} and {new} became {values}"]

    def before(values: list[int], new: int) -> list[int]:
        return list(values)

    asker, found, opinions = SimpleNamespace(__name__="asker", put=put), list[str](), SecondOpinions()
    opinions.follow(Trace(lambda: 0.0), lambda name, words, event: found.append(words))
    with opinions.heard((Question(asker, "put", opinion, before=before),)):
        asker.put([1], 2)
    assert found == ["asker.put: [1] and 2 became [1, 2]"]


def test_an_error_that_refuses_is_an_answer_and_is_raised():
    def refuse(number: int) -> int:
        raise LookupError(number)

    def opinion(answer: Exception, number: int) -> list[str]:
        return [repr(answer)]

    asker, found, opinions = SimpleNamespace(__name__="asker", refuse=refuse), list[str](), SecondOpinions()
    opinions.follow(Trace(lambda: 0.0), lambda name, words, event: found.append(words))
    question = Question(asker, "refuse", opinion, refusals=(LookupError,))
    with opinions.heard((question,)), pytest.raises(LookupError):
        asker.refuse(1)
    assert found == ["asker.refuse: LookupError(1)"]

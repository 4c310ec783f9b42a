"""What is asked near to what a run asks: a few facts of it are others, and what production code answers is
judged."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from mooring.kube.objects import ObjectMeta, Pod
from mooring.node.volumes.decide import Action
from mooring.node.volumes.volume import PodOperation
from mooring.simulation.checks.second_opinions import Question, SecondOpinions
from mooring.simulation.checks.second_opinions.near import (
    Near,
    Values,
    changed,
    entry,
    one_of_them,
)
from mooring.simulation.engine.trace import Trace


def found_in(values: Values, there: Any) -> list[Any]:
    chance, found = Random(1), list[Any]()
    for _ in range(50):
        new = changed(chance, there, "", values)
        found += [new] if new not in found else []
    return found


def test_what_is_wrong_near_to_what_was_asked_is_objected_to():
    """The slip shows for 12 alone, and only 2 is asked."""

    def double(number: int, *, more: int = 0) -> int:
        return 2 * number + (number == 12) + more

    def judged(answer: int, number: int, *, more: int) -> Iterator[str]:
        if answer != 2 * number + more:
            yield f"{number} is not half of {answer}"

    asker = SimpleNamespace(__name__="asker", double=double)
    found, opinions = list[str](), SecondOpinions(Random(1))
    opinions.follow(Trace(lambda: 0.0), lambda name, words, event: found.append(words))
    for times in (0.0, 1.0, 1.5):
        near = Near((("number", (12,)), ("more", (0,))), times)
        with opinions.heard((Question(asker, "double", judged, near=near),)):
            for _ in range(9):
                assert asker.double(2, more=0) == 4
    assert found == ["asker.double: 12 is not half of 25"]
    assert 9 * 5 <= opinions.asked["asker.double"] < 9 * 7


def test_it_is_asked_beside_as_often_as_is_said():
    chance = Random(1)
    assert [Near((), 0.0).number(chance) for _ in range(9)] == [0] * 9
    assert [Near((), 2.0).number(chance) for _ in range(9)] == [2] * 9
    assert 10 < sum(Near((), 0.2).number(chance) for _ in range(100)) < 30


def test_a_refusal_near_to_what_was_asked_is_an_answer():
    def root(number: int) -> int:
        if number < 0:
            raise ValueError
        return number

    answers = list[Any]()

    def judged(answer: Any, number: int) -> Iterator[str]:
        answers.append(answer)
        return iter(())

    asker = SimpleNamespace(__name__="asker", root=root)
    question = Question(asker, "root", judged, refusals=(ValueError,), near=Near((("number", (-1,)),), 1.0))
    with SecondOpinions().heard((question,)):
        assert asker.root(4) == 4
        with pytest.raises(ValueError):
            asker.root(-4)
    assert [each if isinstance(each, int) else type(each) for each in answers] == [
        ValueError,
        4,
        ValueError,
    ] * 1 + [ValueError]


@pytest.mark.parametrize("more", [{}, {"most": 2}, {"most": 4}])
def test_up_to_three_facts_are_others_or_as_many_as_is_said(more: dict[str, int]):
    def of(a: int, b: int, c: int, d: int) -> None: ...

    near, chance = Near([(name, (1,)) for name in "abcd"], 1.0, **more), Random(1)
    asked = signature(of).bind(0, 0, 0, 0)
    drawn = [near.drawn(chance, asked) for _ in range(200)]
    assert {sum(each.args) for each in drawn if each is not None} == {*range(1, more.get("most", 3) + 1)}
    assert asked.args == (0, 0, 0, 0)


def test_what_cannot_be_is_not_asked_nor_anything_near_to_it():
    def of(number: int) -> None: ...

    near, chance = Near([("number", (1, 2))], 1.0, possible=lambda number: number != 2), Random(1)
    asked = signature(of).bind(0)
    assert {each.args if each else None for each in (near.drawn(chance, asked) for _ in range(50))} == {
        None,
        (1,),
    }
    assert not any(near.drawn(chance, signature(of).bind(2)) for _ in range(50))


def test_a_place_is_in_objects_and_mappings():
    chance = Random(1)
    pod = Pod(metadata=ObjectMeta(name="a", labels={"b": "c"}))
    assert changed(chance, pod, "metadata.name", ("x",)).name == "x"
    assert changed(chance, pod, "metadata.labels.b", ("x",)).metadata.labels == {"b": "x"}
    assert changed(chance, {"a": None}, "a.b", ("x",)) == {"a": None}
    assert changed(chance, {}, "a", ("x",)) == {"a": "x"}
    operation = PodOperation(Action.SET_UP)
    assert not changed(chance, operation, "under_way", (False,)).under_way
    assert operation.under_way
    assert pod.name == "a"
    assert pod.metadata.labels == {"b": "c"}


def test_one_of_several_is_another():
    values = one_of_them(("a", (1,)))
    assert found_in(values, ()) == [()]
    assert found_in(values, ({"a": 0}, {"a": 0})) in (
        [({"a": 1}, {"a": 0}), ({"a": 0}, {"a": 1})],
        [({"a": 0}, {"a": 1}), ({"a": 1}, {"a": 0})],
    )
    assert found_in(values, [{"a": 0}]) == [[{"a": 1}]]
    assert found_in(values, {5: {"a": 0}}) == [{5: {"a": 1}}]


def test_an_entry_is_there_or_not():
    found = found_in(entry("a", "x", "y"), {"a": "x", "b": "c"})
    assert sorted(found, key=len) == [{"b": "c"}, {"b": "c", "a": "y"}]
    assert {"a": "x"} in found_in(entry("a", "x"), {})

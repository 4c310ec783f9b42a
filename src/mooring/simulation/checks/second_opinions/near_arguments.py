"""What production code might as well have been asked: what it was asked, but for one, two or three facts.

Which facts those are is data, for each function by the names of its arguments: what a field may say, what may
be there or not. Nothing that is given is changed: what differs is made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from mooring.simulation.checks.second_opinions.near import Near, Values, changed

Arguments = dict[str, Any]
Change = Callable[[Random, Any], Any]
"""Takes what is there, and returns something else in its place."""
Fact = Callable[[Random, Arguments], Arguments]
"""Takes all arguments, and returns those of them that are others."""


def near_to(
    facts: Sequence[Fact], share: float, agree: Callable[[Arguments], Arguments | None] = lambda asked: asked
) -> Near:
    """What else a function is asked, in a `share` of the times that it is asked. `agree`: what follows from
    what was changed, as one argument is often looked up by another; None: there is no such state."""

    def of_all(fact: Fact) -> tuple[str, Values]:
        return "", lambda chance, asked: asked | fact(chance, asked)

    return Near([of_all(each) for each in facts], share, agree=agree)


def of(argument: str, *changes: Change) -> tuple[Fact, ...]:
    """Facts about one argument, if it is there."""

    def fact(change: Change) -> Fact:
        return lambda chance, asked: (
            {argument: change(chance, asked[argument])} if asked.get(argument) is not None else {}
        )

    return tuple(map(fact, changes))


def of_one(argument: str, *changes: Change) -> tuple[Fact, ...]:
    """Facts about one of several."""

    def one(change: Change) -> Change:
        def one_changed(chance: Random, several: Sequence[Any]) -> list[Any]:
            place = chance.randrange(len(several)) if several else -1
            return [change(chance, each) if n == place else each for n, each in enumerate(several)]

        return one_changed

    return of(argument, *map(one, changes))


def given(argument: str, *values: Any) -> Fact:
    """An argument is one of these."""
    return lambda chance, asked: {argument: chance.choice(values)} if argument in asked else {}


def said(path: str, *values: Any) -> Change:
    """A field says one of these, if there is such a field."""
    return at(path, lambda chance, field: chance.choice(values))


def keyed(path: str, key: str, *values: Any) -> Change:
    """What a mapping has under a key it has not, or the other way round."""

    def change(chance: Random, before: Mapping[str, Any]) -> dict[str, Any]:
        others = {name: value for name, value in before.items() if name != key}
        return others if key in before else {**others, key: chance.choice(values)}

    return at(path, change)


def listed(path: str, item: Any) -> Change:
    """What is in a list is not, or the other way round."""

    def change(chance: Random, before: Sequence[Any]) -> tuple[Any, ...]:
        others = tuple(each for each in before if each != item)
        return others if item in before else (*others, item)

    return at(path, change)


def at(path: str, change: Change) -> Change:
    """The change of a field of a field; of what is not there nothing is changed."""
    return lambda chance, one: changed(chance, one, path, change)

"""What production code might as well have been asked: arguments that differ from those of a run in a few
facts, as another run, or a cluster of another kind, would have them.

A rule holds in every state, and a run reaches few of those that need two or three causes at once. So pure
functions are asked about some of them beside, and their answers are judged by the same opinion. What is drawn
comes from a stream of chance of its own: a run is the same with and without.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from inspect import BoundArguments
from random import Random
from typing import Any, NamedTuple, cast

import msgspec

Values = Sequence[Any] | Callable[[Random, Any], Any]
"""What may be in a place: one of these, or what is drawn by what is there."""
Fact = tuple[str, Values]
"""A place, and what may be there. A place is a path of names, separated by dots, that begins with an
argument's; "" is all arguments, by their names."""
MOST_FACTS = 3
"""That are others, where nothing else is said."""
ANOTHER = "another"
"""A name, or a uid, that no run has."""
LONG_AGO, FAR_OFF = "2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
BOTH = (True, False)
ENDS = (None, LONG_AGO)
"""When the deletion of an object has begun."""


def _always(*args: Any, **kwargs: Any) -> bool:
    return True


def _as_it_is(arguments: dict[str, Any]) -> dict[str, Any] | None:
    return arguments


class Near(NamedTuple):
    """Of a pure function. `facts`: those that may be others; what is there more than once is drawn more
    often. `times`: how often something is asked beside a question of a run, on average: it costs time.
    `possible`: takes what is asked; whether the function can be asked that, and the rule is about it.
    `most`: facts that are others; more where a rule needs more causes at once. `agree`: what follows from
    what was changed, as one argument is often looked up by another; None: nothing that could be asked."""

    facts: Sequence[Fact]
    times: float
    possible: Callable[..., bool] = _always
    most: int = MOST_FACTS
    agree: Callable[[dict[str, Any]], dict[str, Any] | None] = _as_it_is

    def number(self, chance: Random) -> int:
        """How often something is asked beside one question."""
        return int(self.times + chance.random())

    def drawn(self, chance: Random, asked: BoundArguments) -> BoundArguments | None:
        """A few facts away from what was asked; None if that is not possible."""
        if not self.possible(*asked.args, **asked.kwargs):
            return None
        arguments: Any = asked.arguments
        for _ in range(chance.randint(1, self.most)):
            arguments = changed(chance, arguments, *chance.choice(self.facts))
        arguments = self.agree(arguments)
        if arguments is None:
            return None
        near = BoundArguments(asked.signature, arguments)
        return near if self.possible(*near.args, **near.kwargs) else None


def changed(chance: Random, one: Any, path: str, values: Values) -> Any:
    """The same but for what is in that place. What is not there has no parts that could be others."""
    if not path:
        return values(chance, one) if callable(values) else chance.choice(values)
    name, _, rest = path.partition(".")
    part = _part(one, name)
    if rest and part is None:
        return one
    return with_fields(one, {name: changed(chance, part, rest, values)})


def _part(one: Any, name: str) -> Any:
    return cast("dict[str, Any]", one).get(name) if isinstance(one, dict) else getattr(one, name, None)


def with_fields(one: Any, fields: dict[str, Any]) -> Any:
    """The same but for these fields."""
    if isinstance(one, dict):
        return cast("dict[str, Any]", one) | fields
    if isinstance(one, msgspec.Struct):
        return msgspec.structs.replace(one, **fields)
    return dataclasses.replace(one, **fields)


def one_of_them(*facts: Fact) -> Values:
    """Of one of those in a list, a tuple, or a dictionary, one of these facts is another."""

    def drawn(chance: Random, them: Any) -> Any:
        if not them:
            return them
        keys: list[Any] = list(cast("dict[Any, Any]", them) if isinstance(them, dict) else range(len(them)))
        key, fact = chance.choice(keys), chance.choice(facts)
        new = changed(chance, them[key], *fact)
        if isinstance(them, dict):
            return {**cast("dict[Any, Any]", them), key: new}
        return type(them)([*them[:key], new, *them[key + 1 :]])

    return drawn


def entry(name: str, *values: str) -> Values:
    """Of a mapping: it is there with one of these values, or it is not."""

    def drawn(chance: Random, there: Mapping[str, str]) -> dict[str, str]:
        others = {each: value for each, value in there.items() if each != name}
        value = chance.choice((None, *values))
        return others if value is None or there.get(name) == value else {**others, name: value}

    return drawn


def among(ours: frozenset[str], one: str, there: bool) -> frozenset[str]:
    """The same, with or without that one."""
    return ours | {one} if there else ours - {one}

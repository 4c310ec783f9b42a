"""A question that production code is asked while a run is played, and who else is asked it.

An opinion is the rule written a second time, from where the rule comes from, and in another way than
production code has it: what must be true of an answer, not the steps that lead to it. So a slip in one of
them shows. It is pure, never changes what it is given, and knows nothing of how the answer was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from mooring.simulation.checks.second_opinions.near import Near

Opinion = Callable[..., Iterable[str]]
"""Takes the answer, and what was asked, as production code was given it; returns what is wrong with it."""


class Question(NamedTuple):
    """`owner.name` is where production code asks: a module that has the function among its names, or a class
    that has it as a method, which is then given `self`, too. An async one is judged when it has answered,
    one that yields when all is there.

    `before`: takes what was asked, before production code answers; what it returns is given to the opinion
    between answer and question. `refusals`: errors that are answers, too. `near`: of a pure function that
    is asked about values alone, what else it is asked, and judged by, beside: what is near to what the run
    asks, and what it need not ask itself.
    """

    owner: Any
    name: str
    opinion: Opinion
    before: Callable[..., Any] | None = None
    refusals: tuple[type[Exception], ...] = ()
    near: Near | None = None

    def __hash__(self) -> int:
        return id(self)

    def __str__(self) -> str:
        return f"{self.owner.__name__}.{self.name}"

"""Listens to what production code asks, and hands the answer on as it is, whatever the opinion about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from functools import wraps
from inspect import BoundArguments, Signature, iscoroutinefunction, signature
from random import Random
from typing import Any, cast
from unittest.mock import patch

from mooring.simulation.checks.invariants.checker import Found
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.engine.event_loop import current_actor
from mooring.simulation.engine.trace import Event, Trace

_silent: list[None] = []
"""One for each context of `unheard` that is entered."""


@contextmanager
def unheard() -> Generator[None, None, None]:
    """While the context is entered no run has second opinions: a bug that was put in on purpose is to be
    found by the harm that it does, and not by the slip that it is."""
    _silent.append(None)
    try:
        yield
    finally:
        _silent.pop()


class SecondOpinions:
    """D7, on one run. `guarded`: how many questions were asked; `asked`: how often each was. `chance` draws
    what is asked beside."""

    name = "D7"

    def __init__(self, chance: Random | None = None) -> None:
        self._chance = chance or Random(0)  # nosec B311 # what is drawn is no secret
        self.guarded = 0
        self.asked: Counter[str] = Counter()
        self._told: set[tuple[str, str]] = set()
        self._object: Callable[[str, str], None] = lambda question, words: None

    def follow(self, trace: Trace, found: Found) -> None:
        """What is wrong is told of there from now on, once."""

        def tell(event: Event) -> None:
            found(self.name, f"{event.fields['question']}: {event.fields['words']}", event)

        def object_to(question: str, words: str) -> None:
            actor = current_actor()
            trace(actor.name if actor else "plan", "truth.objected", question=question, words=words)

        trace.listen("truth.objected", tell)
        self._object = object_to

    @contextmanager
    def heard(self, questions: Iterable[Question]) -> Generator[None, None, None]:
        """While the context is entered all that ask are listened to. Not for use from several threads."""
        with ExitStack() as stack:
            for each in () if _silent else questions:
                real = each.owner.__dict__[each.name]
                stack.enter_context(patch.object(each.owner, each.name, self._listening(each, real)))
            yield

    def _listening(self, question: Question, real: Callable[..., Any]) -> Callable[..., Any]:
        name, before, refusals = str(question), question.before, question.refusals
        given = signature(real) if question.near is not None else Signature()

        def judge(answer: Any, asked: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self.guarded += 1
            self.asked[name] += 1
            for words in question.opinion(answer, *asked, **kwargs):
                if (name, words) not in self._told:
                    self._told.add((name, words))
                    self._object(name, words)

        def answer_to(asked: BoundArguments) -> Any:
            try:
                return real(*asked.args, **asked.kwargs)
            except refusals as refusal:
                return refusal

        def ask_near(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if question.near is None or not (number := question.near.number(self._chance)):
                return
            asked = given.bind(*args, **kwargs)
            asked.apply_defaults()
            for _ in range(number):
                if (near := question.near.drawn(self._chance, asked)) is not None:
                    judge(answer_to(near), near.args, near.kwargs)

        @wraps(real)
        def listening(*args: Any, **kwargs: Any) -> Any:
            asked = args if before is None else (before(*args, **kwargs), *args)
            ask_near(args, kwargs)
            try:
                answer = real(*args, **kwargs)
            except refusals as refusal:
                judge(refusal, asked, kwargs)
                raise
            if isinstance(answer, Generator):  # what it yields is judged when all is there
                answers = [*cast("Generator[Any]", answer)]
                judge(answers, asked, kwargs)
                return iter(answers)
            judge(answer, asked, kwargs)
            return answer

        @wraps(real)
        async def listening_until_answered(*args: Any, **kwargs: Any) -> Any:
            asked = args if before is None else (before(*args, **kwargs), *args)
            try:
                answer = await real(*args, **kwargs)
            except refusals as refusal:
                judge(refusal, asked, kwargs)
                raise
            judge(answer, asked, kwargs)
            return answer

        return listening_until_answered if iscoroutinefunction(real) else listening

"""Listens to what production code asks, and hands the answer on as it is, whatever the opinion about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from functools import cache, wraps
from inspect import iscoroutinefunction, signature
from random import Random
from types import GeneratorType
from typing import Any, cast
from unittest.mock import patch

from mooring.simulation.checks.invariants.checker import Found
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.engine.event_loop import current_actor
from mooring.simulation.engine.trace import Event, Trace

_silent: list[None] = []
"""One for each context of `unheard` that is entered."""
_hearing: list[SecondOpinions] = []
"""Those that are being told; the last one is."""


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
        self.chance = chance or Random(0)  # nosec B311 # what is drawn is no secret
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
                stack.enter_context(patch.object(each.owner, each.name, _listener(each, real)))
            _hearing.append(self)
            stack.callback(_hearing.pop)
            yield

    def judge(
        self, question: Question, name: str, answer: Any, asked: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Objects to what is wrong with the answer."""
        self.guarded += 1
        self.asked[name] += 1
        for words in question.opinion(answer, *asked, **kwargs):
            if (name, words) not in self._told:
                self._told.add((name, words))
                self._object(name, words)


@cache
def _listener(question: Question, real: Callable[..., Any]) -> Callable[..., Any]:
    """What is asked in place of production code, for whatever run that is: to make it takes as long as what
    hundreds of questions take."""
    return _answering_later(question, real) if iscoroutinefunction(real) else _answering(question, real)


def _answering(question: Question, real: Callable[..., Any]) -> Callable[..., Any]:
    name, before, refusals = str(question), question.before, question.refusals
    beside = _beside(question, real) if question.near is not None else None

    @wraps(real)
    def listening(*args: Any, **kwargs: Any) -> Any:
        opinions = _hearing[-1]
        asked = args if before is None else (before(*args, **kwargs), *args)
        if beside is not None:
            beside(opinions, args, kwargs)
        try:
            answer = real(*args, **kwargs)
        except refusals as refusal:
            opinions.judge(question, name, refusal, asked, kwargs)
            raise
        if isinstance(answer, GeneratorType):  # what it yields is judged when all is there
            answers = [*cast("Generator[Any]", answer)]
            opinions.judge(question, name, answers, asked, kwargs)
            return iter(answers)
        opinions.judge(question, name, answer, asked, kwargs)
        return answer

    return listening


def _answering_later(question: Question, real: Callable[..., Any]) -> Callable[..., Any]:
    name, before, refusals = str(question), question.before, question.refusals

    @wraps(real)
    async def listening(*args: Any, **kwargs: Any) -> Any:
        opinions = _hearing[-1]
        asked = args if before is None else (before(*args, **kwargs), *args)
        try:
            answer = await real(*args, **kwargs)
        except refusals as refusal:
            opinions.judge(question, name, refusal, asked, kwargs)
            raise
        opinions.judge(question, name, answer, asked, kwargs)
        return answer

    return listening


def _beside(
    question: Question, real: Callable[..., Any]
) -> Callable[[SecondOpinions, tuple[Any, ...], dict[str, Any]], None]:
    """Asks what is near to a question, and has it judged."""
    name, near, given, refusals = str(question), question.near, signature(real), question.refusals
    assert near is not None

    def ask(opinions: SecondOpinions, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for _ in range(near.number(opinions.chance)):
            asked = given.bind(*args, **kwargs)
            asked.apply_defaults()
            if (drawn := near.drawn(opinions.chance, asked)) is None:
                continue
            try:
                answer = real(*drawn.args, **drawn.kwargs)
            except refusals as refusal:
                answer = refusal
            opinions.judge(question, name, answer, drawn.args, drawn.kwargs)

    return ask

"""D7: what production code decides is what the rules say, which are written here a second time.

Whenever production code asks a question of `QUESTIONS`, in any state that a run reaches, the opinion about it
is asked as well, of the same. Where both are wrong in the same way nothing is found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any
from unittest.mock import patch

from mooring.simulation.checks.invariants.checker import Found
from mooring.simulation.checks.second_opinions import (
    attach_caches,
    attach_states,
    attach_writes,
    attacher_requests,
    attacher_steps,
    attaching,
    mounting,
    node_operations,
    node_states,
    releasing,
    statefulsets,
)
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.engine.event_loop import current_actor
from mooring.simulation.engine.trace import Event, Trace

__all__ = ["QUESTIONS", "Question", "SecondOpinions"]

QUESTIONS: tuple[Question, ...] = (
    *attach_caches.QUESTIONS,
    *attach_states.QUESTIONS,
    *attach_writes.QUESTIONS,
    *attacher_requests.QUESTIONS,
    *attacher_steps.QUESTIONS,
    *attaching.QUESTIONS,
    *mounting.QUESTIONS,
    *node_operations.QUESTIONS,
    *node_states.QUESTIONS,
    *releasing.QUESTIONS,
    *statefulsets.QUESTIONS,
)


class SecondOpinions:
    """D7, on one run. `guarded`: how many questions were asked; `asked`: how often each was."""

    name = "D7"

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self._told: set[tuple[str, str]] = set()
        self._object: Callable[[str, str], None] = lambda question, words: None

    @property
    def guarded(self) -> int:
        return self.asked.total()

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
    def heard(self, questions: tuple[Question, ...] = QUESTIONS) -> Generator[None, None, None]:
        """While the context is entered whoever asks is listened to. Not for use from several threads."""
        with ExitStack() as stack:
            for each in questions:
                real = each.owner.__dict__[each.name]
                stack.enter_context(patch.object(each.owner, each.name, self._listening(each, real)))
            yield

    def _listening(self, question: Question, real: Callable[..., Any]) -> Callable[..., Any]:
        name, before, refusals = str(question), question.before, question.refusals

        def judge(answer: Any, asked: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self.asked[name] += 1
            for words in question.opinion(answer, *asked, **kwargs):
                if (name, words) not in self._told:
                    self._told.add((name, words))
                    self._object(name, words)

        @wraps(real)
        def listening(*args: Any, **kwargs: Any) -> Any:
            asked = args if before is None else (before(*args, **kwargs), *args)
            try:
                answer = real(*args, **kwargs)
            except refusals as refusal:
                judge(refusal, asked, kwargs)
                raise
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

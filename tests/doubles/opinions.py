"""Second opinions that are listened to without a run."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from mooring.simulation.checks.second_opinions import Question, SecondOpinions
from mooring.simulation.engine.trace import Trace


@contextmanager
def objections(questions: Iterable[Question]) -> Generator[list[str]]:
    """What is objected to while the context is entered."""
    found, opinions = list[str](), SecondOpinions()
    opinions.follow(Trace(lambda: 0.0), lambda name, words, event: found.append(words))
    with opinions.heard(tuple(questions)):
        yield found

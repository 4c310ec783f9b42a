"""D7: what production code decides is what the rules say, which are written here a second time.

Whenever production code asks a question of `QUESTIONS`, in any state that a run reaches, the opinion about it
is asked as well, of the same. Where both are wrong in the same way nothing is found.
"""

from __future__ import annotations

from mooring.simulation.checks.second_opinions import statefulsets
from mooring.simulation.checks.second_opinions.listening import SecondOpinions
from mooring.simulation.checks.second_opinions.question import Question

__all__ = ["QUESTIONS", "Question", "SecondOpinions"]

QUESTIONS: tuple[Question, ...] = (*statefulsets.QUESTIONS,)

"""Whether a history of registers is linearizable: whether each operation can have taken effect at one moment
between its call and its return, so that all together explain what was seen. Pure.

The search is Wing and Gong's (1993), with the memory of what was already tried that Lowe added (2017);
registers are judged one by one, since linearizability is local. There is no such checker for Python in a
package that is maintained; this one is compared with the definition itself by a property test.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tests.machines.stateful.history import NEVER, Kind, Operation

STEPS = 300_000
"""So many configurations are looked at for one register; then the checker gives up and says so."""


class Verdict(StrEnum):
    LINEARIZABLE = "linearizable"
    VIOLATED = "not linearizable"
    GAVE_UP = "gave up"


@dataclass(frozen=True)
class Judgement:
    """Of one register. `stuck` are operations of which none can be the next where the search came
    furthest."""

    key: str
    verdict: Verdict
    operations: int
    steps: int
    stuck: tuple[Operation, ...] = ()


def judge(history: Iterable[Operation], steps: int = STEPS) -> list[Judgement]:
    """Returns a judgement of each register, by its name."""
    by_key: dict[str, list[Operation]] = {}
    for operation in history:
        by_key.setdefault(operation.key, []).append(operation)
    return [judge_register(key, by_key[key], steps) for key in sorted(by_key)]


def judge_register(key: str, history: Sequence[Operation], steps: int = STEPS) -> Judgement:
    """Judges the operations of one register, which begins as 0."""
    operations = sorted(_telling(history), key=lambda each: each.called)
    count, needed = len(operations), sum(each.known for each in operations)
    tried: set[tuple[int, frozenset[int], int]] = set()
    todo: list[tuple[tuple[int, frozenset[int], int], int]] = [((0, frozenset(), 0), 0)]
    looked, furthest, stuck = 0, -1, ()
    while todo:
        configuration, done = todo.pop()
        if configuration in tried:
            continue
        tried.add(configuration)
        looked += 1
        if done == needed:
            return Judgement(key, Verdict.LINEARIZABLE, count, looked)
        if looked > steps:
            return Judgement(key, Verdict.GAVE_UP, count, looked)
        first, beyond, state = configuration
        enabled = _enabled(operations, first, beyond)
        if done > furthest:
            furthest, stuck = done, tuple(operations[each] for each in enabled if operations[each].known)
        for each in reversed(enabled):
            after = operations[each].apply(state)
            if after is None or (after == state and not operations[each].known):
                continue
            todo.append(((*_taken(first, beyond, each), after), done + operations[each].known))
    return Judgement(key, Verdict.VIOLATED, count, looked, stuck)


def _telling(history: Sequence[Operation]) -> list[Operation]:
    """Those that can matter. A get without an answer says nothing. A write without one whose value no
    operation has seen or expected explains nothing: in a linearization that has it nothing depends on it, so
    that there is one without it, too."""
    seen = {each.value for each in history if each.kind is Kind.GET and each.known}
    seen |= {each.expected for each in history if each.kind is Kind.CAS}
    return [each for each in history if each.known or (each.kind is not Kind.GET and each.value in seen)]


def _enabled(operations: Sequence[Operation], first: int, beyond: frozenset[int]) -> list[int]:
    """Those not taken yet that were called before every other one of them returned, the earliest return
    first. All before `first` are taken, and those in `beyond`."""
    limit, found = NEVER, list[int]()
    for each in range(first, len(operations)):
        if operations[each].called > limit:
            break
        if each not in beyond:
            found.append(each)
            limit = min(limit, operations[each].returned)
    return sorted(
        (each for each in found if operations[each].called <= limit),
        key=lambda each: operations[each].returned,
    )


def _taken(first: int, beyond: frozenset[int], each: int) -> tuple[int, frozenset[int]]:
    """A configuration's operations with one more, in the one form that all equal sets have."""
    taken = beyond | {each}
    while first in taken:
        taken -= {first}
        first += 1
    return first, taken

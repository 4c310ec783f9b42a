"""Visits every reachable state, checks what must never be, and whether each can still come right.

Safety is checked on each step; liveness by backward reachability: from every state there is a way to a good
one with no fault, and nothing of users, on it.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from mooring.simulation.model.moves import moves
from mooring.simulation.model.settings import Settings
from mooring.simulation.model.state import State, start


class Found(NamedTuple):
    """What a search has seen. `violation` with the shortest way to it; `dead`: states that nothing leads to a
    good one from."""

    states: int
    steps: int
    violation: str = ""
    way: tuple[str, ...] = ()
    dead: int = 0
    dead_way: tuple[str, ...] = ()
    complete: bool = True


def harm(before: State, after: State, settings: Settings) -> str:
    """What must never be, and is after this step; "" if nothing is wrong."""
    for node in range(settings.nodes):
        machine, record = after.machines[node], after.records[node]
        detached = before.storage[node] and not after.storage[node]
        forced = settings.timer and settings.revokes and record is not None and record.forced
        if detached and machine.mounted and machine.power and not forced:
            return f"S7: detached from {node} while mounted"
        if machine.mounted == 2 and machine.power and after.storage[node] and settings.revokes:
            return f"S4': what was mounted on {node} under an earlier attachment writes again"
        if after.storage[node] and record is None:
            return f"S13: attached to {node} without a VolumeAttachment"
    writing = [n for n in range(settings.nodes) if _writes(after, settings, n)]
    return "S4: two nodes write" if len(writing) > 1 else ""


def _writes(state: State, settings: Settings, node: int) -> bool:
    machine = state.machines[node]
    return bool(machine.power and machine.mounted and (settings.storage == "N" or state.storage[node]))


def good(state: State, settings: Settings) -> bool:
    """A node that a pod wants it on has it mounted, and no other node is granted it; or no pod wants it, and
    nothing is left. A VolumeAttachment that came late may stay while a pod waits for its turn there: it is
    worth nothing."""
    if not any(state.wanted):
        return not (any(state.records) or any(state.storage))
    return any(
        wanted and state.machines[node].mounted == 1 and not _granted_elsewhere(state, node)
        for node, wanted in enumerate(state.wanted)
    )


def _granted_elsewhere(state: State, node: int) -> bool:
    others = [
        (at, record)
        for n, (at, record) in enumerate(zip(state.storage, state.records, strict=True))
        if n != node
    ]
    return any(at and (record is None or record.current) for at, record in others)


def search(settings: Settings, *, limit: int = 2_000_000, liveness: bool = True) -> Found:
    """Breadth first, so that the way to a violation is the shortest."""
    first = start(settings.nodes, settings.leaders)
    if settings.standing:
        first = first._replace(wanted=tuple(node in settings.pods for node in range(settings.nodes)))
    numbers: dict[State, int] = {first: 0}
    came: list[tuple[int, str]] = [(-1, "")]
    backwards: list[list[int]] = [[]]
    goals: list[int] = [0] if good(first, settings) else []
    waiting: deque[tuple[int, State]] = deque([(0, first)])
    steps = 0
    while waiting:
        number, state = waiting.popleft()
        for move in moves(state, settings):
            steps += 1
            wrong = harm(state, move.state, settings)
            known = numbers.get(move.state)
            if known is None:
                known = numbers[move.state] = len(came)
                came.append((number, move.name))
                backwards.append([])
                if good(move.state, settings):
                    goals.append(known)
                waiting.append((known, move.state))
            if wrong:
                return Found(len(numbers), steps, wrong, (*_way(came, number), move.name))
            if liveness and not move.environment:
                backwards[known].append(number)
        if len(numbers) > limit:
            return Found(len(numbers), steps, complete=False)
    dead = _dead(backwards, goals) if liveness else []
    return Found(len(numbers), steps, dead=len(dead), dead_way=_way(came, dead[0]) if dead else ())


def _way(came: list[tuple[int, str]], number: int) -> tuple[str, ...]:
    names: list[str] = []
    while number > 0:
        number, name = came[number]
        names.append(name)
    return tuple(reversed(names))


def _dead(backwards: list[list[int]], goals: list[int]) -> list[int]:
    """Those that no good state is reached from."""
    alive = bytearray(len(backwards))
    waiting = list(goals)
    for number in goals:
        alive[number] = 1
    while waiting:
        for before in backwards[waiting.pop()]:
            if not alive[before]:
                alive[before] = 1
                waiting.append(before)
    return [number for number, live in enumerate(alive) if not live]

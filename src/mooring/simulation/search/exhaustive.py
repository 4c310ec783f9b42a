"""All runs of a small cluster that differ from the plain one in at most so many things.

Two nodes, one volume, and two pods that want it one after the other. A thing is a fault at a point
(`fault_points`), or another part coming first where several could. What counts happens in a window of the
story, in which the volume moves, and of the points those of the attach/detach side and of the nodes. A run
with the same trace as the run that it differs from is not followed further. So a bound is exhausted, and not
all that could happen.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from mooring.simulation.cluster.plan import Plan
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.engine.event_loop import SimulationLoop
from mooring.simulation.engine.randomness import ReplayedOrder
from mooring.simulation.run import Outcome, play
from mooring.simulation.search.summary import Summary
from mooring.simulation.search.systematic import SMALL, ViolatedWithoutFaults, story

WINDOW = (30.0, 45.0)
"""Seconds: from the drain of the first node until the volume is mounted on the second."""
PARTS = ("attaching", "n0", "n1")


class Node(msgspec.Struct, frozen=True):
    """A run by what it differs in from the plain one; the last of it at the `after`-th callback."""

    faults: Plan = ()
    choices: dict[int, int] = {}
    after: int = 0
    depth: int = 1
    """How many things more may differ, this run's last included."""


class Noting(ReplayedOrder):
    """Notes in the window which parts other than the first could have come first."""

    def __init__(self, choices: Mapping[int, int]) -> None:
        super().__init__(choices)
        self.others: list[
            tuple[int, int, int]
        ] = []  # at which callback, which choice, and what it could have been

    def __call__(self, ready: int) -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulationLoop)
        if WINDOW[0] <= loop.time() < WINDOW[1]:
            known = {loop.whose(0)}
            for position in range(1, ready):
                if (whose := loop.whose(position)) not in known:
                    known.add(whose)
                    self.others.append((loop.steps, self.number + 1, position))
        return super().__call__(ready)


def roots(depth: int) -> list[Node]:
    """The runs that differ from the plain one in one thing, always in the same order. Raises
    `ViolatedWithoutFaults`."""
    outcome, nodes = _played(Node(depth=depth + 1))
    if not outcome.ok:
        raise ViolatedWithoutFaults(f"without any fault: {outcome.violations[0]}")
    return nodes


def search(nodes: Sequence[Node], scenario: Scenario) -> Summary:
    """Plays these runs, and all that differ from them in as many things more as they say."""
    plain, summary = play(0, SMALL, plan=story(SMALL), choices={}).digest, Summary()
    counts: Counter[str] = Counter()
    for node in nodes:
        _follow(node, plain, summary, counts)
    summary.counts |= counts
    return summary


def _follow(node: Node, forerunner: str, summary: Summary, counts: Counter[str]) -> None:
    outcome, more = _played(node)
    outcome.points, outcome.choices = [], node.choices
    gc.collect()  # nothing else collects between the runs of one branch, and there are hundreds
    summary.note(outcome)
    if outcome.digest == forerunner:
        counts["came out as the forerunner"] += 1
        return
    for each in more:
        _follow(each, outcome.digest, summary, counts)


def _played(node: Node) -> tuple[Outcome, list[Node]]:
    """The run, and those that differ from it in one thing more, later in the run."""
    noting = Noting(node.choices)
    outcome = play(0, SMALL, plan=(*node.faults, *story(SMALL)), choices=noting, noted=True)
    if node.depth < 2:
        return outcome, []
    more = [
        (point.callback, Node((*node.faults, step), node.choices, point.callback, node.depth - 1))
        for point in outcome.points
        if point.part in PARTS and WINDOW[0] <= point.at < WINDOW[1]
        for step in point.steps()
    ]
    more += [
        (callback, Node(node.faults, node.choices | {number: position}, callback, node.depth - 1))
        for callback, number, position in noting.others
    ]
    return outcome, [each for callback, each in sorted(more, key=_callback) if callback > node.after]


def _callback(found: tuple[int, Node]) -> int:
    return found[0]


def description(nodes: Sequence[Node]) -> str:
    """In what the first runs differ."""
    faults = Counter(step.what for node in nodes for step in node.faults[-1:])
    counted = ", ".join(f"{number} {what}" for what, number in sorted(faults.items()))
    orders = sum(1 for node in nodes if node.choices)
    return f"{len(nodes)} things that may be otherwise: {orders} orders, {counted}"

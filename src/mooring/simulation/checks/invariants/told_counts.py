"""The checkers' own account of what a storage has told of nodes: whether one that reads or writes, as it has
told, is begun to be fenced all the same.

It counts only what nothing excuses from being known: two answers one after the other, about one boot that
does not answer, given to a controller that no fault has struck since the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mooring.controllers.fencing.detection import FRESH_S
from mooring.kube.objects.fencing import NodeFence
from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.objects import object_of
from mooring.simulation.engine.trace import Event, Trace

CONTROLLER = "fencing"
"""The process that is told."""
KNOWN_S = 3.0
"""After so long an answer is known, and what was decided before it is written."""
PENDING = ("", "Pending")


class _Told(NamedTuple):
    boot: str
    moved: Mapping[str, int]
    at: float


class _Moved(NamedTuple):
    """Between `since` and `at` something was counted."""

    boot: str
    since: float
    at: float


class ToldCounts:
    """`storages`: the mechanisms whose word keeps a node from being fenced."""

    def __init__(self, trace: Trace, storages: frozenset[str]) -> None:
        self._storages, self._faults = storages, Faults.of(trace)
        self._asked: set[tuple[str, str]] = set()  # mechanism and node: not answered yet
        self._told: dict[tuple[str, str], _Told] = {}
        self._moved: dict[tuple[str, str], _Moved] = {}
        self._phases: dict[str, str] = {}  # of NodeFences
        self._unknown: set[str] = set()  # nodes that do not answer
        if storages:
            trace.listen("truth.asked-of", self._ask)
            trace.listen("truth.told", self._tell)
            trace.listen("store.written", self._written)
            trace.listen("store.deleted", self._written)

    def _written(self, event: Event) -> None:
        """Of a node that answers, or that is gone, nothing counts that was told before."""
        if event.fields["resource"] != "nodes":
            return
        name, gone = event.fields["name"], event.kind == "store.deleted"
        if not gone and object_of(event).ready == "Unknown":
            self._unknown.add(name)
        else:
            self._unknown.discard(name)
            for key in [each for each in self._told.keys() | self._moved.keys() if each[1] == name]:
                self._told.pop(key, None)
                self._moved.pop(key, None)

    def _ask(self, event: Event) -> None:
        key = event.actor, event.fields["node"]
        if key in self._asked:
            self._told.pop(key, None)  # one was not answered, or two are on their way
        self._asked.add(key)

    def _tell(self, event: Event) -> None:
        key, boot, moved = (event.actor, event.fields["node"]), event.fields["boot"], event.fields["_moved"]
        self._asked.discard(key)
        if key[1] not in self._unknown:
            return  # it was asked before the node answered
        before = self._told.get(key)
        self._told[key] = _Told(boot, moved, event.time)
        if before is None or before.boot != boot:
            return
        if any(many > before.moved.get(session, -1) for session, many in moved.items()):
            self._moved[key] = _Moved(boot, before.at, event.time)

    def against(self, name: str, fence: NodeFence, now: float) -> str:
        """The storage that has told that the node reads or writes, if this write of the fence begins it; ""
        if there is none. What a person has ordered it does not hold."""
        before = self._phases.get(name, "")
        self._phases[name] = fence.status.phase
        target = fence.status.target
        begun = any(each.round == fence.status.round for each in fence.status.attempts)
        if target is None or before not in PENDING or not begun or fence.spec.override:
            return ""
        found = (
            storage
            for (storage, node), seen in self._moved.items()
            if (node, seen.boot) == (target.node_name, target.boot_id) and storage in self._storages
            if self._is_known(seen, now)
        )
        return next(found, "")

    def _is_known(self, seen: _Moved, now: float) -> bool:
        fresh = KNOWN_S < now - seen.at < FRESH_S
        return fresh and not self._faults.disturbed((CONTROLLER,), seen.since)

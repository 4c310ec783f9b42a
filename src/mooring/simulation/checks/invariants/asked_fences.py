"""The checkers' own account of which fences users have asked for: by a NodeFence of theirs, or by a Node's
annotation, which the controller makes one of.

What a NodeFence says of itself counts only while the annotation stood on the Node as it was stored, or did so
lately enough for a late view.
"""

from __future__ import annotations

import math

from mooring.controllers.fencing.names import REQUEST
from mooring.kube.objects.fencing import NodeFence
from mooring.simulation.checks.invariants.objects import object_of
from mooring.simulation.engine.trace import Event, Trace

BY_HAND = "by-hand"
"""Begins the name of a fence that a user has made."""


class AskedFences:
    """`late`: for so many seconds a view may be old."""

    def __init__(self, trace: Trace, late: float) -> None:
        self._late = late
        self._asked_until: dict[str, float] = {}  # node -> until when its annotation stood there
        self._seen: set[str] = set()
        self._taken_up: set[str] = set()  # names of NodeFences
        trace.listen("store.written", self._node)
        trace.listen("store.deleted", self._node_gone)

    def _node(self, event: Event) -> None:
        if event.fields["resource"] != "nodes":
            return
        if REQUEST in object_of(event).metadata.annotations:
            self._asked_until[event.fields["name"]] = math.inf
        else:
            self._ends(event)

    def _node_gone(self, event: Event) -> None:
        if event.fields["resource"] == "nodes":
            self._ends(event)

    def _ends(self, event: Event) -> None:
        node = event.fields["name"]
        if self._asked_until.get(node) == math.inf:
            self._asked_until[node] = event.time

    def is_true(self, name: str, fence: NodeFence, now: float) -> bool:
        """Whether a fence that is written first says truly that it was asked for, if it does so."""
        if name in self._seen:
            return True
        self._seen.add(name)
        if not fence.spec.requested_by or name.startswith(BY_HAND):
            return True
        if now - self._asked_until.get(fence.spec.node_name, -math.inf) > self._late:
            return False
        self._taken_up.add(name)
        return True

    def has(self, name: str) -> bool:
        """Whether users have asked for the fence of that name."""
        return name.startswith(BY_HAND) or name in self._taken_up

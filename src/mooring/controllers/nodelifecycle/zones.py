"""How fast the nodes of a zone may be tainted so that their pods go.

When many nodes fall silent at once, it is likelier that the network or this process is at fault than all of
them: pods that run well would be deleted, and could not be made anew elsewhere. So the nodes of a zone get
their NoExecute taints one after the other, in a large disturbed zone very slowly, in a small one not at all;
and where no zone has a node that answers, none gets one. Source: upstream's node life-cycle controller.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import NamedTuple

from mooring.kube.objects import Node

EXCLUDED = "node.kubernetes.io/exclude-disruption"
"""The label of a node that does not count."""
UNHEALTHY_SHARE = 0.55
"""From this share of its nodes on, a zone with more than two silent nodes is disturbed."""
LARGE = 50
"""A zone with more nodes is large."""
EVERY_S, SLOW_S = 10.0, 100.0
"""Seconds between two nodes of a zone; in a large zone that is disturbed."""
_REGION = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_ZONE = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")


class ZoneState(Enum):
    """How many nodes of a zone answer."""

    NORMAL = "Normal"
    PARTIAL = "PartialDisruption"
    FULL = "FullDisruption"


def zone_of(node: Node) -> str:
    """Returns the name of a node's zone, "" if its labels say none."""
    labels = node.metadata.labels
    region, zone = (next((labels[key] for key in keys if key in labels), "") for keys in (_REGION, _ZONE))
    return f"{region}:\x00:{zone}" if region or zone else ""


class _Place(NamedTuple):
    """As what a node counts."""

    zone: str
    answers: bool


def _counts(node: Node | None) -> _Place | None:
    if node is None or EXCLUDED in node.metadata.labels:
        return None
    return _Place(zone_of(node), node.ready == "True")


class Zones:
    """Counts the nodes of each zone that answer, and those that do not."""

    def __init__(self) -> None:
        self._answering: Counter[str] = Counter()
        self._silent: Counter[str] = Counter()

    def note(self, old: Node | None, new: Node | None) -> bool:
        """Counts a change of a node; returns whether a zone's state has changed with it."""
        left, come = _counts(old), _counts(new)
        if left == come:
            return False
        before = self.states()
        for place, by in ((left, -1), (come, +1)):
            if place is not None:
                (self._answering if place.answers else self._silent)[place.zone] += by
        return self.states() != before

    def states(self) -> dict[str, ZoneState]:
        """Returns the state of each zone that has nodes."""
        zones = {*self._answering, *self._silent}
        return {zone: self._state(zone) for zone in sorted(zones) if self._size(zone)}

    def _size(self, zone: str) -> int:
        return self._answering[zone] + self._silent[zone]

    def _state(self, zone: str) -> ZoneState:
        silent = self._silent[zone]
        if silent and not self._answering[zone]:
            return ZoneState.FULL
        disturbed = silent > 2 and silent >= UNHEALTHY_SHARE * self._size(zone)
        return ZoneState.PARTIAL if disturbed else ZoneState.NORMAL

    @property
    def all_silent(self) -> bool:
        """Whether no node of any zone answers."""
        states = self.states().values()
        return bool(states) and all(each is ZoneState.FULL for each in states)

    def pause(self, zone: str) -> float | None:
        """Returns the seconds between two nodes of the zone that get NoExecute taints; None if none may."""
        if self.all_silent:
            return None
        if self._state(zone) is ZoneState.PARTIAL:
            return SLOW_S if self._size(zone) > LARGE else None
        return EVERY_S

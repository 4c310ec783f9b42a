"""What each node has said, and since when it says nothing: by the checkers' own clock, from the trace alone.

A sign of life is a renewal of the node's Lease or a status that its agent wrote. A volume is *let go* by a
node when the Node has been seen without it in both lists since it was last reported there as attached. It is
*un-reported* when it goes from the list of what is attached: from then on no boot may begin to use it.
"""

from __future__ import annotations

import math

from mooring.simulation.checks.invariants.objects import StoredObject, disk_of, object_of
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.names import NODE_UID, RECONSTRUCTED, STATUS_WRITE

LEASES = "leases.coordination.k8s.io"
OF_NODES = "kube-node-lease/"
ON_ITS_WAY_S = 1.0
"""A request, at the most, without faults of the network."""


class Report:
    """What is known of one node. Times of the run; `inf`: it is not so now."""

    def __init__(self) -> None:
        self.sign = -math.inf  # its last sign of life
        self.reported_in = 0  # the event in which its agent wrote its status last
        self.lost_in = 0  # the event in which it was set Unknown last, and was not before
        self.unknown_since = math.inf
        self.unknown_until = -math.inf  # when it was Unknown last
        self._unknown_before = math.inf  # since when it was Unknown when its Node was deleted
        self.absent_since = math.inf
        self.absent_until = -math.inf  # when there was no such Node last
        self._was: tuple[float, float, float] = (math.inf, math.inf, -math.inf)
        """Since when it was absent, and silent, before it answered again, and when it did."""
        self.node: StoredObject | None = None
        self.former: StoredObject | None = None  # the one that was there last
        self.reported: frozenset[str] = frozenset()  # disks that it is told are attached
        self.in_use: frozenset[str] = frozenset()
        self.un_reported: dict[str, StoredObject] = {}  # disk -> the Node when it was told so last
        self.held: set[str] = set()  # disks that were reported to it, and that it has not let go
        self.taints: dict[tuple[str, str, str], float] = {}  # NoExecute taints -> since when
        self._renewed: str = ""
        self._status: str = ""

    @property
    def silent_since(self) -> float:
        """Since when it is Unknown, or that there is no such Node, or one after the other; `inf`: neither."""
        return min(self.unknown_since, self.absent_since, self._unknown_before)

    def just_before(self, now: float) -> tuple[float, float]:
        """Since when it is absent, and silent; or was, if it has answered again only while a request may have
        been on its way."""
        absent, silent, until = self._was
        if self.silent_since == math.inf and now - until <= ON_ITS_WAY_S:
            return absent, silent
        return self.absent_since, self.silent_since

    def renewed(self, stamp: str, now: float) -> None:
        """Its Lease was written."""
        if stamp != self._renewed:
            self._renewed, self.sign = stamp, now

    def written(self, node: StoredObject, event: Event) -> None:
        """Its Node was written."""
        now, known = event.time, self.node is not None
        was = self.absent_since, self.silent_since, now
        stamp = node.metadata.annotations.get(STATUS_WRITE, "")
        if stamp != self._status or self.node is None:
            self._status, self.sign, self.reported_in = stamp, now, event.number
        self.absent_until = self.absent_until if self.absent_since == math.inf else now
        self.node, self.absent_since = node, math.inf
        if node.ready != "Unknown":
            self._unknown_before = math.inf
            self.unknown_until = self.unknown_until if self.unknown_since == math.inf else now
            self.unknown_since = math.inf
        elif self.unknown_since == math.inf:
            self.unknown_since = now
            self.lost_in = event.number if known else self.lost_in
        if was[1] < math.inf == self.silent_since:
            self._was = was
        self._lists(node)
        there = [(t.key, t.effect, t.time_added) for t in node.spec.taints if t.effect == "NoExecute"]
        self.taints = {each: self.taints.get(each, now) for each in there}

    def _lists(self, node: StoredObject) -> None:
        former, self.reported = (
            self.reported,
            frozenset(disk_in(each.name) for each in node.status.volumes_attached),
        )
        self.un_reported |= dict.fromkeys(former - self.reported, node)
        for disk in self.reported & self.un_reported.keys():
            del self.un_reported[disk]
        self.in_use = frozenset(map(disk_in, node.status.volumes_in_use))
        self.held = (self.held & self.in_use) | self.reported

    def gone(self, now: float) -> None:
        """Its Node was deleted."""
        self.former, self.node = self.node, None
        self._unknown_before = min(self._unknown_before, self.unknown_since)
        self.absent_since, self.unknown_since = now, math.inf
        self.taints = {}

    def has_let_go(self, attachment: StoredObject, now: float) -> bool:
        """Whether it says, and can know, that the volume of the attachment is not in use there; or its Node
        went while what was asked for upon that was on its way."""
        said = self.node
        if said is None and now - self.absent_since <= ON_ITS_WAY_S:
            said = self.former
        if said is None or attachment.unique_disk in self.held:
            return False
        noted, annotations = attachment.metadata.annotations.get(NODE_UID, ""), said.metadata.annotations
        return not noted or noted == said.metadata.uid or RECONSTRUCTED in annotations


class NodeReports:
    """The reports of all nodes of one trace."""

    def __init__(self, trace: Trace) -> None:
        self._reports: dict[str, Report] = {}
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    @classmethod
    def of(cls, trace: Trace) -> NodeReports:
        """The one of that trace: its checkers share it."""
        return trace.shared(cls)

    def __getitem__(self, node: str) -> Report:
        if node not in self._reports:
            self._reports[node] = Report()
        return self._reports[node]

    def items(self) -> list[tuple[str, Report]]:
        """All nodes that have been heard of."""
        return [*self._reports.items()]

    def _written(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource == "nodes":
            self[name].written(object_of(event), event)
        elif resource == LEASES and name.startswith(OF_NODES):
            self[name.removeprefix(OF_NODES)].renewed(object_of(event).spec.renew_time, event.time)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == "nodes":
            self[event.fields["name"]].gone(event.time)


def disk_in(name: str) -> str:
    """The disk of an entry of a Node's lists: `<plugin>/<volume>`."""
    return disk_of(name.rpartition("/")[2])

"""What an operator's true word about a machine without a Node frees for good.

A word is over as soon as the node reports again (`statements`): it is about a machine that was off then. What
follows from it is not over. The boot that had the volumes has ended, its Node's uid never comes back, and a
later boot begins with nothing mounted: a volume that it was never told of, and has not mounted, is as free as
when the word was said, whether or not there has been a Node of that name since (docs/protocol.md C9, C12b,
C13). So the controller, which may have been away for all of that time, may go by the word.
"""

from __future__ import annotations

from mooring.simulation.checks.invariants.node_reports import ON_ITS_WAY_S, NodeReports
from mooring.simulation.checks.invariants.objects import ATTACHMENTS, StoredObject, object_of
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.names import NODE_UID


class StandingWords:
    """The VolumeAttachments that there were when such a word was said, and the machine was truly off. It
    holds for each while there is no Node, until its volume is listed on the node or mounted there, the
    VolumeAttachment is given to another registration of the node, or the word is taken back."""

    def __init__(self, trace: Trace) -> None:
        self._reports = NodeReports.of(trace)
        self._off: set[str] = set()
        self._there: dict[str, StoredObject] = {}
        self._freed: dict[str, StoredObject] = {}  # VolumeAttachments as they were when the word was said
        trace.listen("truth.power", self._power)
        trace.listen("truth.mounted", self._mounted)
        trace.listen("plan.declared", self._declared)
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    @classmethod
    def of(cls, trace: Trace) -> StandingWords:
        """The one of that trace: its checkers share it."""
        return trace.shared(cls)

    def free(self, name: str, record: StoredObject, now: float) -> bool:
        """Whether such a word holds for this VolumeAttachment: another one may have its name by now. A Node
        may have come while what is carried out was on its way."""
        then, report = self._freed.get(name), self._reports[record.spec.node_name]
        absent = report.node is None or now - report.absent_until <= ON_ITS_WAY_S
        return absent and then is not None and _identity(then) == _identity(record)

    def _power(self, event: Event) -> None:
        (self._off.discard if event.fields["on"] else self._off.add)(event.actor)

    def _declared(self, event: Event) -> None:
        node = event.fields["node"]
        if not event.fields["out"]:
            self._end(node)
        elif node in self._off and self._reports[node].node is None:
            self._freed |= {name: each for name, each in self._there.items() if each.spec.node_name == node}

    def _written(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource == ATTACHMENTS:
            self._there[name] = object_of(event)
        elif resource == "nodes":
            self._end(name, self._reports[name].reported)

    def _mounted(self, event: Event) -> None:
        self._end(event.fields["node"], frozenset({event.fields["volume"]}))

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == ATTACHMENTS:
            self._there.pop(event.fields["name"], None)

    def _end(self, node: str, disks: frozenset[str] | None = None) -> None:
        """The node may have these disks again; None: all of them."""
        self._freed = {
            name: each
            for name, each in self._freed.items()
            if each.spec.node_name != node or (disks is not None and each.unique_disk not in disks)
        }


def _identity(record: StoredObject) -> tuple[str, str]:
    """Which VolumeAttachment it is, and of which registration of its node."""
    return record.metadata.uid, record.metadata.annotations.get(NODE_UID, "")

"""Invariants of what is looked at again, live, because a cache may have missed it."""

from __future__ import annotations

from collections import defaultdict

from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.forced_releases import Place, place
from mooring.simulation.checks.invariants.objects import ATTACHMENTS, decode, object_of
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.names import DETACHING, VOLUMES_ATTACHED_WRITE

LOOKS_IN_S = 10.0
"""A watch that tells, and a read: each a fraction of a second. The rest is for reads that are tried again."""


class LooksAgain(Checker):
    """S36: after each un-report of its Node an agent looks live at the VolumeAttachment of each volume that
    it has mounted: a list that shows the volume again may hide that it was taken away meanwhile."""

    name = "S36"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._faults = Faults.of(trace)
        self._records: dict[str, Place] = {}
        self._mounted: set[Place] = set()
        self._tokens: dict[str, str] = {}
        self._due: defaultdict[str, dict[str, float]] = defaultdict(dict)
        """Node -> the VolumeAttachments that it is to look at -> since when."""
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.mounted", lambda event: self._mounted.add(place(event)))
        trace.listen("truth.unmounted", self._unmounted)
        trace.listen("asked.looked", lambda event: self._due[event.actor].pop(event.fields["name"], None))

    def _written(self, event: Event) -> None:
        self._judge(event)
        resource, name = event.fields["resource"], event.fields["name"]
        if resource == ATTACHMENTS:
            record = object_of(event)
            self._records[name] = record.volume_name, record.spec.node_name
        elif resource == "nodes":
            token = object_of(event).metadata.annotations.get(VOLUMES_ATTACHED_WRITE, "")
            if self._tokens.get(name, token) != token:
                self._look_at(name, event.time)
            self._tokens[name] = token

    def _look_at(self, node: str, now: float) -> None:
        for record, where in self._records.items():
            if where in self._mounted and where[1] == node:
                self.guarded += 1
                self._due[node].setdefault(record, now)

    def _deleted(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource == "nodes":
            self._tokens.pop(name, None)
            self._due.pop(name, None)
        elif resource == ATTACHMENTS and (where := self._records.pop(name, None)) is not None:
            self._due[where[1]].pop(name, None)

    def _unmounted(self, event: Event) -> None:
        self._mounted.discard(place(event))
        due = self._due[event.fields["node"]]
        for record in [each for each in due if self._records.get(each) == place(event)]:
            del due[record]

    def _judge(self, event: Event) -> None:
        for node, due in self._due.items():
            for record, since in [*due.items()]:
                if event.time - since < LOOKS_IN_S:
                    continue
                del due[record]
                if not self._faults.disturbed((node,), since) and not self._faults.slowness((node,), since):
                    self.wrong(
                        f"{node} was un-reported, and does not look at {record}, which it has mounted", event
                    )


class MountsWhatItSaw(Checker):
    """S39: a node mounts a volume when its agent has looked live at the VolumeAttachment since it last
    unmounted it, and that was attached there and not being given up. An unmount that was late, or whose agent
    was struck, may come after that look."""

    name = "S39"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._faults = Faults.of(trace)
        self._permitted: set[Place] = set()
        self._unmounted: dict[Place, float] = {}
        trace.listen("asked.looked", self._looked)
        trace.listen("truth.mounted", self._mount)
        trace.listen("truth.unmounted", self._unmount)

    def _looked(self, event: Event) -> None:
        body: bytes = event.fields.get("_body", b"")
        if not body:
            return
        record = decode(body)
        given_up = record.metadata.deletion_timestamp is not None or DETACHING in record.metadata.annotations
        if record.status.attached and not given_up and record.spec.node_name == event.actor:
            self._permitted.add((record.volume_name, event.actor))

    def _mount(self, event: Event) -> None:
        volume, node = event.fields.get("wanted", event.fields["volume"]), event.fields["node"]
        self.guarded += 1
        since = self._unmounted.get((volume, node), 0.0)
        if (
            (volume, node) not in self._permitted
            and not self._faults.disturbed((node,), since)
            and not self._faults.slowness((node,), since)
        ):
            self.wrong(f"{volume} is mounted on {node}, which has not seen that it may be", event)

    def _unmount(self, event: Event) -> None:
        self._permitted.discard(place(event))
        self._unmounted[place(event)] = event.time

"""The invariant of volumes that have a lock: of mounts, of the lock itself, and of the store."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import NamedTuple

import msgspec

from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.forced_releases import Place, Releases, place
from mooring.simulation.checks.invariants.node_reports import disk_in
from mooring.simulation.checks.invariants.objects import ATTACHMENTS, VOLUMES, StoredObject, object_of
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.attachment_lock import ATTACHED_TO, Closed, Lock
from mooring.volumes.names import ATTACH_EPOCH, AWAITED

ON_ITS_WAY_S = 130.0
"""So late a write may take effect, in seconds: what a node has said by then may have changed since."""


class _Said(NamedTuple):
    """What a Node said from a moment on. `awaited`: epochs for which its agent waits, by volume."""

    since: float
    known: bool
    boot_id: str
    in_use: frozenset[str]
    awaited: dict[str, int]

    @classmethod
    def of(cls, node: StoredObject, now: float) -> _Said:
        awaited = msgspec.json.decode(node.metadata.annotations.get(AWAITED, "{}"), type=dict[str, int])
        return cls(
            now,
            node.ready != "Unknown",
            node.status.node_info.boot_id,
            frozenset(map(disk_in, node.status.volumes_in_use)),
            {disk_in(volume): epoch for volume, epoch in awaited.items()},
        )

    def opens(self, closed: Closed, disk: str) -> bool:
        """Whether it shows that no mount of before is left there."""
        another = bool(closed.boot_id and self.boot_id and self.boot_id != closed.boot_id)
        return self.known and (
            another or disk not in self.in_use or self.awaited.get(disk, -1) >= closed.epoch
        )


class UnderItsLock(Checker):
    """S11: what has a lock is mounted only under a VolumeAttachment of the lock's present epoch, and not
    where the lock is closed; unless it was taken from that node by force of a policy or an operator's
    word. A lock is opened for a node only when that has shown that no mount of before is left there."""

    name = "S11"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._locks: dict[str, Lock] = {}
        self._epochs: dict[Place, int] = {}
        self._said: defaultdict[str, deque[_Said]] = defaultdict(deque)
        self._releases = Releases.of(trace)
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.mounted", self._mounted)

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == VOLUMES:
            volume = object_of(event)
            text = volume.metadata.annotations.get(ATTACHED_TO)
            if text:
                before = self._locks.get(event.fields["name"], Lock())
                lock = self._locks[event.fields["name"]] = msgspec.json.decode(text, type=Lock)
                for node in before.closed.keys() - lock.closed.keys():
                    self._opened(volume.disk or event.fields["name"], node, before.closed[node], event)
        elif event.fields["resource"] == "nodes":
            self._heard(event.fields["name"], _Said.of(object_of(event), event.time))
        elif event.fields["resource"] == ATTACHMENTS:
            record = object_of(event)
            epoch = int(record.metadata.annotations.get(ATTACH_EPOCH, "0"))
            self._epochs[record.volume_name, record.spec.node_name] = epoch

    def _heard(self, node: str, said: _Said) -> None:
        self._counting(node, said.since).append(said)

    def _counting(self, node: str, now: float) -> deque[_Said]:
        """What counted at some moment of the time in which a write may have been on its way."""
        told = self._said[node]
        while len(told) > 1 and told[1].since < now - ON_ITS_WAY_S:
            told.popleft()
        return told

    def _opened(self, disk: str, node: str, closed: Closed, event: Event) -> None:
        self.guarded += 1
        if not any(each.opens(closed, disk) for each in self._counting(node, event.time)):
            self.wrong(f"the lock of {disk} is opened for {node}, where it may still be mounted", event)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == VOLUMES:
            self._locks.pop(event.fields["name"], None)

    def _mounted(self, event: Event) -> None:
        volume, node = place(event)
        lock = self._locks.get(volume)
        if lock is None or place(event) in self._releases:
            return
        self.guarded += 1
        epoch = self._epochs.get((volume, node), 0)
        if epoch != lock.epoch:
            self.wrong(
                f"{volume} is mounted on {node} under epoch {epoch}, and its lock is at {lock.epoch}", event
            )
        elif node in lock.closed:
            self.wrong(f"{volume} is mounted on {node}, which its lock is closed for", event)

"""The invariant of volumes that have a lock: seen in mounts, compared with the store."""

from __future__ import annotations

import msgspec

from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.forced_releases import Place, Releases, place
from mooring.simulation.checks.invariants.objects import ATTACHMENTS, VOLUMES, object_of
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.attachment_lock import ATTACHED_TO, Lock
from mooring.volumes.names import ATTACH_EPOCH


class UnderItsLock(Checker):
    """S11: what has a lock is mounted only under a VolumeAttachment of the lock's present epoch, and not
    where the lock is closed; unless it was taken from that node by force of a policy or an operator's
    word."""

    name = "S11"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._locks: dict[str, Lock] = {}
        self._epochs: dict[Place, int] = {}
        self._releases = Releases.of(trace)
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.mounted", self._mounted)

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == VOLUMES:
            text = object_of(event).metadata.annotations.get(ATTACHED_TO)
            if text:
                self._locks[event.fields["name"]] = msgspec.json.decode(text, type=Lock)
        elif event.fields["resource"] == ATTACHMENTS:
            record = object_of(event)
            epoch = int(record.metadata.annotations.get(ATTACH_EPOCH, "0"))
            self._epochs[record.volume_name, record.spec.node_name] = epoch

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

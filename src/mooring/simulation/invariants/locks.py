"""The invariant of volumes that only a lock keeps from a second node: seen in mounts, compared with the store."""

from __future__ import annotations

import msgspec

from mooring.simulation.invariants.checker import Checker
from mooring.simulation.invariants.releases import Releases, place
from mooring.simulation.invariants.stored import VOLUMES, stored
from mooring.simulation.trace import Event, Trace
from mooring.volumes.attachment_lock import ATTACHED_TO, Lock


class LockNamesTheHolder(Checker):
    """S11: what a lock was granted for is mounted only on the node that the lock names at that moment, and which it is
    not closed for; unless the volume was taken from that node by force of a policy or an operator's word."""

    name = "S11"

    def listen(self, trace: Trace) -> None:
        self._locks: dict[str, Lock] = {}
        self._releases = Releases(trace)
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.mounted", self._mounted)

    def _written(self, event: Event) -> None:
        if event.fields["resource"] != VOLUMES:
            return
        text = stored(event).metadata.annotations.get(ATTACHED_TO)
        if text:
            self._locks[event.fields["name"]] = msgspec.json.decode(text, type=Lock)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == VOLUMES:
            self._locks.pop(event.fields["name"], None)

    def _mounted(self, event: Event) -> None:
        volume, node = place(event)
        lock = self._locks.get(volume)
        if lock is None or not lock.node or place(event) in self._releases:
            return
        self.guarded += 1
        if lock.node != node:
            self.wrong(f"{volume} is mounted on {node}, and its lock names {lock.node}", event)
        elif node in lock.closed:
            self.wrong(f"{volume} is mounted on {node}, which its lock is closed for", event)

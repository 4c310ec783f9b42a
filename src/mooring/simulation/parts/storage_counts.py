"""What the played storage counts of each node: what goes through its sessions. This is the truth, from what
the trace tells of mounts and writes; what a device says of it is its own word (`parts.fence_device`).

A session lasts while a node has a disk mounted and the storage lets it in. What uses the disk works in some
minutes, and rests in the others: a node that does not answer goes on so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mooring.simulation.engine.randomness import stream
from mooring.simulation.engine.trace import Event, Trace
from mooring.simulation.parts.storage_targets import Targets, target_of

STRETCH_S = 60.0
"""For so long a disk is worked on, or is not."""
BUSY = 1 / 3
"""The share of the time in which it is."""


@dataclass
class _Session:
    number: int
    since: float
    written: int = 0


class Counts:
    """By disk and node. `forget` makes the storage count anew."""

    def __init__(self, targets: Targets, trace: Trace, seed: int) -> None:
        self._targets, self._seed = targets, seed
        self._sessions: dict[tuple[str, str], _Session] = {}
        self._mounted: set[tuple[str, str]] = set()
        self._number = 0
        trace.listen("truth.mounted", self._begins)
        trace.listen("truth.unmounted", self._ends)
        trace.listen("truth.written", self._written)
        trace.listen("truth.shut-out", self._door)
        trace.listen("truth.let-in", self._door)

    def _begins(self, event: Event) -> None:
        place = event.fields["volume"], event.fields["node"]
        self._mounted.add(place)
        if place not in self._sessions and not self._targets.refuses(*place):
            self._log_in(place, event.time)

    def _log_in(self, place: tuple[str, str], now: float) -> None:
        self._number += 1
        self._sessions[place] = _Session(self._number, now)

    def _ends(self, event: Event) -> None:
        place = event.fields["volume"], event.fields["node"]
        self._mounted.discard(place)
        self._sessions.pop(place, None)

    def _written(self, event: Event) -> None:
        session = self._sessions.get((event.fields["volume"], event.fields["node"]))
        if session is not None and event.fields["committed"]:
            session.written += 1

    def _door(self, event: Event) -> None:
        """A node that is shut out loses its sessions, and logs in again when it is let in."""
        for place in sorted(self._mounted):
            if place[1] != event.fields["node"]:
                continue
            if self._targets.refuses(*place):
                self._sessions.pop(place, None)
            elif place not in self._sessions:
                self._log_in(place, event.time)

    def moved(self, node: str, targets: Collection[str], now: float) -> Mapping[str, int]:
        """By session, what the node has read and written so far through these targets."""
        return {
            f"{disk}#{session.number}": session.written + self._worked(disk, session.since, now)
            for (disk, where), session in sorted(self._sessions.items())
            if where == node and target_of(disk) in targets
        }

    def forget(self, node: str, now: float) -> None:
        """It begins to count anew."""
        for (_, where), session in self._sessions.items():
            if where == node:
                session.since, session.written = now, 0

    def _worked(self, disk: str, since: float, now: float) -> int:
        """Seconds in which the disk was worked on."""
        stretches = range(int(since // STRETCH_S), int(now // STRETCH_S) + 1)
        return sum(
            int(min(now, (each + 1) * STRETCH_S) - max(since, each * STRETCH_S))
            for each in stretches
            if stream(self._seed, f"work on {disk} in {each}").random() < BUSY
        )

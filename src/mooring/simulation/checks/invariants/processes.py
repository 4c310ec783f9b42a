"""Invariants of the parts themselves: the API server keeps what it acknowledged, no part ends by itself, and
no part writes an object upon a state that it knows to be old."""

from __future__ import annotations

from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.engine.trace import Event, Trace


class NothingAcknowledgedIsLost(Checker):
    """D1: a write that was acknowledged is there after a crash of the API server."""

    name = "D1"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        trace.listen("truth.recovered", self._recovered)

    def _recovered(self, event: Event) -> None:
        self.guarded += 1
        if event.fields["has"] < event.fields["had"]:
            had, has = event.fields["had"], event.fields["has"]
            self.wrong(f"version {had} was acknowledged, {has} is there", event)


class PartsGoOn(Checker):
    """P1: no controller and no agent ends by itself."""

    name = "P1"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        trace.listen("truth.died", lambda e: self.wrong(f"{e.actor} ended with {e.fields['error']}", e))


class ReadsItsWrites(Checker):
    """S19: no part writes an object upon a state that is older than the one that its own last write
    returned."""

    name = "S19"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._known: dict[
            tuple[str, str, str], int
        ] = {}  # actor, resource, name -> version of its last answer
        trace.listen("asked.write", self._note_request)
        trace.listen("asked.answered", self._answered)

    def _note_request(self, event: Event) -> None:
        version = event.fields["version"]
        known = self._known.get(self._key(event))
        if version is None or known is None:
            return
        self.guarded += 1
        if version < known:
            what = f"{event.fields['resource']} {event.fields['name']}"
            self.wrong(
                f"{event.actor} writes {what} upon version {version}, and has itself written {known}", event
            )

    def _answered(self, event: Event) -> None:
        key = self._key(event)
        self._known[key] = max(self._known.get(key, 0), event.fields["version"])

    @staticmethod
    def _key(event: Event) -> tuple[str, str, str]:
        return event.fields["life"], event.fields["resource"], event.fields["name"]

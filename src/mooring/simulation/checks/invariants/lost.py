"""The invariant of what is called Released or Lost: it is so, whatever a cache shows."""

from __future__ import annotations

from typing import NamedTuple

from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.objects import CLAIMS, VOLUMES, StoredObject, object_of
from mooring.simulation.engine.trace import Event, Trace

LATE_S = 1.0
"""A look may be so old when what follows from it is written."""


class _Volume(NamedTuple):
    """`since`: when it came to be for this claim, which is given by uid, or, if that is open, by name."""

    uid: str
    claim: str
    phase: str
    since: float

    def is_of(self, claim: StoredObject) -> bool:
        return self.uid == claim.metadata.uid or (not self.uid and self.claim == claim.metadata.name)


class GoneIndeed(Checker):
    """S45: a PersistentVolume is called Released only when the claim that it names is gone, or has another
    volume; and a claim is called Lost only when its PersistentVolume is gone, or another claim's. A claim of
    that uid never comes back, so a look shows that; a PersistentVolume may, just after one."""

    name = "S45"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._volumes: dict[str, _Volume] = {}
        self._claims: dict[str, str] = {}  # uid -> the volume that it names
        self._phases: dict[str, str] = {}  # of claims, by uid
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == VOLUMES:
            self._volume(event.fields["name"], object_of(event), event)
        elif event.fields["resource"] == CLAIMS:
            self._claim(event.fields["name"], object_of(event), event)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == VOLUMES:
            self._volumes.pop(event.fields["name"], None)
        elif event.fields["resource"] == CLAIMS:
            self._claims.pop(object_of(event).metadata.uid, None)

    def _volume(self, name: str, pv: StoredObject, event: Event) -> None:
        before, named = self._volumes.get(name), pv.spec.claim_ref
        uid, claim = (named.uid, named.name) if named is not None else ("", "")
        same = before is not None and (before.uid, before.claim) == (uid, claim)
        self._volumes[name] = _Volume(
            uid, claim, pv.status.phase, before.since if before and same else event.time
        )
        if pv.status.phase != "Released" or (before is not None and before.phase == "Released"):
            return
        self.guarded += 1
        if self._claims.get(uid, "another") in ("", name):
            self.wrong(f"{name} is Released, and its claim {claim} ({uid}) is there", event)

    def _claim(self, name: str, claim: StoredObject, event: Event) -> None:
        uid, phase, volume = claim.metadata.uid, claim.status.phase, claim.spec.volume_name
        before, self._phases[uid] = self._phases.get(uid), phase
        self._claims[uid] = volume
        if phase != "Lost" or before == "Lost":
            return
        self.guarded += 1
        there = self._volumes.get(volume)
        if there is not None and there.is_of(claim) and event.time - there.since > LATE_S:
            self.wrong(f"claim {name} is Lost, and {volume} is there and is its", event)

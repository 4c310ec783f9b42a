"""StorageClasses and VolumeAttributesClasses that users have deleted: whether a claim's volume can be made
without its own."""

from __future__ import annotations

import math

from mooring.controllers.provisioning.decide import BEGUN
from mooring.simulation.checks.invariants.objects import CLAIMS, StoredObject, object_of
from mooring.simulation.engine.trace import Event, Trace

CLASSES = "storageclasses.storage.k8s.io"
ATTRIBUTES = "volumeattributesclasses.storage.k8s.io"
PROCESS = "placing"
"""It makes volumes for claims, and remembers the class of each that it has begun, for as long as it lives."""
ENDING = ("kill", "crash", "freeze", "stall", "doze", "two-leaders")
"""Kinds of faults after which another one may be at work."""


class Classes:
    """Follows a trace."""

    def __init__(self, trace: Trace) -> None:
        self._gone: dict[str, set[str]] = {CLASSES: set(), ATTRIBUTES: set()}  # names
        self._begun: dict[str, float] = {}  # uid of a claim -> since when its volume is being made
        self._under_way = 0  # faults that may end the process
        self._ended = -math.inf  # when it may have ended last
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        for kind in ("plan.step", "plan.over"):
            trace.listen(kind, self._struck)
        for kind in ("plan.crashed", "plan.stalled", "truth.died", "plan.point"):
            trace.listen(kind, self._may_end)
        trace.listen("plan.healed", self._healed)

    def is_missed(self, claim: StoredObject) -> bool:
        """Whether no volume can be made for the claim, or none be made to the end: its class is gone, and
        none remembers it. What a volume is to be like is not remembered."""
        if claim.spec.volume_name:
            return False
        if claim.spec.volume_attributes_class_name in self._gone[ATTRIBUTES]:
            return True
        if claim.spec.storage_class_name not in self._gone[CLASSES]:
            return False
        begun = self._begun.get(claim.metadata.uid) if BEGUN in claim.metadata.finalizers else None
        return begun is None or begun <= self._ended

    def _written(self, event: Event) -> None:
        resource = event.fields["resource"]
        if resource in self._gone:
            self._gone[resource].discard(event.fields["name"])
        elif resource == CLAIMS and BEGUN in (claim := object_of(event)).metadata.finalizers:
            self._begun.setdefault(claim.metadata.uid, event.time)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] in self._gone:
            self._gone[event.fields["resource"]].add(event.fields["name"])

    def _struck(self, event: Event) -> None:
        if event.fields["on"] == PROCESS and event.fields["what"] in ENDING:
            self._under_way += 1 if event.kind == "plan.step" else -1
            self._ended = event.time

    def _may_end(self, event: Event) -> None:
        if PROCESS in (event.actor, event.fields.get("part")):
            self._ended = event.time

    def _healed(self, event: Event) -> None:
        """A part that is paused is ended, and so is who was a leader before."""
        if self._under_way:
            self._ended = event.time

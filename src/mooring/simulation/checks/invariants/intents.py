"""Invariants of what is written down before the storage is asked: without it a successor would not know.

The request is judged, not what comes of it: what was not written down does harm only when the asker dies
before the answer, which few runs show.
"""

from __future__ import annotations

from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.forced_releases import Place, place
from mooring.simulation.checks.invariants.objects import (
    ATTACHMENTS,
    CLAIMS,
    VOLUMES,
    StoredObject,
    object_of,
)
from mooring.simulation.cluster.other_parties import HOLDS
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.names import ATTACH_REQUESTED_AT

CLOUD = "ec2"
MADE_FOR = "pvc-"
"""The name of a volume that is made for a claim: with this before the claim's uid."""


class WrittenDownFirst(Checker):
    """S34: the storage is asked to attach only what a VolumeAttachment with a finalizer says to be asked for,
    to detach only what is being given up, and to make a disk only for a claim that a finalizer keeps."""

    name = "S34"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._records: dict[str, StoredObject] = {}
        self._claims: dict[str, StoredObject] = {}  # by uid
        self._volumes: set[str] = set()
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.begin", self._begin)
        trace.listen("truth.created", self._created)

    def _written(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource == ATTACHMENTS:
            self._records[name] = object_of(event)
        elif resource == CLAIMS:
            claim = object_of(event)
            self._claims[claim.metadata.uid] = claim
        elif resource == VOLUMES:
            self._volumes.add(name)

    def _deleted(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource == ATTACHMENTS:
            self._records.pop(name, None)
        elif resource == CLAIMS:
            self._claims.pop(object_of(event).metadata.uid, None)

    def _of(self, where: Place) -> list[StoredObject]:
        return [each for each in self._records.values() if (each.volume_name, each.spec.node_name) == where]

    def _begin(self, event: Event) -> None:
        (volume, node), act = place(event), event.fields["act"]
        records = self._of((volume, node))
        self.guarded += 1
        if act == "detach" and event.actor == CLOUD:
            return  # a driver also ends attachments that are stuck, to try another device
        if act == "detach" and records and not any(each.going for each in records):
            self.wrong(f"{volume} is to be detached from {node}, and its VolumeAttachment stays", event)
        elif act == "attach" and not any(_asked_for(each) for each in records):
            self.wrong(f"{volume} is to be attached to {node}, and no VolumeAttachment says so", event)

    def _created(self, event: Event) -> None:
        name = event.fields.get("name", event.fields["volume"])
        if not name.startswith(MADE_FOR) or name in self._volumes:
            return  # made by hand, or emptied
        claim = self._claims.get(name.removeprefix(MADE_FOR))
        self.guarded += 1
        if claim is None or not _kept(claim):
            self.wrong(f"disk {name} is made, and nothing keeps its claim", event)


def _asked_for(record: StoredObject) -> bool:
    return bool(record.metadata.annotations.get(ATTACH_REQUESTED_AT)) and _kept(record)


def _kept(each: StoredObject) -> bool:
    protection = {"kubernetes.io/pvc-protection"} | HOLDS
    return any(finalizer not in protection for finalizer in each.metadata.finalizers)

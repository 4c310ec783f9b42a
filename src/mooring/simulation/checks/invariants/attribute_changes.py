"""What claims ask their volumes to be like, and what the storage was asked for and has: one account for all
that judge it.

Sources: KEP-3751 (a claim names a VolumeAttributesClass; its status says what is true, and what is being
done), and the CSI specification (ControllerModifyVolume). What a disk is like is told by the storage itself.
A class that is deleted and made anew under its name is another edition of it, and a claim may have either.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import msgspec

from mooring.simulation.checks.invariants.objects import CLAIMS, VOLUMES, Metadata, StoredObject, object_of
from mooring.simulation.engine.trace import Event, Trace
from mooring.simulation.parts.disk_attributes import in_text

CLASSES = "volumeattributesclasses.storage.k8s.io"


class _Class(msgspec.Struct):
    metadata: Metadata
    parameters: dict[str, str] = {}


_class = msgspec.json.Decoder(_Class).decode


class Asked(NamedTuple):
    """A request to the storage: what for, by which life of a process, and when."""

    attributes: str
    by: str
    at: float


class AttributeChanges:
    """The account of one trace. Disks have the names of their PersistentVolumes. `editions`: all that a
    class of that name has ever asked for; `named`: the classes that the claim of a disk names, or has
    named; `has`: what a disk was changed to; `under_way`: what was asked for and not answered; `begun`:
    the latest request for each thing."""

    def __init__(self, trace: Trace) -> None:
        self.claims: dict[str, StoredObject] = {}
        self.volumes: dict[str, StoredObject] = {}
        self.classes: set[str] = set()  # those that there are
        self.editions: defaultdict[str, set[str]] = defaultdict(set)
        self.named: defaultdict[str, set[str]] = defaultdict(set)
        self.has: dict[str, str] = {}
        self.under_way: defaultdict[str, list[Asked]] = defaultdict(list)
        self.begun: defaultdict[str, dict[str, Asked]] = defaultdict(dict)
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.modified", self._modified)
        trace.listen("truth.modifying", self._asked)
        trace.listen("truth.modify-answered", self._answered)

    @classmethod
    def of(cls, trace: Trace) -> AttributeChanges:
        """The one of that trace: its checkers share it."""
        return trace.shared(cls)

    def is_of(self, attributes: str, name: str) -> bool:
        """Whether an edition of that class asks for just this; of a cloud's request, also for more: what a
        volume has already it leaves out."""
        items = set(attributes.split(","))
        return any(items <= set(each.split(",")) for each in self.editions[name])

    def has_of(self, disk: str, name: str) -> bool:
        """Whether the disk is like an edition of that class says."""
        return self.has.get(disk, "") in self.editions[name]

    def last_for(self, disk: str, name: str) -> Asked | None:
        """The latest request for what that class says; None: there was none."""
        found = [each for each in self.begun[disk].values() if self.is_of(each.attributes, name)]
        return max(found, key=lambda each: each.at, default=None)

    def _written(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource == CLAIMS:
            self.claims[name] = claim = object_of(event)
            if claim.spec.volume_name and claim.spec.volume_attributes_class_name:
                self.named[claim.spec.volume_name].add(claim.spec.volume_attributes_class_name)
        elif resource == VOLUMES:
            self.volumes[name] = object_of(event)
        elif resource == CLASSES:
            self.classes.add(name)
            self.editions[name].add(in_text(_class(event.fields["_body"]).parameters))

    def _deleted(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource == CLAIMS:
            self.claims.pop(name, None)
        elif resource == VOLUMES:
            self.volumes.pop(name, None)
        elif resource == CLASSES:
            self.classes.discard(name)

    def _modified(self, event: Event) -> None:
        self.has[event.fields["volume"]] = event.fields["attributes"]

    def _asked(self, event: Event) -> None:
        asked = asked_by(event)
        self.under_way[event.fields["volume"]].append(asked)
        self.begun[event.fields["volume"]][asked.attributes] = asked

    def _answered(self, event: Event) -> None:
        of_disk, (attributes, by, _) = self.under_way[event.fields["volume"]], asked_by(event)
        of_disk.remove(next(each for each in of_disk if (each.attributes, each.by) == (attributes, by)))


def asked_by(event: Event) -> Asked:
    """The request that a "truth.modifying", or the end of one, tells of."""
    return Asked(event.fields["attributes"], event.fields["by"], event.time)


def says(claim: StoredObject) -> str:
    """The class that a claim says its volume has, without a word of anything under way; "": none."""
    status = claim.status
    return status.current_volume_attributes_class_name if status.modify_volume_status is None else ""


def begins_to_say(claim: StoredObject, before: StoredObject | None) -> str:
    """What a claim says that it has not said before."""
    said = says(before) if before is not None and before.metadata.uid == claim.metadata.uid else ""
    return says(claim) if says(claim) != said else ""

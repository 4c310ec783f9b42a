"""The invariant of the garbage collector: it deletes only what no owner keeps, and no living namespace."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from mooring.controllers.cleanup.controller import CleanupController
from mooring.controllers.cleanup.decide import FOREGROUND
from mooring.kube.objects import Object
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.objects import ObjectKey, key_of
from mooring.simulation.engine.trace import Event, Trace

_object = msgspec.json.Decoder(Object).decode


class _Stored(NamedTuple):
    """An object as it is stored: its version, and its body, which is read only when it is asked for."""

    version: int
    body: bytes


class CollectsOnlyWhatIsLeft(Checker):
    """S42: the garbage collector asks for the deletion of an object only if none of the owners that it names
    is there, but for such as wait for the end of what they own; or if its namespace ends."""

    name = "S42"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._stored: dict[ObjectKey, _Stored] = {}
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", lambda event: self._stored.pop(key_of(event), None))
        trace.listen("asked.write", self._asked)

    def _written(self, event: Event) -> None:
        self._stored[key_of(event)] = _Stored(event.fields.get("version", 0), event.fields["_body"])

    def _asked(self, event: Event) -> None:
        fields = event.fields
        if fields["method"] != "DELETE" or not fields["life"].endswith(f" {CleanupController.name}"):
            return
        stored = self._stored.get(key_of(event))
        if stored is None or str(stored.version) != str(fields["version"]):
            return  # the request is refused
        self.guarded += 1
        wanted = _object(stored.body)
        if not self._ends(wanted.namespace) and (why := self._kept_by(wanted)):
            self.wrong(f"the garbage collector deletes {fields['resource']} {fields['name']}, {why}", event)

    def _ends(self, namespace: str) -> bool:
        held = self._stored.get(("namespaces", namespace))
        return held is not None and _object(held.body).deleting

    def _kept_by(self, wanted: Object) -> str:
        """What keeps the object, in words; "" if nothing does."""
        if not wanted.metadata.owner_references:
            return "which names no owner"
        for reference in wanted.metadata.owner_references:
            for owner in self._named(reference.name, wanted.namespace):
                waits = owner.deleting and FOREGROUND in owner.metadata.finalizers
                if owner.uid == reference.uid and not waits:
                    return f"whose owner {reference.kind} {reference.name} is there"
        return ""

    def _named(self, name: str, namespace: str) -> Iterator[Object]:
        for (_, key), stored in self._stored.items():
            if key in (name, f"{namespace}/{name}"):
                yield _object(stored.body)

"""What the API said about each volume on each node, and what was true, over the time of a run: for a
picture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import msgspec

from mooring.kube.objects import Node, PersistentVolume, VolumeAttachment
from mooring.simulation.checks.invariants.objects import disk_of
from mooring.simulation.engine.trace import Event, Listener, Trace
from mooring.volumes.names import DETACHING, VOLUME_NAME

Place = tuple[str, str]
"""Volume and node."""


class VolumeTimeline:
    """`changes` has, for each place and kind ("reported", "true"), the states and when (seconds) they began.
    States are those of the demo's picture; "" is nothing."""

    def __init__(self, trace: Trace) -> None:
        self.changes: defaultdict[tuple[Place, str], list[tuple[float, str]]] = defaultdict(list)
        self.names: dict[str, str] = {}  # volume -> its claim
        self._attached: set[Place] = set()
        self._mounted: set[Place] = set()
        self._off: set[str] = set()
        self._records: dict[str, tuple[Place, str]] = {}
        self._in_use: dict[str, tuple[str, ...]] = {}
        self._silent: set[str] = set()
        follow: dict[str, Listener] = {
            "truth.attached": self._true(self._attached.add),
            "truth.detached": self._true(self._attached.discard),
            "truth.mounted": self._true(self._mounted.add),
            "truth.unmounted": self._true(self._mounted.discard),
            "truth.power": self._power,
            "store.written": self._written,
            "store.deleted": self._deleted,
        }
        for kind, listener in follow.items():
            trace.listen(kind, listener)

    def _true(self, act: Callable[[Place], None]) -> Listener:
        def listener(event: Event) -> None:
            place = (event.fields["volume"], event.fields["node"])
            act(place)
            self._note(place, event.time)

        return listener

    def _power(self, event: Event) -> None:
        (self._off.discard if event.fields["on"] else self._off.add)(event.actor)
        self._note_all(event.actor, event.time)

    def _written(self, event: Event) -> None:
        resource = event.fields["resource"]
        if resource == "nodes":
            self._node(event, msgspec.json.decode(event.fields["_body"], type=Node))
        elif resource == "persistentvolumes":
            volume = msgspec.json.decode(event.fields["_body"], type=PersistentVolume)
            self.names[event.fields["name"]] = volume.spec.claim_ref.name if volume.spec.claim_ref else ""
        elif resource == "volumeattachments.storage.k8s.io":
            self._record(event, msgspec.json.decode(event.fields["_body"], type=VolumeAttachment))

    def _node(self, event: Event, node: Node) -> None:
        (self._silent.add if node.ready == "Unknown" else self._silent.discard)(node.name)
        self._in_use[node.name] = tuple(each.rpartition("/")[2] for each in node.status.volumes_in_use)
        self._note_all(node.name, event.time)

    def _record(self, event: Event, record: VolumeAttachment) -> None:
        annotations = record.metadata.annotations
        place = (
            record.spec.source.persistent_volume_name or disk_of(annotations.get(VOLUME_NAME, "")) or "?",
            record.spec.node_name,
        )
        going = record.deleting or DETACHING in annotations
        state = "detaching" if going else "attached" if record.status.attached else "attaching"
        self._records[record.name] = (place, state)
        self._note(place, event.time)

    def _deleted(self, event: Event) -> None:
        if place := self._records.pop(event.fields["name"], None):
            self._note(place[0], event.time)

    def _note_all(self, node: str, time: float) -> None:
        for place in [place for place, _ in self.changes if place[1] == node]:
            self._note(place, time)

    def _note(self, place: Place, time: float) -> None:
        for kind, state in (("reported", self._reported(place)), ("true", self._truth(place))):
            changes = self.changes[place, kind]
            if (changes[-1][1] if changes else "") != state:
                changes.append((time, state))

    def _reported(self, place: Place) -> str:
        volume, node = place
        state = next((state for each, state in self._records.values() if each == place), "")
        if state == "attached" and volume in self._in_use.get(node, ()):
            state = "attached, in use"
        silent = "node silent" if node in self._silent and state else ""
        return "; ".join(each for each in (state, silent) if each)

    def _truth(self, place: Place) -> str:
        if place[1] in self._off:
            return "no power, attached" if place in self._attached else "no power"
        return "mounted" if place in self._mounted else "attached" if place in self._attached else ""

    def name(self, volume: str) -> str:
        """Its claim, or its own name if none has it."""
        return self.names.get(volume) or volume

    def volumes(self) -> list[str]:
        """All that ever had to do with a node, by name."""
        return sorted({volume for (volume, _), _ in self.changes}, key=lambda each: (self.name(each), each))

"""What may be taken from a node against what it says: by an operator's word, or by a policy's timer."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from mooring.simulation.checks.invariants.objects import ATTACHMENTS, object_of
from mooring.simulation.checks.invariants.statements import Statements
from mooring.simulation.checks.invariants.volume_users import Users
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.names import FORCE_DETACH_SINCE

Place = tuple[str, str]
"""Volume and node."""


def place(event: Event) -> Place:
    return event.fields["volume"], event.fields["node"]


class Releases:
    """Which attachments were ended against what their nodes said, by a policy or an operator's word: their
    VolumeAttachment began to be deleted while such a word was in force. The policy's timer counts for what no
    pod wants: not while a pod uses the volume there that did so already when the timer began."""

    def __init__(self, trace: Trace) -> None:
        self._dead = Statements(trace)
        self._unknown: set[str] = set()  # nodes that do not answer, or that there are not
        self._forced: dict[str, Place] = {}  # VolumeAttachment -> place
        self._users = Users(trace)
        self._timers: dict[
            str, frozenset[str]
        ] = {}  # VolumeAttachment -> who used the volume when its timer began
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._written)
        trace.listen("truth.attached", self._attached)

    @classmethod
    def of(cls, trace: Trace) -> Releases:
        """The one of that trace: its checkers share it."""
        if trace not in _OF:
            _OF[trace] = cls(trace)
        return _OF[trace]

    def __contains__(self, where: object) -> bool:
        return where in self._forced.values()

    def _attached(self, event: Event) -> None:
        self._forced = {name: where for name, where in self._forced.items() if where != place(event)}

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == "nodes":
            silent = event.kind == "store.deleted" or object_of(event).ready == "Unknown"
            (self._unknown.add if silent else self._unknown.discard)(event.fields["name"])
        elif event.fields["resource"] == ATTACHMENTS:
            self._attachment(event)

    def _attachment(self, event: Event) -> None:
        obj, name = object_of(event), event.fields["name"]
        going = obj.metadata.deletion_timestamp is not None or event.kind == "store.deleted"
        node, annotations = obj.spec.node_name, obj.metadata.annotations
        if FORCE_DETACH_SINCE not in annotations:
            self._timers.pop(name, None)
        elif name not in self._timers:
            self._timers[name] = self._users.of(obj.volume_name, node)
        wanted = self._timers.get(name, frozenset()) & self._users.of(obj.volume_name, node)
        timed_out = FORCE_DETACH_SINCE in annotations and node in self._unknown and not wanted
        if going and name not in self._forced and (node in self._dead or timed_out):
            self._forced[name] = (obj.volume_name, node)


_OF: WeakKeyDictionary[Trace, Releases] = WeakKeyDictionary()

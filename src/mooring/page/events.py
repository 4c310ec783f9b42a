"""The latest Events about each object. Pure."""

from __future__ import annotations

from mooring.kube.objects import Event

Ref = tuple[str, str]
"""A kind by its short name, and a key."""

MOST_EVENTS = 40
"""Of one object, the latest so many are kept."""

_EVENT_KINDS = {
    "Node": "node",
    "Pod": "pod",
    "PersistentVolume": "pv",
    "PersistentVolumeClaim": "pvc",
    "Namespace": "ns",
}


class Events:
    """By the uid of the object that they are about, or its name if they have none."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[Event, ...]] = {}

    def apply(self, event: Event, *, gone: bool) -> set[Ref]:
        """Takes one that came, changed or went; returns what it is about."""
        subject = event.involved_object
        held = self.held.get(subject.uid or subject.name, ())
        others = [each for each in held if each.key != event.key]
        if not gone:
            others.append(event)
        kept = sorted(others, key=_time_of)[-MOST_EVENTS:]
        if kept:
            self.held[subject.uid or subject.name] = tuple(kept)
        else:
            self.held.pop(subject.uid or subject.name, None)
        kind = _EVENT_KINDS.get(subject.kind, "")
        key = f"{subject.namespace}/{subject.name}" if kind in ("pod", "pvc") else subject.name
        return {(kind, key)} if kind else set()


def _time_of(event: Event) -> str:
    return event.last_timestamp or event.metadata.creation_timestamp or ""

"""The two faces of an Event: core/v1, which is stored, and events.k8s.io/v1. Pure renaming of fields."""

from __future__ import annotations

from mooring.apiserver.errors import Obj

_RENAMED = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_BACK = {old: new for new, old in _RENAMED.items()}


def from_events_v1(event: Obj) -> Obj:
    """An events.k8s.io/v1 Event as core/v1."""
    return {_RENAMED.get(name, name): value for name, value in event.items()} | {"apiVersion": "v1"}


def to_events_v1(event: Obj) -> Obj:
    """A core/v1 Event as events.k8s.io/v1."""
    return {_BACK.get(name, name): value for name, value in event.items()} | {
        "apiVersion": "events.k8s.io/v1"
    }

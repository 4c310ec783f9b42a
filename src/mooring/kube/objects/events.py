"""Events, in the core group and in events.k8s.io."""

from __future__ import annotations

from mooring.kube.objects.meta import Object, ObjectReference, Resource, Struct


class EventSource(Struct, frozen=True):
    component: str = ""
    host: str = ""


class Event(Object, frozen=True):
    RESOURCE = Resource("", "v1", "events", "Event")
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = "Normal"
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""


class EventSeries(Struct, frozen=True):
    count: int = 0
    last_observed_time: str | None = None


class EventV1(Object, frozen=True):
    """An Event as the group events.k8s.io shows it: the same stored objects as `Event`, other field names."""

    RESOURCE = Resource("events.k8s.io", "v1", "events", "Event")
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    reason: str = ""
    note: str = ""
    type: str = "Normal"
    action: str = ""
    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    deprecated_count: int | None = None
    deprecated_first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None

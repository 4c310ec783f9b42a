"""Stored objects in the form that a client asked for: as they are, as rows of a table, or as their metadata
only.

The plain form is the stored bytes themselves: nothing is decoded or encoded again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mooring.apiserver.encodings import protobuf
from mooring.apiserver.encodings.negotiation import Accepted, Encoding, Form
from mooring.apiserver.errors import Obj
from mooring.apiserver.objects.kinds import Kind
from mooring.apiserver.store.history import Item
from mooring.apiserver.store.object_store import decode, encode
from mooring.apiserver.tables.table import table
from mooring.apiserver.work_limit import spend


def render(kind: Kind, item: Item, form: Form, now: datetime, rows_hold: str = "Metadata") -> bytes:
    """One object."""
    if form == "table":
        return encode(table(kind, [served(kind, item)], item.version, now, rows_hold))
    if form == "metadata":
        return encode(metadata_only(decode(item.body)))
    return item.body if kind.conversion is None else encode(served(kind, item))


def served(kind: Kind, item: Item) -> Obj:
    """A stored object, decoded, in the version that the client talks."""
    obj = decode(item.body)
    return kind.conversion.from_stored(obj) if kind.conversion else obj


def metadata_only(obj: Obj) -> Obj:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}


def render_list(
    kind: Kind, items: Sequence[Item], meta: Obj, accepted: Accepted, now: datetime, rows_hold: str
) -> bytes:
    """A list with its metadata (resourceVersion, continue), as JSON or protobuf.

    Without items a list of metadata has null for them, as upstream's.
    """
    form = accepted.form
    if form == "table":
        rows = [served(kind, item) for item in items]
        made = table(kind, rows, int(meta["resourceVersion"]), now, rows_hold)
        return encode(made | {"metadata": meta})
    name, version = kind.list_kind, kind.api_version
    if form != "object":
        name, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
    spend(len(items) >> 1)
    bodies = [render(kind, item, form, now) for item in items]
    if accepted.encoding == "protobuf":
        return protobuf.encode_list(version, name, meta, bodies)
    head = encode({"kind": name, "apiVersion": version, "metadata": meta})
    if form == "metadata" and not bodies:
        return head[:-1] + b',"items":null}'
    return b"".join((head[:-1], b',"items":[', b",".join(bodies), b"]}"))


_PREFIX = {
    kind: f'{{"type":"{kind}","object":'.encode()
    for kind in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")
}


def event_line(event: str, body: bytes, encoding: Encoding = "json") -> bytes:
    """One line of a watch; in protobuf, one frame."""
    if encoding == "protobuf":
        return protobuf.encode_event(event, body)
    return b"".join((_PREFIX[event], body, b"}\n"))


def bookmark(kind: Kind, version: int, accepted: Accepted, *, initial_end: bool = False) -> bytes:
    """The line that tells a watcher how far it has seen."""
    form = accepted.form
    meta: Obj = {"resourceVersion": str(version), "creationTimestamp": None}
    if initial_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    obj: Obj = {"kind": kind.name, "apiVersion": kind.api_version, "metadata": meta}
    if form == "metadata":
        obj = metadata_only(obj)
    if form == "table":
        held = metadata_only(obj)
        obj = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": str(version)}}
        obj |= {"columnDefinitions": [], "rows": [{"cells": [], "object": held}]}
    return event_line("BOOKMARK", encode(obj), accepted.encoding)

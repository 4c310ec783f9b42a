"""D5: at any moment the store holds what its log has made durable, and nothing that no reader can ask for.

A model of the store, made of the log's records alone (one after the other, as they became durable), is
compared with what the store shows: the objects, now and at an earlier version; each change of its window,
with what it replaced; and, in the end, what the log itself keeps and what is recovered from it. The model
knows nothing of batches, heads, positions or recovery.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from mooring.apiserver.errors import LogCorrupt
from mooring.apiserver.objects.kinds import indexed_fields
from mooring.apiserver.store.history import Change, Item, Key
from mooring.apiserver.store.log import Record
from mooring.apiserver.store.object_store import Store
from mooring.simulation.checks.invariants.checker import Found
from mooring.simulation.checks.liveness import Complaint
from mooring.simulation.engine.trace import Event, Trace
from mooring.simulation.parts.store_log import VolatileLog, log_of

FIRST = 32
"""After so many writes all is compared first, and then whenever there are a quarter more: what was lost
stays so, and each comparison costs what has been written by then."""
SPARE = 2048
"""So many changes may be held that are forgotten already: they are cut off a thousand at a time."""


class Stored(NamedTuple):
    """One state of an object."""

    version: int
    body: bytes


class Written(NamedTuple):
    """One durable write: what was there before, if anything, and the last body."""

    resource: str
    key: Key
    version: int
    deleted: bool
    body: bytes
    before: int | None


Objects = Mapping[Key, Stored]


class Model:
    """What a store should hold, by what became durable."""

    def __init__(self) -> None:
        self.written: list[Written] = []
        self._versions: list[int] = []
        self._there: dict[tuple[str, Key], int] = {}  # the version of each object that is there

    def add(self, resource: str, key: Key, version: int, body: bytes, *, deleted: bool) -> None:
        before = self._there.pop((resource, key), None)
        self.written.append(Written(resource, key, version, deleted, body, before))
        self._versions.append(version)
        if not deleted:
            self._there[resource, key] = version

    def until(self, version: int) -> list[Written]:
        """What was written up to a version."""
        return self.written[: bisect_right(self._versions, version)]

    def between(self, after: int, until: int) -> list[Written]:
        """What was written after one version, and up to another."""
        return self.written[bisect_right(self._versions, after) : bisect_right(self._versions, until)]


def objects_at(written: list[Written]) -> dict[str, dict[Key, Stored]]:
    """What is there after these writes, by resource."""
    found: defaultdict[str, dict[Key, Stored]] = defaultdict(dict)
    for each in written:
        if each.deleted:
            found[each.resource].pop(each.key, None)
        else:
            found[each.resource][each.key] = Stored(each.version, each.body)
    return found


class StoreHoldsItsLog:
    """D5, on one run. `store`: of the API server's life that began last."""

    name = "D5"

    def __init__(self, trace: Trace, store: Callable[[], Store | None], found: Found) -> None:
        self._store, self._found = store, found
        self.model = Model()
        self.guarded = 0
        self._next = FIRST
        self._read: set[int] = set()  # versions of items whose fields have been compared
        trace.listen("store.written", self._note)
        trace.listen("store.deleted", self._note)

    def _note(self, event: Event) -> None:
        fields = event.fields
        namespace, _, name = fields["name"].rpartition("/")
        deleted = event.kind == "store.deleted"
        self.model.add(
            fields["resource"], (namespace, name), fields["version"], fields["_body"], deleted=deleted
        )
        store = self._store()
        if len(self.model.written) < self._next or store is None:
            return
        self._next += self._next // 4
        self.guarded += 1
        for difference in self.differences(store):
            self._found(self.name, difference, event)

    def differences(self, store: Store) -> Iterator[str]:
        """What became durable just now may not be published yet: the store is compared as of its version."""
        written = self.model.until(store.version)
        if not written:
            return
        if written[-1].version != max(store.version, store.floor):
            yield f"the store is at version {store.version}, and what was written last is {written[-1].version}"
        yield from self._now(store, written)
        yield from self._earlier(store, written)
        yield from self._window(store)

    def _now(self, store: Store, written: list[Written]) -> Iterator[str]:
        for resource, objects in objects_at(written).items():
            items = store.list(resource)
            yield from _unlike(resource, objects, items)
            for item in items:
                if item.version not in self._read:
                    self._read.add(item.version)
                    yield from _misread(resource, item)

    def _earlier(self, store: Store, written: list[Written]) -> Iterator[str]:
        """Every resource as of a version in the middle of the window."""
        window = self.model.between(store.floor, store.version)
        if not window:
            return
        middle = window[len(window) // 2].version
        past = objects_at(self.model.until(middle))
        for resource in dict.fromkeys(each.resource for each in written):
            there = store.list(resource, middle)
            yield from _unlike(f"{resource} at version {middle}", past.get(resource, {}), there)

    def _window(self, store: Store) -> Iterator[str]:
        window: defaultdict[str, list[Written]] = defaultdict(list)
        for each in self.model.between(store.floor, store.version):
            window[each.resource].append(each)
        for resource, written in window.items():
            kept = store.watch(resource, store.floor).take()
            if [_told(each) for each in kept] != [_of(each) for each in written]:
                yield f"a watch of {resource} from version {store.floor} on is not told what was written since"
        held = sum(store.collection(each).history.held for each in window)
        if held > sum(map(len, window.values())) + SPARE:
            yield f"the store holds {held} changes, and its window has {sum(map(len, window.values()))}"


def _unlike(where: str, objects: Objects, items: Any) -> Iterator[str]:
    shown = {item.key: Stored(item.version, item.body) for item in items}
    if [item.key for item in items] != sorted(shown):
        yield f"{where}: the list is out of order"
    for key in sorted(shown.keys() | objects.keys()):
        if shown.get(key) != objects.get(key):
            yield f"{where}: {'/'.join(key)} is not shown as it was written last"
            return


def _misread(resource: str, item: Item) -> Iterator[str]:
    """What an item says beside its body is what its body says."""
    obj = msgspec.json.decode(item.body)
    metadata = obj["metadata"]
    said = item.uid, item.version, dict(item.labels), dict(item.fields)
    version = int(metadata["resourceVersion"])
    labels: dict[str, str] = metadata.get("labels") or {}
    if said != (metadata["uid"], version, labels, dict(indexed_fields(resource, obj))):
        yield f"{resource} {'/'.join(item.key)} of version {item.version} is not selected by what it says"


def _told(change: Change) -> tuple[str, Key, int, bytes, int | None]:
    item, before = change.item, change.previous
    return change.type, item.key, item.version, item.body, None if before is None else before.version


def _of(written: Written) -> tuple[str, Key, int, bytes, int | None]:
    kind = "DELETED" if written.deleted else "ADDED" if written.before is None else "MODIFIED"
    return kind, written.key, written.version, written.body, written.before


def complaints(check: StoreHoldsItsLog, log: VolatileLog) -> Iterator[Complaint]:
    """Yields, in the end, what the log keeps that it should not, what it has lost, what a store that is
    recovered from it does not hold, and damage that is not noticed."""
    recovery = log.recover()
    kept = {each.version for each in recovery.records}
    written = check.model.written
    past = objects_at([each for each in written if each.version <= recovery.floor])
    needed = {each.version for objects in past.values() for each in objects.values()}
    needed.update(each.version for each in written if each.version > recovery.floor)
    for what, versions in (("keeps", kept - needed), ("has lost", needed - kept)):
        if versions:
            yield (
                check.name,
                f"the log {what} {len(versions)} records, such as that of version {min(versions)}",
            )
    for difference in check.differences(Store(log, indexed_fields)):
        yield check.name, f"recovered: {difference}"
    for what, record in _damaged(list(recovery.records)):
        try:
            Store(log_of([record], recovery.floor), indexed_fields)
        except LogCorrupt:
            continue
        except Exception as error:
            yield check.name, f"a log in which {what} is refused with {error!r}, which does not say where"
        else:
            yield check.name, f"recovered from a log in which {what}, as if all were well"


def _damaged(records: list[Record]) -> Iterator[tuple[str, Record]]:
    """The record in the log's middle, damaged in each of the ways that must be noticed."""
    record = records[len(records) // 2]
    other = next(each for each in records if (each.namespace, each.name) != (record.namespace, record.name))
    again = next((each for each in reversed(records) if each.version != record.version), record)
    moved = record.body.replace(
        b'"resourceVersion":"%d"' % record.version, b'"resourceVersion":"%d"' % again.version
    )
    for what, body in (
        ("a record ends in its middle", record.body[: len(record.body) // 2]),
        ("a record is empty", b""),
        ("a record is no object", b"[]"),
        ("a record has no metadata", b"{}"),
        ("a record holds another object", _renumbered(other, record.version)),
        ("a record holds another version", moved),
        ("a record has lost its uid", _without_uid(record)),
    ):
        yield what, msgspec.structs.replace(record, body=body)


def _renumbered(record: Record, version: int) -> bytes:
    obj = msgspec.json.decode(record.body)
    obj["metadata"]["resourceVersion"] = str(version)
    return msgspec.json.encode(obj)


def _without_uid(record: Record) -> bytes:
    obj = msgspec.json.decode(record.body)
    obj["metadata"]["uid"] = ""
    return msgspec.json.encode(obj)

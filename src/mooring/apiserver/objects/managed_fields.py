"""The owners of an object's fields: server-side apply and `metadata.managedFields`. Pure.

An object has no entries until a client applies to it; from then on every write is recorded. The rules are
upstream's: a field that an applier leaves out and no other manager owns is removed; a field that another
manager set to another value is a conflict, unless forced; an update takes ownership of what it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from mooring.apiserver.errors import Conflict, Obj
from mooring.apiserver.objects.field_sets import (
    MISSING,
    FieldSet,
    Path,
    fields_of,
    from_fields_v1,
    printed,
    to_fields_v1,
    values_of,
    without,
)
from mooring.apiserver.objects.kinds import Kind
from mooring.apiserver.objects.patches.strategic_merge import strategic_merge_patch
from mooring.apiserver.objects.typed_form import place_of
from mooring.apiserver.values.dotted import object_at, objects_at, text_at

BEFORE_FIRST_APPLY = "before-first-apply"


class Manager(msgspec.Struct, frozen=True, order=True):
    """A writer: its name, its operation (`Apply` or `Update`), and its subresource."""

    name: str
    operation: str
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """The fields that one manager owns, and the time of its last write (RFC 3339)."""

    manager: Manager
    fields: FieldSet
    time: str


def entries_of(obj: Obj) -> list[Entry]:
    """The entries of an object's managedFields."""
    return [_entry(each) for each in objects_at(obj, "metadata.managedFields")]


def _entry(book: Obj) -> Entry:
    manager = Manager(text_at(book, "manager"), text_at(book, "operation"), text_at(book, "subresource"))
    return Entry(manager, from_fields_v1(object_at(book, "fieldsV1")), text_at(book, "time"))


def with_entries(obj: Obj, entries: Sequence[Entry], api_version: str) -> Obj:
    """`obj` with these entries, without those that own nothing."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    owning = sorted((each for each in entries if each.fields), key=lambda each: (each.time, each.manager))
    book = [_booked(each, api_version) for each in owning]
    return obj | {"metadata": metadata | ({"managedFields": book} if book else {})}


def _booked(entry: Entry, api_version: str) -> Obj:
    manager = entry.manager
    book: Obj = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": api_version,
        "time": entry.time,
    }
    book |= {"fieldsType": "FieldsV1", "fieldsV1": to_fields_v1(entry.fields)}
    return book | ({"subresource": manager.subresource} if manager.subresource else {})


def applied(kind: Kind, live: Obj | None, sent: Obj, manager: Manager, *, force: bool, now: str) -> Obj:
    """`live` with `sent` merged in, and the entries brought up to date. Raises Conflict, which lists the
    conflicts."""
    place = place_of(kind)
    wanted = _through(fields_of(sent, place), manager)
    if live is None:
        return with_entries(sent, [Entry(manager, wanted, now)], kind.api_version)
    entries = entries_of(live) or [Entry(Manager(BEFORE_FIRST_APPLY, "Update"), fields_of(live, place), now)]
    own = next((each for each in entries if each.manager == manager), Entry(manager, frozenset(), now))
    others = _released(
        [each for each in entries if each.manager != manager], live, sent, wanted, force=force, kind=kind
    )
    merged = strategic_merge_patch(live, _writable(sent, manager), place)
    held = {path for each in others for path in each.fields}
    above = {path[:length] for path in held | wanted for length in range(1, len(path) + 1)}
    merged = without(merged, own.fields - above)
    time = own.time if own.fields == wanted and own.time and _same(merged, live) else now
    return with_entries(merged, [*others, Entry(manager, wanted, time)], kind.api_version)


def updated(kind: Kind, old: Obj, new: Obj, manager: Manager, now: str) -> Obj:
    """`new`, which an update made of `old`, with the entries brought up to date."""
    entries = entries_of(old)
    if not entries:
        return with_entries(new, [], kind.api_version)
    fields = fields_of(new, place_of(kind))
    changed = _differing(old, new, fields)
    kept = [
        replace(each, fields=(each.fields - changed) & fields) for each in entries if each.manager != manager
    ]
    own = next((each for each in entries if each.manager == manager), Entry(manager, frozenset(), now))
    mine = (own.fields | changed) & fields
    return with_entries(new, [*kept, Entry(manager, mine, now if changed else own.time)], kind.api_version)


def _through(fields: FieldSet, manager: Manager) -> set[Path]:
    """The fields that can be set through the manager's subresource: the status there, all else on the object
    itself."""
    return {path for path in fields if (path[0] == "f:status") == (manager.subresource == "status")}


def _writable(sent: Obj, manager: Manager) -> Obj:
    return (
        sent
        if manager.subresource == "status"
        else {key: value for key, value in sent.items() if key != "status"}
    )


def _differing(one: Obj, other: Obj, paths: Iterable[Path]) -> set[Path]:
    """Those of some fields in which two objects differ."""
    paths = [*paths]
    before, after = values_of(one, paths), values_of(other, paths)
    return {path for path in paths if not _equal(before.get(path, MISSING), after.get(path, MISSING))}


def _equal(one: object, other: object) -> bool:
    """Two values of one field; of two objects or two named lists their own fields tell, so they count as
    equal."""
    return (isinstance(one, dict) and isinstance(other, dict)) or one == other


def _same(one: Obj, other: Obj) -> bool:
    return with_entries(one, [], "") == with_entries(other, [], "")


def _released(
    others: Iterable[Entry], live: Obj, sent: Obj, wanted: FieldSet, *, force: bool, kind: Kind
) -> list[Entry]:
    """The other managers' entries, less what is taken from them by force. Raises Conflict."""
    conflicts: list[tuple[Entry, Path]] = []
    kept: list[Entry] = []
    for entry in others:
        lost = _differing(live, sent, entry.fields & wanted)
        conflicts += [(entry, path) for path in sorted(lost)]
        kept.append(replace(entry, fields=entry.fields - lost))
    if conflicts and not force:
        raise _conflict(conflicts, kind)
    return kept


def _conflict(conflicts: Sequence[tuple[Entry, Path]], kind: Kind) -> Conflict:
    by_manager: dict[str, list[str]] = {}
    for entry, path in conflicts:
        by_manager.setdefault(_shown(entry.manager, kind), []).append(printed(path))
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": field}
        for manager, fields in by_manager.items()
        for field in fields
    ]
    if len(causes) == 1:
        summary = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = [
            line
            for who, fields in by_manager.items()
            for line in (f"conflicts with {who}:", *_listed(fields))
        ]
        summary = f"{len(causes)} conflicts: " + "\n".join(lines)
    return Conflict(f"Apply failed with {summary}", causes=causes)


def _listed(fields: Iterable[str]) -> list[str]:
    return [f"- {field}" for field in fields]


def _shown(manager: Manager, kind: Kind) -> str:
    through = f' with subresource "{manager.subresource}"' if manager.subresource else ""
    return f'"{manager.name}"{through}' + (
        f" using {kind.api_version}" if manager.operation == "Update" else ""
    )

"""Strategic merge patch: like merge patch, but lists of named things merge entry by entry.

Which lists merge, and by which key, is said by the facts of the API's own types (`schema.facts`). Any other
list is replaced whole, as in a merge patch: `volumesAttached` and `volumesInUse` of a node are such lists.
Directives: `$patch: delete|replace`, `$deleteFromPrimitiveList/x`, `$setElementOrder/x`, `$retainKeys`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from mooring.apiserver.errors import BadRequest, Obj, Unclassified
from mooring.apiserver.schema.facts import Place
from mooring.apiserver.schema.shapes import json_type
from mooring.apiserver.values.hashable import identity, ranks

_DELETE_FROM, _ORDER, _RETAIN = "$deleteFromPrimitiveList/", "$setElementOrder/", "$retainKeys"
_DROPPED = object()


def strategic_merge_patch(target: Obj, patch: Any, at: Place) -> Obj:
    """`target`, an object that sits at a place, with `patch` merged in.

    Raises BadRequest for a patch that is no object, Unclassified for one that does not fit its lists.
    """
    if not isinstance(patch, dict):
        actual = json_type(patch)
        raise BadRequest(f"json: cannot unmarshal {actual} into Go value of type map[string]interface {{}}")
    return _objects(target, cast(Obj, patch), at)


def _objects(target: Obj, patch: Obj, at: Place) -> Obj:
    if "$patch" in patch:
        return _directed(patch)
    merged = _retained(target, patch)
    ordered = {key.removeprefix(_ORDER) for key in patch if key.startswith(_ORDER)}
    for key in ordered:
        _order(merged, key, patch, at.child(key))
    for key, value in patch.items():
        if not key.startswith("$") and key not in ordered:
            _set(merged, key, value, at.child(key))
    for key in [key for key in patch if key.startswith(_DELETE_FROM)]:
        field, dropped = key.removeprefix(_DELETE_FROM), ranks(_list(patch[key]))
        if field in merged:
            merged[field] = [entry for entry in _list(merged[field]) if identity(entry) not in dropped]
    return merged


def _directed(patch: Obj) -> Obj:
    directive = patch["$patch"]
    if directive == "replace":
        return _clean({key: value for key, value in patch.items() if key != "$patch"})
    if directive == "delete":
        return {}
    raise _unknown(patch)


def _unknown(patch: Obj) -> Unclassified:
    return Unclassified(f"unknown patch type: {_in_go(patch['$patch'])} in map: {_in_go(patch)}")


def _retained(target: Obj, patch: Obj) -> Obj:
    """A copy of `target` with no other fields than the patch says, if it says so."""
    if _RETAIN not in patch:
        return dict(target)
    kept = ranks(_list(patch[_RETAIN]))
    if any(value is not None and key not in kept for key, value in patch.items() if not key.startswith("$")):
        raise BadRequest("invalid patch format of retainKeys")
    return {key: value for key, value in target.items() if key in kept}


def _set(merged: Obj, key: str, value: Any, at: Place) -> None:
    before = merged.get(key)
    if value is None:
        merged.pop(key, None)
        return
    if isinstance(value, dict) and isinstance(before, dict) and not at.replace:
        made = _objects(cast(Obj, before), cast(Obj, value), at)
    elif isinstance(value, list) and isinstance(before, list):
        made = _lists(cast(list[Any], before), cast(list[Any], value), at)
    else:
        made = _clean(value)
    if made is not _DROPPED:
        merged[key] = made


def _lists(old: list[Any], patch: list[Any], at: Place) -> list[Any]:
    if at.merge_key is None:
        return _clean(patch)
    if not at.merge_key:
        before = ranks(old)
        return _interleaved(
            [*old, *(value for value in patch if identity(value) not in before)], patch, old, ""
        )
    if not all(isinstance(entry, dict) for entry in [*old, *patch]):
        return _clean(patch)
    kept, entries = _special(old, patch, at.merge_key)
    return _interleaved(_entries(kept, entries, at), entries, kept, at.merge_key)


def _special(old: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """What is left to merge, and into what, when the entries that are directives are obeyed."""
    replaced, entries, deleted = False, list[Any](), set[Any]()
    for entry in patch:
        match entry.get("$patch"):
            case None:
                entries.append(entry)
            case "delete":
                deleted.add(identity(_named(entry, key)))
            case "replace":
                replaced = True
            case "merge":
                raise Unclassified("merging lists cannot yet be specified in the patch")
            case _:
                raise _unknown(entry)
    if deleted:
        old = [each for each in old if identity(each.get(key)) not in deleted]
    return (_clean(entries), []) if replaced else (old, entries)


def _entries(old: list[Obj], patch: list[Obj], at: Place) -> list[Obj]:
    assert at.merge_key
    merged, places = [*old], ranks(each.get(at.merge_key) for each in old)
    for entry in patch:
        named = identity(_named(entry, at.merge_key))
        index = places.setdefault(named, len(merged))
        if index == len(merged):
            merged.append(_clean(entry))
        else:
            merged[index] = _objects(merged[index], entry, at.entry())
    return merged


def _named(entry: Obj, key: str) -> Any:
    if key not in entry:
        raise Unclassified(f"map: {_in_go(entry)} does not contain declared merge key: {key}")
    return entry[key]


def _order(merged: Obj, field: str, patch: Obj, at: Place) -> None:
    """Merges a list, and puts its entries in the order that the patch demands."""
    order, old, sent = _list(patch[_ORDER + field]), merged.get(field), patch.get(field)
    if sent is not None:
        _check_order(order, _list(sent), at.merge_key or "")
        _set(merged, field, sent, at)
    if field in merged:
        merged[field] = _interleaved(_list(merged[field]), order, _list(old), at.merge_key or "")


def _check_order(order: list[Any], patch: list[Any], key: str) -> None:
    """What a patch adds must be in the order that it demands; what it deletes need not."""
    wanted = [_identity(entry, key) for entry in order]
    named = [_identity(each, key) for each in patch if not (isinstance(each, dict) and "$patch" in each)]
    known = ranks(named)
    if order and [each for each in wanted if identity(each) in known] != named:
        message = f"The order in patch list:\n{_in_go(patch)}\n doesn't match $setElementOrder list:\n{_in_go(order)}\n"
        raise Unclassified(message)


def _interleaved(entries: Sequence[Any], order: Sequence[Any], before: Sequence[Any], key: str) -> list[Any]:
    """The entries that `order` names, as it has them, and the others, as they were before.

    Between the two, what was before keeps its place where both are known; else what is named goes first.
    """
    wanted, known = ranks(_named_by(order, key)), ranks(_named_by(before, key))
    marks = [identity(each) for each in _named_by(entries, key)]
    named = sorted((i for i, mark in enumerate(marks) if mark in wanted), key=lambda i: wanted[marks[i]])
    others = [i for i, mark in enumerate(marks) if mark not in wanted]
    made: list[Any] = []
    left = right = 0
    while left < len(others) and right < len(named):
        one, other = known.get(marks[others[left]]), known.get(marks[named[right]])
        if one is not None and other is not None and one < other:
            made.append(entries[others[left]])
            left += 1
        else:
            made.append(entries[named[right]])
            right += 1
    return [*made, *(entries[i] for i in named[right:]), *(entries[i] for i in others[left:])]


def _named_by(entries: Sequence[Any], key: str) -> list[Any]:
    return [_identity(each, key) for each in entries]


def _identity(entry: Any, key: str) -> Any:
    return cast(Obj, entry).get(key) if key and isinstance(entry, dict) else entry


def _list(value: Any) -> list[Any]:
    return cast(list[Any], value) if isinstance(value, list) else []


def _clean(value: Any) -> Any:
    """A copy of what a patch adds: without nulls and directives, and without objects that a directive
    marks."""
    if isinstance(value, dict):
        fields = cast(Obj, value)
        if "$patch" in fields:
            return _DROPPED
        kept = {
            key: _clean(each) for key, each in fields.items() if each is not None and not key.startswith("$")
        }
        return {key: each for key, each in kept.items() if each is not _DROPPED}
    if isinstance(value, list):
        return [each for each in map(_clean, cast(list[Any], value)) if each is not _DROPPED]
    return value


def _in_go(value: Any) -> str:
    """A value as Go prints it."""
    if isinstance(value, dict):
        fields = cast(Obj, value)
        return f"map[{' '.join(f'{key}:{_in_go(fields[key])}' for key in sorted(fields))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_in_go, cast(list[Any], value)))}]"
    if value is None or isinstance(value, bool):
        return {None: "<nil>", True: "true", False: "false"}[value]
    return str(value)

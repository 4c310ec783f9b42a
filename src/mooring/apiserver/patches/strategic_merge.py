"""Strategic merge patch: like merge patch, but lists of named things merge entry by entry.

Which lists merge, and by which key, is the table below; it states the `patchStrategy` and `patchMergeKey` of the
Kubernetes API's own types (1.36). A list that is not in it is replaced whole, as in a merge patch: `volumesAttached`
and `volumesInUse` of a node are such lists. Directives: `$patch: delete|replace|merge`, `$deleteFromPrimitiveList/x`,
`$setElementOrder/x`, `$retainKeys`.
"""

from collections.abc import Mapping
from typing import Any, cast

from mooring.apiserver.dotted import list_at, text_at
from mooring.apiserver.errors import BadRequest, Obj, Unclassified

MERGE_KEYS: Mapping[str, str] = {
    "addresses": "type",
    "allocatedResourcesStatus": "name",
    "conditions": "type",
    "containers": "name",
    "drivers": "name",
    "env": "name",
    "ephemeralContainers": "name",
    "hostAliases": "ip",
    "hostIPs": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "ports": "containerPort",
    "resourceClaimStatuses": "name",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""Lists of objects that merge, by field name, and the key that tells their entries apart."""

_MERGE_KEYS_OF_KIND: Mapping[str, Mapping[str, str]] = {"Service": {"ports": "port"}}
MERGED_PRIMITIVES = frozenset({"finalizers", "podCIDRs"})
"""Lists of plain values that merge as sets."""

_REPLACED: Mapping[str, frozenset[str]] = {"PodDisruptionBudget": frozenset({"selector"})}
_DELETE_FROM, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"


def merge_keys_of(kind: str) -> Mapping[str, str]:
    """The merge keys that hold in objects of `kind`."""
    return {**MERGE_KEYS, **_MERGE_KEYS_OF_KIND.get(kind, {})}


def strategic_merge_patch(target: Obj, patch: Any, kind: str) -> Obj:
    """`target`, an object of `kind`, with `patch` merged in. Raises BadRequest for a patch that is malformed."""
    if not isinstance(patch, dict):
        raise BadRequest("a strategic merge patch must be an object")
    return _Merger(merge_keys_of(kind), _REPLACED.get(kind, frozenset())).objects(target, cast(Obj, patch))


class _Merger:
    """One merge, with the tables of one kind."""

    def __init__(self, merge_keys: Mapping[str, str], replaced: frozenset[str]) -> None:
        self._keys = merge_keys
        self._replaced = replaced

    def objects(self, target: Obj, patch: Obj) -> Obj:
        directive = text_at(patch, "$patch")
        _check_directive(directive)
        if directive == "replace":
            return _plain({key: value for key, value in patch.items() if key != "$patch"})
        if directive == "delete":
            return {}
        merged = dict(target)
        for key, value in patch.items():
            if not key.startswith("$"):
                self._field(merged, key, value)
        self._directives(merged, patch)
        return merged

    def _field(self, merged: Obj, key: str, value: Any) -> None:
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict) and key not in self._replaced:
            before = merged.get(key)
            merged[key] = self.objects(cast(Obj, before) if isinstance(before, dict) else {}, cast(Obj, value))
        elif isinstance(value, list):
            before = merged.get(key)
            old = cast(list[Any], before) if isinstance(before, list) else []
            merged[key] = self._lists(key, old, cast(list[Any], value))
        else:
            merged[key] = value

    def _lists(self, field: str, old: list[Any], patch: list[Any]) -> list[Any]:
        if field in MERGED_PRIMITIVES:
            return [*old, *(value for value in patch if value not in old)]
        key = self._keys.get(field)
        if key is None or not all(isinstance(entry, dict) for entry in [*old, *patch]):
            return cast(list[Any], _plain(patch))
        entries = cast(list[Obj], patch)
        if any(entry.get("$patch") == "replace" for entry in entries):
            return [_plain(entry) for entry in entries if entry.get("$patch") != "replace"]
        return self._entries(key, field, [*cast(list[Obj], old)], entries)

    def _entries(self, key: str, field: str, merged: list[Obj], patch: list[Obj]) -> list[Obj]:
        for entry in patch:
            if key not in entry:
                raise Unclassified(f"map: {entry} does not contain declared merge key: {key} (list {field})")
            index = next((i for i, old in enumerate(merged) if old.get(key) == entry[key]), None)
            _check_directive(text_at(entry, "$patch"))
            if entry.get("$patch") == "delete":
                merged = [old for old in merged if old.get(key) != entry[key]]
            elif index is None:
                merged.append(self.objects({}, entry))
            else:
                merged[index] = self.objects(merged[index], entry)
        return merged

    def _directives(self, merged: Obj, patch: Obj) -> None:
        if "$retainKeys" in patch:
            for key in merged.keys() - set(list_at({"keys": patch["$retainKeys"]}, "keys")):
                del merged[key]
        for name in [name for name in patch if name.startswith(_DELETE_FROM)]:
            field, dropped = name.removeprefix(_DELETE_FROM), list_at({"entries": patch[name]}, "entries")
            merged[field] = [entry for entry in list_at(merged, field) if entry not in dropped]
        for name in [name for name in patch if name.startswith(_ORDER)]:
            field, order = name.removeprefix(_ORDER), list_at({"entries": patch[name]}, "entries")
            self._check_order(field, order, list_at(patch, field))
            self._reorder(merged, field, order)

    def _check_order(self, field: str, order: list[Any], patch: list[Any]) -> None:
        """What a patch adds must be in the order that it demands; what it deletes need not."""
        key = self._keys.get(field)
        wanted = [_identity(entry, key) for entry in order]
        named = [_identity(each, key) for each in patch if not (isinstance(each, dict) and "$patch" in each)]
        if [each for each in wanted if each in named] != named:
            raise Unclassified(f"The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n")

    def _reorder(self, merged: Obj, field: str, order: list[Any]) -> None:
        """Put the listed entries in the listed order; each other entry stays behind the one it followed."""
        entries = merged.get(field)
        if not isinstance(entries, list):
            return
        key = self._keys.get(field)

        def identity(entry: Any) -> Any:
            return _identity(entry, key)

        wanted = [identity(entry) for entry in order]
        listed = sorted(
            (entry for entry in cast(list[Any], entries) if identity(entry) in wanted),
            key=lambda entry: wanted.index(identity(entry)),
        )
        result = list(listed)
        for position, entry in enumerate(cast(list[Any], entries)):
            if identity(entry) not in wanted:
                before = cast(list[Any], entries)[position - 1] if position else None
                result.insert(result.index(before) + 1 if position and before in result else 0, entry)
        merged[field] = result


def _identity(entry: Any, key: str | None) -> Any:
    return cast(Obj, entry).get(key) if key and isinstance(entry, dict) else entry


def _check_directive(directive: str) -> None:
    if directive not in ("", "merge", "replace", "delete"):
        raise Unclassified(f"unknown patch type: {directive} in a strategic merge patch")


def _plain(value: Any) -> Any:
    """A copy of what a patch adds, without its nulls' and directives' meaning: directives are dropped, nulls too."""
    if isinstance(value, dict):
        fields = cast(Obj, value)
        return {key: _plain(each) for key, each in fields.items() if each is not None and not key.startswith("$")}
    if isinstance(value, list):
        return [_plain(each) for each in cast(list[Any], value)]
    return value

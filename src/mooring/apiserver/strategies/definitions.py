"""CustomResourceDefinitions: their defaults, what makes them invalid, and the names that they are given.

Names are accepted in the same write that asks for them: there is no controller between. The conditions, reasons and
messages are upstream's.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from mooring.apiserver.custom import patterns
from mooring.apiserver.defaults import Rules
from mooring.apiserver.dotted import list_at, object_at, objects_at, strings_at, text_at, value_at
from mooring.apiserver.errors import FieldError, Obj, forbidden_field, invalid_value, required, unsupported
from mooring.apiserver.strategy import IMMUTABLE, Admission, Strategy

STORAGE = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
_APPROVED = "api-approved.kubernetes.io"
_VERSION = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


def _list_kind(names: Obj) -> str | None:
    return f"{names['kind']}List" if names.get("kind") else None


def _singular(names: Obj) -> str | None:
    return str(names["kind"]).lower() if names.get("kind") else None


class Definitions(Strategy):
    """CustomResourceDefinitions."""

    counts_generations = True
    defaults: ClassVar[Rules] = {
        "spec.names.singular": _singular,
        "spec.names.listKind": _list_kind,
        "spec.conversion.strategy": "None",
    }
    immutable: ClassVar[Mapping[str, str]] = {
        "spec.group": IMMUTABLE, "spec.scope": IMMUTABLE, "spec.names.kind": IMMUTABLE, "spec.names.plural": IMMUTABLE,
    }  # fmt: skip

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        obj["status"] = {}
        _settle(obj, admission)

    def prepare_update(self, obj: Obj, old: Obj, admission: Admission) -> None:
        obj["status"] = dict(object_at(old, "status"))
        _settle(obj, admission)

    def validate(self, obj: Obj) -> list[FieldError]:
        spec = object_at(obj, "spec")
        found = [required(f"spec.{path}") for path in ("group", "scope", "names.plural", "names.kind")
                 if not text_at(spec, path)]  # fmt: skip
        if spec.get("scope") not in ("Namespaced", "Cluster"):
            found.append(unsupported("spec.scope", spec.get("scope"), ("Cluster", "Namespaced")))
        name = f"{text_at(spec, 'names.plural')}.{text_at(spec, 'group')}"
        if text_at(obj, "metadata.name") != name:
            detail = 'must be spec.names.plural+"."+spec.group'
            found.append(invalid_value("metadata.name", text_at(obj, "metadata.name"), detail))
        if text_at(spec, "conversion.strategy") != "None":
            found.append(unsupported("spec.conversion.strategy", text_at(spec, "conversion.strategy"), ("None",)))
        return found + _group_errors(obj, text_at(spec, "group")) + _version_errors(objects_at(spec, "versions"))

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        named = {text_at(each, "name") for each in objects_at(obj, "spec.versions")}
        gone = [each for each in list_at(old, "status.storedVersions") if each not in named]
        found = [invalid_value("status.storedVersions[0]", each, "must appear in spec.versions") for each in gone]
        return found + list(super().validate_update(obj, old))

    def holds(self, obj: Obj) -> bool:
        """A deletion first marks: the instances go before their definition."""
        return "deletionTimestamp" not in obj["metadata"]

    def mark_deleted(self, obj: Obj) -> None:
        finalizers = list_at(obj, "metadata.finalizers")
        if CLEANUP in finalizers:
            return
        obj["metadata"]["finalizers"] = [*finalizers, CLEANUP]
        when = obj["metadata"]["deletionTimestamp"]
        told = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        _set_condition(obj, "Terminating", ("True", "InstanceDeletionPending", told), when)


def _group_errors(obj: Obj, group: str) -> list[FieldError]:
    """A group is a domain; those of Kubernetes itself need a word of approval."""
    if group and "." not in group:
        return [invalid_value("spec.group", group, "should be a domain with at least one dot")]
    protected = group.endswith((".k8s.io", ".kubernetes.io")) or group in ("k8s.io", "kubernetes.io")
    if not protected or strings_at(obj, "metadata.annotations").get(_APPROVED):
        return []
    told = (
        f'protected groups must have approval annotation "{_APPROVED}", see '
        "https://github.com/kubernetes/enhancements/pull/1111"
    )
    return [required(f"metadata.annotations[{_APPROVED}]", told)]


def _version_errors(versions: Sequence[Obj]) -> list[FieldError]:
    found: list[FieldError] = (
        [] if versions else [required("spec.versions", "must have exactly one version marked as storage version")]
    )
    if versions and sum(bool(each.get("storage")) for each in versions) != 1:
        found.append(invalid_value("spec.versions", [], "must have exactly one version marked as storage version"))
    seen: set[str] = set()
    for index, version in enumerate(versions):
        path, name = f"spec.versions[{index}]", text_at(version, "name")
        if not _VERSION.fullmatch(name):
            found.append(invalid_value(f"{path}.name", name, "a DNS-1035 label is needed"))
        if name in seen:
            found.append(invalid_value("spec.versions", name, "must contain unique version names"))
        seen.add(name)
        schema = object_at(version, "schema.openAPIV3Schema")
        if not schema:
            found.append(required(f"{path}.schema.openAPIV3Schema", "schemas are required"))
        else:
            found += _structure_errors(schema, f"{path}.schema.openAPIV3Schema")
    return found


def _structure_errors(schema: Obj, path: str, *, root: bool = True) -> list[FieldError]:
    """What keeps a schema from being structural."""
    found: list[FieldError] = []
    loose = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    kind = schema.get("type")
    if root and kind != "object":
        told = required(f"{path}.type", "must not be empty at the root") if not kind else None
        found.append(told or invalid_value(f"{path}.type", kind, "must be object at the root"))
    elif not kind and not loose:
        found.append(required(f"{path}.type", "must not be empty for specified object fields"))
    if schema.get("pattern"):
        try:
            patterns.check(schema["pattern"])
        except patterns.BadPattern as error:
            told = f"must be a valid regular expression, but isn't: error parsing regexp: {error}"
            found.append(invalid_value(f"{path}.pattern", schema["pattern"], told))
    if schema.get("properties") and schema.get("additionalProperties"):
        found.append(
            forbidden_field(f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive")
        )
    for name, inner in object_at(schema, "properties").items():
        if not (root and name in ("apiVersion", "kind", "metadata")):
            found += _structure_errors(inner, f"{path}.properties[{name}]", root=False)
    for name in ("items", "additionalProperties"):
        inner: Any = schema.get(name)
        if isinstance(inner, dict):
            found += _structure_errors(inner, f"{path}.{name}", root=False)  # pyright: ignore[reportUnknownArgumentType]
    return found


def _settle(obj: Obj, admission: Admission) -> None:
    """Accept the names unless another definition has them, and note the storage version."""
    status, spec = obj["status"], object_at(obj, "spec")
    stored: list[Any] = list_at(status, "storedVersions")
    storage = [text_at(each, "name") for each in objects_at(spec, "versions") if each.get("storage")]
    status["storedVersions"] = [*stored, *(each for each in storage if each not in stored)]
    clash = _clash(obj, admission.objects(STORAGE))
    if clash is None:
        status["acceptedNames"] = dict(object_at(spec, "names"))
        _set_condition(obj, "NamesAccepted", ("True", "NoConflicts", "no conflicts found"), admission.now)
        initial = "the initial names have been accepted"
        _set_condition(obj, "Established", ("True", "InitialNamesAccepted", initial), admission.now)
        return
    status.setdefault("acceptedNames", {"plural": "", "kind": ""})
    _set_condition(obj, "NamesAccepted", ("False", *clash), admission.now)
    if not is_established(obj):
        told = ("False", "NotAccepted", "not all names are accepted")
        _set_condition(obj, "Established", told, admission.now)


def _clash(obj: Obj, others: Sequence[Obj]) -> tuple[str, str] | None:
    """Reason and message if another definition of the group has one of the names."""
    names = object_at(obj, "spec.names")
    for other in others:
        if text_at(other, "spec.group") != text_at(obj, "spec.group") or _name(other) == _name(obj):
            continue
        taken = object_at(other, "status.acceptedNames")
        for field, reason in (
            ("plural", "Plural"),
            ("singular", "Singular"),
            ("kind", "Kind"),
            ("listKind", "ListKind"),
        ):
            if names.get(field) and names[field] == taken.get(field):
                return f"{reason}Conflict", f'"{names[field]}" is already in use'
        for short in set(list_at(names, "shortNames")) & set(list_at(taken, "shortNames")):
            return "ShortNamesConflict", f'"{short}" is already in use'
    return None


def _name(definition: Obj) -> str:
    return text_at(definition, "metadata.name")


def is_established(definition: Obj) -> bool:
    """Whether the objects of a definition are served."""
    return any(
        each.get("type") == "Established" and each.get("status") == "True"
        for each in objects_at(definition, "status.conditions")
    )


def is_terminating(definition: Obj) -> bool:
    """Whether a definition is being deleted, and its instances with it."""
    return value_at(definition, "metadata.deletionTimestamp") is not None


def _set_condition(obj: Obj, kind: str, told: tuple[str, str, str], now: str) -> None:
    status, reason, message = told
    conditions = objects_at(obj, "status.conditions")
    before = next((each for each in conditions if each.get("type") == kind), Obj())
    since = before.get("lastTransitionTime", now) if before.get("status") == status else now
    made = {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}
    obj["status"] = object_at(obj, "status") | {
        "conditions": [each for each in conditions if each is not before] + [made]
    }

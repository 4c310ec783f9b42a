"""CustomResourceDefinitions: their defaults, what makes them invalid, and the names that they are given.

Names are accepted in the same write that asks for them: there is no controller between. The conditions,
reasons and messages are upstream's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from mooring.apiserver.errors import FieldError, Obj, invalid_value
from mooring.apiserver.objects.defaults import Rules
from mooring.apiserver.objects.strategy import IMMUTABLE, Admission, Strategy
from mooring.apiserver.objects.validation import definitions as valid
from mooring.apiserver.values.dotted import list_at, object_at, objects_at, text_at, value_at

STORAGE = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


def _list_kind(names: Obj) -> str | None:
    return f"{names['kind']}List" if names.get("kind") else None


def _singular(names: Obj) -> str | None:
    return str(names["kind"]).lower() if names.get("kind") else None


class Definitions(Strategy):
    """CustomResourceDefinitions."""

    counts_generations = True
    judges_base = False
    kube_finalizers = False
    rules = (valid.definition,)
    defaults: ClassVar[Rules] = {
        "spec.names.singular": _singular,
        "spec.names.listKind": _list_kind,
        "spec.conversion.strategy": "None",
    }
    immutable: ClassVar[Mapping[str, str]] = {
        "spec.group": IMMUTABLE, "spec.scope": IMMUTABLE, "spec.names.kind": IMMUTABLE, "spec.names.plural": IMMUTABLE,
    }  # fmt: skip

    def validate_new(self, obj: Obj) -> list[FieldError]:
        return [*valid.definition_name(obj), *super().validate_new(obj)]

    def prepare_create(self, obj: Obj, admission: Admission) -> None:
        obj["status"] = {}
        _settle(obj, admission)

    def prepare_update(self, obj: Obj, old: Obj, admission: Admission) -> None:
        obj["status"] = dict(object_at(old, "status"))
        _settle(obj, admission)

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        named = {text_at(each, "name") for each in objects_at(obj, "spec.versions")}
        gone = [each for each in list_at(old, "status.storedVersions") if each not in named]
        errors = [
            invalid_value("status.storedVersions[0]", each, "must appear in spec.versions") for each in gone
        ]
        return errors + list(super().validate_update(obj, old))

    def holds(self, obj: Obj) -> bool:
        """A deletion first marks: the instances go before their definition."""
        return "deletionTimestamp" not in obj["metadata"]

    def mark_deleted(self, obj: Obj) -> None:
        finalizers = list_at(obj, "metadata.finalizers")
        if CLEANUP in finalizers:
            return
        obj["metadata"]["finalizers"] = [*finalizers, CLEANUP]
        when = obj["metadata"]["deletionTimestamp"]
        message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        _set_condition(obj, "Terminating", ("True", "InstanceDeletionPending", message), when)


def _settle(obj: Obj, admission: Admission) -> None:
    """Accepts the names unless another definition has them, and notes the storage version."""
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
        message = ("False", "NotAccepted", "not all names are accepted")
        _set_condition(obj, "Established", message, admission.now)


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


def _set_condition(obj: Obj, kind: str, state: tuple[str, str, str], now: str) -> None:
    status, reason, message = state
    conditions = objects_at(obj, "status.conditions")
    before = next((each for each in conditions if each.get("type") == kind), Obj())
    since = before.get("lastTransitionTime", now) if before.get("status") == status else now
    made = {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}
    obj["status"] = object_at(obj, "status") | {
        "conditions": [each for each in conditions if each is not before] + [made]
    }

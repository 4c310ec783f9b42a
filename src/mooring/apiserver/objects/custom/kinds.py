"""From a CustomResourceDefinition to the kinds that it defines: one for each version that it serves. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mooring.apiserver.errors import FieldError, Obj
from mooring.apiserver.objects.custom import structural
from mooring.apiserver.objects.kinds import Conversion, Custom, Kind, PrinterColumn
from mooring.apiserver.objects.strategies.definitions import is_terminating
from mooring.apiserver.objects.strategy import Admission, Strategy
from mooring.apiserver.values.dotted import list_at, object_at, objects_at, text_at


class CustomObjects(Strategy):
    """The objects of one version of a definition: ruled by its schema."""

    counts_generations = True

    def __init__(self, schema: Obj) -> None:
        self._schema = schema

    def default(self, obj: Obj) -> None:
        structural.fill_defaults(self._schema, obj)

    def validate(self, obj: Obj) -> list[FieldError]:
        return structural.value_errors(self._schema, obj)

    def prepare_status(self, obj: Obj, old: Obj, admission: Admission) -> None:
        structural.fill_defaults(self._schema, obj)

    def validate_status(self, obj: Obj) -> list[FieldError]:
        return structural.value_errors(self._schema, obj)


def kinds_of(definition: Obj) -> Sequence[Kind]:
    """The kinds of an established definition, one for each served version."""
    versions = objects_at(definition, "spec.versions")
    storage = next(text_at(each, "name") for each in versions if each.get("storage"))
    migrating = list_at(definition, "status.storedVersions") != [storage]
    return [_kind(definition, each, storage, migrating=migrating) for each in versions if each.get("served")]


def _kind(definition: Obj, version: Obj, storage: str, *, migrating: bool) -> Kind:
    spec, name = object_at(definition, "spec"), text_at(version, "name")
    names = object_at(definition, "status.acceptedNames")
    subresources = object_at(version, "subresources")
    custom = _custom(definition, version)
    stored = Kind(
        text_at(spec, "group"),
        storage,
        text_at(names, "kind"),
        text_at(names, "plural"),
        spec.get("scope") == "Namespaced",
        tuple(list_at(names, "shortNames")),
        frozenset(each for each in ("status", "scale") if each in subresources),
        tuple(list_at(names, "categories")),
        CustomObjects(custom.schema),
        custom=custom,
    )
    if name == storage and not migrating:
        return stored
    served = replace(stored, version=name)
    conversion = Conversion(stored, _versioned(stored.api_version), _versioned(served.api_version))
    return replace(served, conversion=conversion)


def _versioned(api_version: str) -> Callable[[Obj], Obj]:
    """Conversion strategy None: nothing but the version changes."""
    return lambda obj: {**obj, "apiVersion": api_version}


def _deprecation(definition: Obj, version: Obj) -> str:
    if not version.get("deprecated"):
        return ""
    group, name = text_at(definition, "spec.group"), text_at(version, "name")
    default = f"{group}/{name} {text_at(definition, 'spec.names.kind')} is deprecated"
    return text_at(version, "deprecationWarning") or default


def _custom(definition: Obj, version: Obj) -> Custom:
    scale = object_at(version, "subresources.scale")
    columns = [
        PrinterColumn(
            text_at(each, "name"),
            text_at(each, "jsonPath"),
            text_at(each, "type"),
            text_at(each, "description"),
            wide=bool(each.get("priority")),
        )
        for each in objects_at(version, "additionalPrinterColumns")
    ]
    return Custom(
        text_at(definition, "metadata.name"),
        text_at(definition, "spec.names.singular"),
        text_at(definition, "spec.names.listKind"),
        object_at(version, "schema.openAPIV3Schema"),
        tuple(columns),
        text_at(scale, "specReplicasPath"),
        text_at(scale, "statusReplicasPath"),
        text_at(scale, "labelSelectorPath"),
        terminating=is_terminating(definition),
        deprecated=_deprecation(definition, version),
    )

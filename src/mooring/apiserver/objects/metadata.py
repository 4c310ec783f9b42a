"""Metadata: the client's fields, the server's fields, and their validation. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mooring.apiserver.errors import BadRequest, FieldError, Obj, forbidden_field, invalid_value, required
from mooring.apiserver.objects.kinds import Kind
from mooring.apiserver.objects.validation.checks import Check, Errors, at, each, not_negative
from mooring.apiserver.objects.validation.configuration import kube_finalizer
from mooring.apiserver.objects.validation.formats import path_segment_error
from mooring.apiserver.objects.validation.labels import annotations, labels, name_errors
from mooring.apiserver.values.dotted import WrongForm, list_at, object_at, objects_at, strings_at, text_at

_SERVER_SET = ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "uid", "creationTimestamp")


def of(obj: Obj) -> Obj:
    """An object's metadata, made if missing. Raises BadRequest if it does not have the form of metadata."""
    try:
        metadata = object_at(obj, "metadata")
        _check_form(metadata)
    except WrongForm as error:
        raise BadRequest(f"metadata does not have its form: {error}") from error
    obj["metadata"] = metadata
    return metadata


def _check_form(metadata: Obj) -> None:
    for field in ("name", "generateName", "namespace", "uid", "resourceVersion"):
        if field in metadata:
            text_at(metadata, field)
    for field in ("labels", "annotations"):
        if field in metadata:
            strings_at(metadata, field)
    if "finalizers" in metadata and not all(
        isinstance(each, str) for each in list_at(metadata, "finalizers")
    ):
        raise WrongForm("finalizers must be a list of strings")
    if "ownerReferences" in metadata:
        objects_at(metadata, "ownerReferences")


def tidy(metadata: Obj) -> None:
    """Drops fields that say nothing (null, empty), so that equal objects are stored equal."""
    for field in [field for field, value in metadata.items() if value is None or value in ("", [], {})]:
        del metadata[field]


def stamp_new(metadata: Obj, *, uid: str, now: str, generation: int) -> None:
    """Sets the server's fields on a new object, whatever the client sent; with a `generation` of 0 the
    client's stays."""
    for field in _SERVER_SET:
        metadata.pop(field, None)
    metadata |= {"uid": uid, "creationTimestamp": now}
    if generation:
        metadata["generation"] = generation


def carry_over(metadata: Obj, old: Obj) -> None:
    """Keeps what an update can never change or remove (upstream's `BeforeUpdate`)."""
    metadata.pop("selfLink", None)
    metadata["uid"] = metadata.get("uid") or old["uid"]
    for field in ("creationTimestamp", "generation"):
        metadata.pop(field, None)
        if field in old:
            metadata[field] = old[field]
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if field in old and metadata.get(field) is None:
            metadata[field] = old[field]


def validate(kind: Kind, metadata: Obj, old: Obj | None = None) -> list[FieldError]:
    """All errors of an object's metadata. Parts that equal `old`, which is stored, are valid."""
    before = old or {}
    errors = [*_name_errors(kind, metadata)] if old is None else _base_errors(kind, metadata, before)
    for field, check in _CHECKS.items():
        if metadata.get(field) != before.get(field):
            errors += at(f"metadata.{field}", check(metadata.get(field)))
    finalizers = metadata.get("finalizers")
    if kind.strategy.kube_finalizers and finalizers and finalizers != before.get("finalizers"):
        errors += at("metadata.finalizers", each(kube_finalizer)(finalizers))
    return errors


def _base_errors(kind: Kind, metadata: Obj, old: Obj) -> list[FieldError]:
    """What is wrong with a base that an update changes: no name is made from it, but it is kept."""
    base = metadata.get("generateName")
    if not base or base == old.get("generateName"):
        return []
    why = path_segment_error(base)
    if kind.strategy.judges_base:
        why = kind.strategy.name_error(_as_name(base)) or why
    return [invalid_value("metadata.generateName", base, why)] if why is not None else []


def _name_errors(kind: Kind, metadata: Obj) -> Sequence[FieldError]:
    """A name of the kind's form that can be a part of a path, and a base that names can be made from."""
    base, name = metadata.get("generateName") or "", metadata.get("name") or ""
    errors: list[FieldError] = []
    form = path_segment_error if kind.strategy.any_base else kind.strategy.name_error
    for field, value, judge in (
        ("generateName", _as_name(base), form),
        ("name", name, kind.strategy.name_error),
    ):
        why = judge(value) or path_segment_error(value) if value else None
        if why is not None:
            errors.append(invalid_value(f"metadata.{field}", metadata.get(field), why))
    return errors if name else [*errors, required("metadata.name", "name or generateName is required")]


def _as_name(base: str) -> str:
    """A base as the name that it will be a part of: what follows it may end its last dash."""
    return f"{base[:-2]}a" if len(base) > 1 and base.endswith("-") else base


def _finalizers(value: Any) -> Errors:
    errors = [error for each in value or () for error in name_errors("", each)]
    if {"orphan", "foregroundDeletion"} <= set(value or ()):
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid_value("", value, detail))
    return errors


def _owner(owner: Obj) -> Errors:
    version, kind = owner.get("apiVersion") or "", owner.get("kind") or ""
    errors: list[FieldError] = []
    if not version or version.count("/") > 1 or version.endswith("/"):
        errors.append(invalid_value("apiVersion", version, "version must not be empty"))
    empty = [field for field in ("kind", "name", "uid") if not owner.get(field)]
    errors += [invalid_value(field, "", "must not be empty") for field in empty]
    if (version, kind) == ("v1", "Event"):
        errors.append(invalid_value("", owner, "/v1, Kind=Event is disallowed from being an owner"))
    return errors


def _owners(value: Any) -> Errors:
    owners: list[Obj] = value or []
    # As upstream: the error names no index, whichever owner it is about.
    errors = [error for owner in owners for error in _owner(owner)]
    controllers = [f"{owner.get('kind')}/{owner.get('name')}" for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        detail = (
            'Only one reference can have Controller set to true. Found "true" in references for '
            f"{' and '.join(controllers)}"
        )
        errors.append(invalid_value("", owners, detail))
    return errors


_CHECKS: Mapping[str, Check] = {
    "generation": not_negative,
    "labels": labels,
    "annotations": annotations,
    "ownerReferences": _owners,
    "finalizers": _finalizers,
}


def validate_update(metadata: Obj, old: Obj) -> list[FieldError]:
    """What an update changed that it may not change."""
    immutable = (
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    )
    errors = [
        invalid_value(f"metadata.{field}", metadata.get(field), "field is immutable")
        for field in immutable
        if metadata.get(field) != old.get(field)
    ]
    added = set(metadata.get("finalizers") or ()) - set(old.get("finalizers") or ())
    if added and "deletionTimestamp" in old:
        shown = ", ".join(f'"{each}"' for each in sorted(added))
        detail = (
            f"no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{shown}}}"
        )
        errors.append(forbidden_field("metadata.finalizers", detail))
    return errors

"""Metadata: what a client may set, what the server sets, and what is wrong with it. Pure."""

import re
from collections.abc import Callable, Mapping

from mooring.apiserver.dotted import WrongForm, list_at, object_at, objects_at, strings_at, text_at
from mooring.apiserver.errors import BadRequest, FieldError, Obj, forbidden_field, invalid_value, required
from mooring.apiserver.kinds import Kind
from mooring.apiserver.strategy import qualified_name_errors

_LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_MAX_ANNOTATION_BYTES = 256 * 1024
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
    if "finalizers" in metadata and not all(isinstance(each, str) for each in list_at(metadata, "finalizers")):
        raise WrongForm("finalizers must be a list of strings")
    if "ownerReferences" in metadata:
        objects_at(metadata, "ownerReferences")


def tidy(metadata: Obj) -> None:
    """Drop fields that say nothing (null, empty), so that equal objects are stored equal."""
    for field in [field for field, value in metadata.items() if value is None or value in ("", [], {})]:
        del metadata[field]


def stamp_new(metadata: Obj, *, uid: str, now: str, generation: int) -> None:
    """Set what the server sets on a new object, whatever the client said; a `generation` of 0 is the client's."""
    for field in _SERVER_SET:
        metadata.pop(field, None)
    metadata |= {"uid": uid, "creationTimestamp": now}
    if generation:
        metadata["generation"] = generation


def carry_over(metadata: Obj, old: Obj) -> None:
    """Keep what an update can never change or remove (upstream's `BeforeUpdate`)."""
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
    """Everything wrong with an object's metadata; what is as in `old`, which is stored, is right."""
    before = old or {}
    found: list[FieldError] = []
    name: str = metadata.get("name") or ""
    if not name:
        found.append(required("metadata.name", "name or generateName is required"))
    elif (why := kind.strategy.name_error(name)) is not None:
        found.append(invalid_value("metadata.name", name, why))
    for field, errors in _ERRORS.items():
        if metadata.get(field) != before.get(field):
            found += errors(metadata)
    return found


def _label_errors(metadata: Obj) -> list[FieldError]:
    found: list[FieldError] = []
    for key, value in strings_at(metadata, "labels").items():
        found += _key_errors("metadata.labels", key)
        if (why := _label_value_error(value)) is not None:
            found.append(invalid_value("metadata.labels", value, why))
    return found


def _annotation_errors(metadata: Obj) -> list[FieldError]:
    annotations = strings_at(metadata, "annotations")
    found = [error for key in annotations for error in _key_errors("metadata.annotations", key)]
    size = sum(len(key) + len(value.encode(errors="replace")) for key, value in annotations.items())
    if size > _MAX_ANNOTATION_BYTES:
        too_long = f"Too long: may not be more than {_MAX_ANNOTATION_BYTES} bytes"
        found.append(FieldError("FieldValueTooLong", "metadata.annotations", too_long))
    return found


def _label_value_error(value: str) -> str | None:
    if len(value) > 63:
        return "must be no more than 63 bytes"
    return None if not value or _LABEL_NAME.fullmatch(value) else _LABEL_VALUE


_LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def _key_errors(path: str, key: str) -> list[FieldError]:
    return [invalid_value(path, key, why) for why in qualified_name_errors(key)]


def _finalizer_errors(metadata: Obj) -> list[FieldError]:
    found: list[FieldError] = []
    for index, each in enumerate(list_at(metadata, "finalizers")):
        wrong = _key_errors("metadata.finalizers", each)
        if not wrong and "/" not in each and each not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            wrong = [invalid_value(f"metadata.finalizers[{index}]", each, detail)]
        found += wrong
    return found


_STANDARD_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


def _owner_errors(metadata: Obj) -> list[FieldError]:
    owners = objects_at(metadata, "ownerReferences")
    found = [
        invalid_value(f"metadata.ownerReferences.{field}", "", "must not be empty")
        for owner in owners
        for field in ("apiVersion", "kind", "name", "uid")
        if not owner.get(field)
    ]
    controllers = [owner for owner in owners if owner.get("controller")]
    if len(controllers) > 1:
        kinds = [f"{owner.get('kind')}/{owner.get('name')}" for owner in controllers]
        detail = (
            f'Only one reference can have Controller set to true. Found "true" in references for {" and ".join(kinds)}'
        )
        found.append(invalid_value("metadata.ownerReferences", owners, detail))
    return found


_ERRORS: Mapping[str, Callable[[Obj], list[FieldError]]] = {
    "labels": _label_errors,
    "annotations": _annotation_errors,
    "ownerReferences": _owner_errors,
    "finalizers": _finalizer_errors,
}


def validate_update(metadata: Obj, old: Obj) -> list[FieldError]:
    """What an update changed that it may not change."""
    immutable = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
    found = [
        invalid_value(f"metadata.{field}", metadata.get(field), "field is immutable")
        for field in immutable
        if metadata.get(field) != old.get(field)
    ]
    added = set(metadata.get("finalizers") or ()) - set(old.get("finalizers") or ())
    if added and "deletionTimestamp" in old:
        told = ", ".join(f'"{each}"' for each in sorted(added))
        detail = (
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{told}}}"
        )
        found.append(forbidden_field("metadata.finalizers", detail))
    return found

"""Metadata: what a client may set, what the server sets, and what is wrong with it. Pure."""

import re

from mooring.apiserver.dotted import WrongForm, list_at, object_at, objects_at, strings_at, text_at
from mooring.apiserver.errors import BadRequest, FieldError, Obj, invalid_value, required
from mooring.apiserver.kinds import Kind

_LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_MAX_ANNOTATION_BYTES = 256 * 1024
_SERVER_SET = ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "uid", "creationTimestamp", "generation")


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
        text_at(metadata, field)
    for field in ("labels", "annotations"):
        strings_at(metadata, field)
    if not all(isinstance(each, str) for each in list_at(metadata, "finalizers")):
        raise WrongForm("finalizers must be a list of strings")
    objects_at(metadata, "ownerReferences")


def tidy(metadata: Obj) -> None:
    """Drop fields that say nothing (null, empty), so that equal objects are stored equal."""
    for field in [field for field, value in metadata.items() if value is None or value in ("", [], {})]:
        del metadata[field]


def stamp_new(metadata: Obj, *, uid: str, now: str, generation: bool) -> None:
    """Set what the server sets on a new object, whatever the client said."""
    for field in _SERVER_SET:
        metadata.pop(field, None)
    metadata |= {"uid": uid, "creationTimestamp": now}
    if generation:
        metadata["generation"] = 1


def carry_over(metadata: Obj, old: Obj) -> None:
    """Keep what an update can never change or remove (upstream's `BeforeUpdate`)."""
    metadata.pop("selfLink", None)
    metadata["uid"] = metadata.get("uid") or old["uid"]
    for field in ("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        metadata.pop(field, None)
        if field in old:
            metadata[field] = old[field]


def validate(kind: Kind, metadata: Obj) -> list[FieldError]:
    """Everything wrong with an object's metadata."""
    found: list[FieldError] = []
    name: str = metadata.get("name") or ""
    if not name:
        found.append(required("metadata.name", "name or generateName is required"))
    elif (why := kind.strategy.name_error(name)) is not None:
        found.append(invalid_value("metadata.name", name, why))
    for key, value in strings_at(metadata, "labels").items():
        found += _key_errors("metadata.labels", key)
        if value and (len(value) > 63 or not _LABEL_NAME.fullmatch(value)):
            found.append(invalid_value("metadata.labels", value, _LABEL_VALUE))
    annotations = strings_at(metadata, "annotations")
    for key in annotations:
        found += _key_errors("metadata.annotations", key)
    if (
        sum(len(key) + len(value.encode(errors="replace")) for key, value in annotations.items())
        > _MAX_ANNOTATION_BYTES
    ):
        too_long = f"Too long: may not be more than {_MAX_ANNOTATION_BYTES} bytes"
        found.append(FieldError("FieldValueTooLong", "metadata.annotations", too_long))
    return found + _owner_errors(metadata) + _finalizer_errors(metadata)


_LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_QUALIFIED_NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def _key_errors(path: str, key: str) -> list[FieldError]:
    prefix, slash, name = key.rpartition("/")
    good = len(name) <= 63 and _LABEL_NAME.fullmatch(name) and len(prefix) <= 253 and (bool(prefix) or not slash)
    return [] if good else [invalid_value(path, key, _QUALIFIED_NAME)]


def _finalizer_errors(metadata: Obj) -> list[FieldError]:
    wrong = [each for each in list_at(metadata, "finalizers") if _key_errors("metadata.finalizers", each)]
    return [invalid_value("metadata.finalizers", each, _QUALIFIED_NAME) for each in wrong]


def _owner_errors(metadata: Obj) -> list[FieldError]:
    owners = objects_at(metadata, "ownerReferences")
    found = [
        required(f"metadata.ownerReferences[{index}].{field}")
        for index, owner in enumerate(owners)
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


def validate_update(metadata: Obj, old: Obj) -> list[FieldError]:
    """What an update changed that it may not change."""
    immutable = ("name", "namespace", "uid", "creationTimestamp")
    found = [
        invalid_value(f"metadata.{field}", metadata.get(field), "field is immutable")
        for field in immutable
        if metadata.get(field) != old.get(field)
    ]
    added = set(metadata.get("finalizers") or ()) - set(old.get("finalizers") or ())
    if added and "deletionTimestamp" in old:
        detail = f"no new finalizers can be added if the object is being deleted, found new finalizers {sorted(added)}"
        found.append(FieldError("FieldValueForbidden", "metadata.finalizers", f"Forbidden: {detail}"))
    return found

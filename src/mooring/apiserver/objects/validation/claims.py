"""Access modes, sizes and classes; claims, and templates of claims."""

from __future__ import annotations

from typing import Any

from mooring.apiserver.errors import FieldError, Obj, forbidden_field, invalid_value, required, unsupported
from mooring.apiserver.objects.validation.checks import (
    NONE,
    Errors,
    at,
    entries,
    exactly,
    needed,
    one_of,
    part,
    record,
    text,
)
from mooring.apiserver.objects.validation.formats import subdomain_error
from mooring.apiserver.objects.validation.labels import annotations, labels, selector
from mooring.apiserver.objects.validation.resources import positive_amount

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_NOT_INLINE = "may not be specified in the context of inline volumes"
volume_mode = one_of("Block", "Filesystem")
class_name = text(subdomain_error)
"""The name of a StorageClass or VolumeAttributesClass."""


def access_modes(modes: list[str]) -> Errors:
    """Known modes; ReadWriteOncePod is alone."""
    errors = [unsupported("", mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and any(mode in _MODES and mode != "ReadWriteOncePod" for mode in modes):
        errors.append(forbidden_field("", "may not use ReadWriteOncePod with other access modes"))
    return errors


def _data_source(source: Obj) -> Errors:
    group, kind = source.get("apiGroup") or "", source.get("kind") or ""
    errors = [*_NAMED(source)]
    if not group and kind != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(invalid_value("", kind, detail))
    return [*errors, *at("apiGroup", text(subdomain_error)(group))]


_NAMED = record(("name", needed()), ("kind", needed()))


def claim_spec(spec: Obj) -> Errors:
    """The spec of a PersistentVolumeClaim."""
    modes = entries(spec, "accessModes")
    errors: list[FieldError] = (
        [] if modes else [required("accessModes", "at least 1 access mode is required")]
    )
    errors += at("selector", selector(part(spec, "selector")))
    errors += at("accessModes", access_modes(modes))
    storage = (part(part(spec, "resources"), "requests")).get("storage")
    errors += at("resources[storage]", [required("")] if storage is None else positive_amount(storage))
    return [*errors, *_CLAIM(spec), *_one_source(spec)]


_CLAIM = record(
    ("storageClassName", class_name), ("volumeMode", volume_mode), ("dataSource", _data_source),
    ("dataSourceRef", _data_source), ("volumeAttributesClassName", class_name),
)  # fmt: skip


def _one_source(spec: Obj) -> Errors:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is None or reference is None:
        return NONE
    if reference.get("namespace"):
        return [
            invalid_value("", "dataSource", "may not be specified when dataSourceRef.namespace is specified")
        ]
    same = all(source.get(field) == reference.get(field) for field in ("apiGroup", "kind", "name"))
    return NONE if same else [invalid_value("", "dataSource", "must match dataSourceRef")]


def claim_template(template: Obj) -> Errors:
    """The template of an ephemeral volume's claim: labels, annotations and a spec."""
    errors = at("metadata", template_metadata(part(template, "metadata")))
    return [*errors, *at("spec", claim_spec(part(template, "spec")))]


def template_metadata(metadata: Obj) -> Errors:
    """The metadata of a template of claims: labels and annotations, nothing else."""
    errors = [
        *at("annotations", annotations(metadata.get("annotations"))),
        *at("labels", labels(metadata.get("labels"))),
    ]
    return [
        *errors,
        *(
            forbidden_field(_TOLD.get(field, field), "cannot be set")
            for field in _METADATA
            if metadata.get(field)
        ),
    ]


_TOLD = {"uid": "uID"}
"""As upstream: the names of Go's fields in lower case."""
_METADATA = ("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation",
             "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers",
             "managedFields")  # fmt: skip


def _capacity(capacity: Obj) -> Errors:
    errors: list[FieldError] = [] if capacity else [required("")]
    if set(capacity) != {"storage"}:
        errors.append(unsupported("", capacity or None, ("storage",)))
    return [
        *errors,
        *(error for name, size in capacity.items() for error in at(f"[{name}]", positive_amount(size))),
    ]


def volume_head(spec: Obj) -> Errors:
    """The fields of a PersistentVolume's spec that upstream checks before its source: modes, capacity,
    reclaim policy."""
    modes = entries(spec, "accessModes")
    errors: list[FieldError] = [] if modes else [required("accessModes")]
    errors += at("accessModes", access_modes(modes))
    errors += at("capacity", _capacity(part(spec, "capacity")))
    policy = spec.get("persistentVolumeReclaimPolicy")
    return [
        *errors,
        *at(
            "persistentVolumeReclaimPolicy", one_of("Delete", "Recycle", "Retain")(policy) if policy else NONE
        ),
    ]


def volume_tail(spec: Obj) -> Errors:
    """The fields of a PersistentVolume's spec that upstream checks after its source: class, mode,
    attributes."""
    errors = list(record(("storageClassName", class_name), ("volumeMode", volume_mode))(spec))
    attributes = spec.get("volumeAttributesClassName")
    if attributes is None:
        return errors
    detail = (
        exactly(subdomain_error)(attributes)
        if attributes
        else [required("", "an empty string is disallowed")]
    )
    errors += at("volumeAttributesClassName", detail)
    if spec.get("csi") is None:
        errors.append(required("csi", "has to be specified when using volumeAttributesClassName"))
    return errors


def inline_volume_head(spec: Obj) -> Errors:
    """The fields that only a PersistentVolume's spec may have, not an inline volume's; those that upstream
    checks before the source."""
    errors: list[FieldError] = [
        forbidden_field(field, _NOT_INLINE) for field in ("claimRef", "capacity") if spec.get(field)
    ]
    if spec.get("csi") is None:
        errors.append(required("csi", "has to be specified in the context of inline volumes"))
    modes = entries(spec, "accessModes")
    errors += [] if modes else [required("accessModes")]
    errors += at("accessModes", access_modes(modes))
    if (spec.get("persistentVolumeReclaimPolicy") or "Retain") != "Retain":
        detail = "may only be Retain in the context of inline volumes"
        errors.append(forbidden_field("persistentVolumeReclaimPolicy", detail))
    return (
        [*errors, forbidden_field("nodeAffinity", _NOT_INLINE)]
        if spec.get("nodeAffinity") is not None
        else errors
    )


def inline_volume_tail(spec: Obj) -> Errors:
    """The same, for the fields that upstream checks after the source."""
    errors: list[FieldError] = (
        [forbidden_field("storageClassName", _NOT_INLINE)] if spec.get("storageClassName") else []
    )
    if (spec.get("volumeMode") or "Filesystem") != "Filesystem":
        detail = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        errors.append(forbidden_field("volumeMode", detail))
    return errors


def is_root(path: Any) -> bool:
    """Whether a path on a host is its root."""
    return (
        bool(path)
        and path.startswith("/")
        and not any(part not in ("", ".", "..") for part in path.split("/"))
    )

"""What is asked of storage: access modes, sizes, classes; claims, and templates of claims."""

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
volume_mode = one_of("Block", "Filesystem")
class_name = text(subdomain_error)
"""The name of a StorageClass or VolumeAttributesClass."""


def access_modes(modes: list[str]) -> Errors:
    """Known modes; ReadWriteOncePod is alone."""
    found = [unsupported("", mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and any(mode in _MODES and mode != "ReadWriteOncePod" for mode in modes):
        found.append(forbidden_field("", "may not use ReadWriteOncePod with other access modes"))
    return found


def _data_source(source: Obj) -> Errors:
    group, kind = source.get("apiGroup") or "", source.get("kind") or ""
    found = [*_NAMED(source)]
    if not group and kind != "PersistentVolumeClaim":
        told = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        found.append(invalid_value("", kind, told))
    return [*found, *at("apiGroup", text(subdomain_error)(group))]


_NAMED = record(("name", needed()), ("kind", needed()))


def claim_spec(spec: Obj) -> Errors:
    """The spec of a PersistentVolumeClaim."""
    modes = entries(spec, "accessModes")
    found: list[FieldError] = [] if modes else [required("accessModes", "at least 1 access mode is required")]
    found += at("selector", selector(part(spec, "selector")))
    found += at("accessModes", access_modes(modes))
    storage = (part(part(spec, "resources"), "requests")).get("storage")
    found += at("resources[storage]", [required("")] if storage is None else positive_amount(storage))
    return [*found, *_CLAIM(spec), *_one_source(spec)]


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
    found = at("metadata", template_metadata(part(template, "metadata")))
    return [*found, *at("spec", claim_spec(part(template, "spec")))]


def template_metadata(metadata: Obj) -> Errors:
    """The metadata of a template of claims: labels and annotations, nothing else."""
    found = [
        *at("annotations", annotations(metadata.get("annotations"))),
        *at("labels", labels(metadata.get("labels"))),
    ]
    return [
        *found,
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
    found: list[FieldError] = [] if capacity else [required("")]
    if set(capacity) != {"storage"}:
        found.append(unsupported("", capacity or None, ("storage",)))
    return [
        *found,
        *(error for name, size in capacity.items() for error in at(f"[{name}]", positive_amount(size))),
    ]


def volume_head(spec: Obj) -> Errors:
    """Of a PersistentVolume's spec what comes before its source: modes, capacity, reclaim policy."""
    modes = entries(spec, "accessModes")
    found: list[FieldError] = [] if modes else [required("accessModes")]
    found += at("accessModes", access_modes(modes))
    found += at("capacity", _capacity(part(spec, "capacity")))
    policy = spec.get("persistentVolumeReclaimPolicy")
    return [
        *found,
        *at(
            "persistentVolumeReclaimPolicy", one_of("Delete", "Recycle", "Retain")(policy) if policy else NONE
        ),
    ]


def volume_tail(spec: Obj) -> Errors:
    """Of a PersistentVolume's spec what comes after its source: class, mode, attributes."""
    found = list(record(("storageClassName", class_name), ("volumeMode", volume_mode))(spec))
    attributes = spec.get("volumeAttributesClassName")
    if attributes is None:
        return found
    told = (
        exactly(subdomain_error)(attributes)
        if attributes
        else [required("", "an empty string is disallowed")]
    )
    found += at("volumeAttributesClassName", told)
    if spec.get("csi") is None:
        found.append(required("csi", "has to be specified when using volumeAttributesClassName"))
    return found


def inline_volume_head(spec: Obj) -> Errors:
    """What an inline volume's spec may not say that a PersistentVolume's can, before its source."""
    told = "may not be specified in the context of inline volumes"
    found: list[FieldError] = [
        forbidden_field(field, told) for field in ("claimRef", "capacity") if spec.get(field)
    ]
    if spec.get("csi") is None:
        found.append(required("csi", "has to be specified in the context of inline volumes"))
    modes = entries(spec, "accessModes")
    found += [] if modes else [required("accessModes")]
    found += at("accessModes", access_modes(modes))
    if (spec.get("persistentVolumeReclaimPolicy") or "Retain") != "Retain":
        detail = "may only be Retain in the context of inline volumes"
        found.append(forbidden_field("persistentVolumeReclaimPolicy", detail))
    return [*found, forbidden_field("nodeAffinity", told)] if spec.get("nodeAffinity") is not None else found


def inline_volume_tail(spec: Obj) -> Errors:
    """The same, after its source."""
    told = "may not be specified in the context of inline volumes"
    found: list[FieldError] = (
        [forbidden_field("storageClassName", told)] if spec.get("storageClassName") else []
    )
    if (spec.get("volumeMode") or "Filesystem") != "Filesystem":
        detail = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        found.append(forbidden_field("volumeMode", detail))
    return found


def is_root(path: Any) -> bool:
    """Whether a path on a host is its root."""
    return (
        bool(path)
        and path.startswith("/")
        and not any(part not in ("", ".", "..") for part in path.split("/"))
    )

"""Volumes, claims, and the kinds of storage.k8s.io."""

from __future__ import annotations

from typing import Any

from mooring.apiserver.errors import FieldError, Obj, duplicate, forbidden_field, invalid_value, required
from mooring.apiserver.objects.validation.checks import (
    NONE,
    Check,
    Errors,
    all_of,
    always,
    at,
    distinct,
    each,
    entries,
    exactly,
    least,
    needed,
    not_negative,
    objects,
    one_of,
    part,
    part_of,
    present,
    record,
    text,
    too_long,
)  # fmt: skip
from mooring.apiserver.objects.validation.claims import (
    claim_spec,
    inline_volume_head,
    inline_volume_tail,
    is_root,
    volume_head,
    volume_tail,
)  # fmt: skip
from mooring.apiserver.objects.validation.formats import lowered_name_error, subdomain_error
from mooring.apiserver.objects.validation.labels import label_name, name_errors, selector
from mooring.apiserver.objects.validation.placement import volume_affinity
from mooring.apiserver.objects.validation.resources import not_negative_amount
from mooring.apiserver.objects.validation.volumes import csi_driver_name, volume_source

_MOST_PARAMETERS, _MOST_BYTES = 512, 256 * 1024


def volume(obj: Obj) -> Errors:
    """A PersistentVolume."""
    return at("spec", volume_spec(part(obj, "spec"), obj["metadata"].get("name") or ""))


def volume_spec(spec: Obj, name: str = "") -> Errors:
    """The spec of a PersistentVolume of that name."""
    errors = [*volume_head(spec), *_NODES(spec), *volume_source(spec)]
    portal = part(spec, "iscsi").get("targetPortal") or ""
    if part(spec, "iscsi").get("initiatorName") is not None and len(f"{name}:{portal}") > 64:
        detail = (
            "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if "
            "iscsi.initiatorName is specified."
        )
        errors.append(invalid_value("iscsi.targetportal", portal, detail))
    if spec.get("local") is not None and spec.get("nodeAffinity") is None:
        errors.append(required("nodeAffinity", "Local volume requires node affinity"))
    if is_root(part(spec, "hostPath").get("path")) and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden_field("persistentVolumeReclaimPolicy", detail))
    return [*errors, *volume_tail(spec)]


_NODES = record(("nodeAffinity", volume_affinity))


def _inline_spec(spec: Obj) -> Errors:
    """A volume that has no object of its own."""
    return [*inline_volume_head(spec), *volume_source(spec), *inline_volume_tail(spec)]


claim: Check = record(("spec", always(lambda spec: claim_spec(spec or {}))))
"""A PersistentVolumeClaim."""


def _parameters(*, needs: bool) -> Check:
    def check(value: Any) -> Errors:
        pairs: dict[str, str] = value or {}
        if len(pairs) > _MOST_PARAMETERS:
            return [too_long("", _MOST_PARAMETERS)]
        errors: list[FieldError] = [
            invalid_value("", key, "field can not be empty.") for key in pairs if not key
        ]
        if sum(len(key) + len(value) for key, value in pairs.items()) > _MOST_BYTES:
            errors.append(too_long("", _MOST_BYTES))
        if needs and not pairs:
            errors.append(required("", "must contain at least one key/value pair"))
        return errors

    return always(check)


def _topologies(value: Any) -> Errors:
    errors: list[FieldError] = []
    seen: list[dict[str, set[str]]] = []
    for index, term in enumerate(objects(value)):
        expressions = objects(term.get("matchLabelExpressions"))
        wrong = each(_topology)(expressions)
        wrong = [*wrong, *distinct(lambda entry: entry.get("key"), "key")(expressions)]
        errors += at(f"[{index}].matchLabelExpressions", wrong)
        requirements = {entry.get("key") or "": set(entries(entry, "values")) for entry in expressions}
        if requirements in seen or not requirements:
            errors.append(duplicate(f"[{index}].matchLabelExpressions", ""))
        seen.append(requirements)
    return errors


_topology = record(
    ("values", always(all_of(needed(), distinct(lambda value: value)))), ("key", always(label_name))
)
storage_class = record(
    ("provisioner", needed(text(lowered_name_error))),
    ("parameters", _parameters(needs=False)),
    ("reclaimPolicy", one_of("Delete", "Retain")),
    ("volumeBindingMode", present(one_of("Immediate", "WaitForFirstConsumer"))),
    ("allowedTopologies", _topologies),
)
"""A StorageClass."""
attributes_class = record(
    ("driverName", needed(text(lowered_name_error))), ("parameters", _parameters(needs=True))
)
"""A VolumeAttributesClass."""

_ONE_SOURCE = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def _attached(source: Any) -> Errors:
    inline, name = part_of(source).get("inlineVolumeSpec"), part_of(source).get("persistentVolumeName")
    if inline is None and name is None:
        return [required("", _ONE_SOURCE)]
    if inline is not None and name is not None:
        return [forbidden_field("", _ONE_SOURCE)]
    if inline is not None:
        return at("inlineVolumeSpec", _inline_spec(inline))
    return NONE if name else [required("persistentVolumeName", "must specify non empty persistentVolumeName")]


def _volume_error(error: Obj) -> Errors:
    errors = [too_long("message", _MOST_BYTES)] if len(error.get("message") or "") > 1024 else []
    code = error.get("errorCode")
    if code is not None and code < 0:
        errors.append(invalid_value("errorCode", code, f"must be between 0 and {2**31 - 1}, inclusive"))
    return errors


attachment_status = record(("attachError", _volume_error), ("detachError", _volume_error))
"""The status of a VolumeAttachment."""


def attachment(obj: Obj) -> Errors:
    """A VolumeAttachment."""
    errors = at("spec", _ATTACHMENT(part(obj, "spec")))
    errors += at("status", attachment_status(part(obj, "status")))
    name = (part(part(obj, "spec"), "source")).get("persistentVolumeName")
    return (
        errors
        if name is None
        else [*errors, *at("spec.source.persistentVolumeName", exactly(subdomain_error)(name))]
    )


_ATTACHMENT = record(
    ("attacher", always(csi_driver_name)),
    ("source", always(_attached)),
    ("nodeName", always(exactly(subdomain_error))),
)


def _token_requests(value: Any) -> Errors:
    errors: list[FieldError] = []
    seen: set[Any] = set()
    for index, request in enumerate(objects(value)):
        audience, seconds = request.get("audience") or "", request.get("expirationSeconds")
        if audience in seen:
            errors.append(duplicate(f"[{index}].audience", audience))
            continue
        seen.add(audience)
        if seconds is not None and not 600 <= seconds <= 2**32:
            bound = "less than 10 minutes" if seconds < 600 else "larger than 2^32 seconds"
            detail = f"may not specify a duration {bound}"
            errors.append(invalid_value(f"[{index}].expirationSeconds", seconds, detail))
    return errors


def _lifecycle_modes(value: Any) -> Errors:
    return [error for mode in value for error in one_of("Persistent", "Ephemeral")(mode)]


def _tokens_in_secrets(spec: Obj) -> Errors:
    wanted = spec.get("serviceAccountTokenInSecrets")
    detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
    wrong = wanted is not None and not spec.get("tokenRequests")
    return [invalid_value("serviceAccountTokenInSecrets", wanted, detail)] if wrong else NONE


driver = record(("spec", record(
    ("fsGroupPolicy", one_of("File", "None", "ReadWriteOnceWithFSType")),
    ("tokenRequests", _token_requests),
    ("volumeLifecycleModes", _lifecycle_modes),
    ("nodeAllocatableUpdatePeriodSeconds", least(10, "must be greater than or equal to 10 seconds")),
    _tokens_in_secrets,
)))  # fmt: skip
"""A CSIDriver."""


def _topology_keys(keys: Any) -> Errors:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for key in keys:
        errors += [] if key else [required("")]
        if key in seen:
            errors.append(duplicate("", key))
        seen.add(key)
        errors += name_errors("", key)
    return errors


def _node_id(value: Any) -> Errors:
    if not value:
        return [required("")]
    return [invalid_value("", value, "must be 256 characters or less")] if len(value) > 256 else NONE


def _node_drivers(value: Any) -> Errors:
    errors: list[FieldError] = []
    seen: set[Any] = set()
    for index, entry in enumerate(objects(value)):
        wrong = list(_NODE_DRIVER(entry))
        name = entry.get("name") or ""
        if name in seen:
            wrong.append(duplicate("name", name))
        seen.add(name)
        errors += at(f"[{index}]", [*wrong, *_topology_keys(entries(entry, "topologyKeys"))])
    return errors


_NODE_DRIVER = record(
    ("name", always(csi_driver_name)),
    ("nodeID", always(_node_id)),
    ("allocatable", record(("count", not_negative))),
)
csi_node = record(("spec", record(("drivers", _node_drivers))))
"""A CSINode."""
capacity = record(
    ("nodeTopology", selector),
    ("storageClassName", always(exactly(subdomain_error))),
    ("capacity", not_negative_amount),
)
"""A CSIStorageCapacity."""

"""References to fields of a pod, to keys of ConfigMaps and Secrets, and to signers of certificates."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from mooring.apiserver.errors import FieldError, Obj, invalid_value, required, unsupported
from mooring.apiserver.objects.validation.checks import (
    NONE,
    Check,
    Errors,
    at,
    exactly,
    file_mode,
    local_path,
    needed,
    no_steps_back,
    record,
    text,
)
from mooring.apiserver.objects.validation.formats import (
    config_key_error,
    label_error,
    subdomain_error,
    variable_error,
)
from mooring.apiserver.objects.validation.labels import name_errors
from mooring.kube.quantity import parse_quantity

VARIABLE_FIELDS = ("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
                   "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs")  # fmt: skip
"""The fields of a pod that an environment variable can show."""
FILE_FIELDS = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
"""The fields of a pod that a file of a volume can show."""
_SHOWN = frozenset({*VARIABLE_FIELDS, *FILE_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase",
                    "spec.host"})  # fmt: skip
_RESOURCES = ("limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
              "requests.memory")  # fmt: skip
_HUGE = ("limits.hugepages-", "requests.hugepages-")
_SUBSCRIPT = re.compile(r"(.+?)\['(.*)'\]", re.DOTALL)
_BINARY = frozenset({"1", *(f"1{unit}{end}" for unit in "KMGTPE" for end in ("i", ""))} - {"1K"} | {"1k"})


def pod_field(reference: Obj, allowed: Collection[str]) -> Errors:
    """A `fieldRef`."""
    version, path = reference.get("apiVersion") or "", reference.get("fieldPath") or ""
    if not version:
        return [required("apiVersion")]
    if not path:
        return [required("fieldPath")]
    subscripted = _SUBSCRIPT.fullmatch(path)
    base = subscripted[1] if subscripted else path
    detail = f"error converting fieldPath: field label not supported: {path}"
    if version != "v1":
        return [
            invalid_value(
                "fieldPath", path, f"error converting fieldPath: unsupported pod version: {version}"
            )
        ]
    if subscripted and base not in ("metadata.annotations", "metadata.labels"):
        return [
            invalid_value(
                "fieldPath",
                path,
                f"error converting fieldPath: field label does not support subscript: {path}",
            )
        ]
    if subscripted:
        return name_errors("", subscripted[2].lower() if base == "metadata.annotations" else subscripted[2])
    if base not in _SHOWN:
        return [invalid_value("fieldPath", path, detail)]
    return NONE if base in allowed else [unsupported("fieldPath", path, sorted(allowed))]


def container_resource(reference: Obj, *, names_container: bool) -> Errors:
    """A `resourceFieldRef`; in a volume it has to name the container."""
    resource = reference.get("resource") or ""
    errors: list[FieldError] = []
    if names_container and not reference.get("containerName"):
        errors.append(required("containerName"))
    elif not resource:
        errors.append(required("resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE):
        errors.append(unsupported("resource", resource, _RESOURCES))
    divisor = reference.get("divisor") or "0"
    if not parse_quantity(divisor):
        return errors
    units = ("1m", "1") if resource.endswith(".cpu") else _BINARY
    if (resource in _RESOURCES or resource.startswith(_HUGE)) and divisor not in units:
        name = "hugepages" if resource.startswith(_HUGE) else resource.partition(".")[2]
        detail = f"only divisor's values {', '.join(units)} are supported with the {name} resource"
        errors.append(invalid_value("divisor", resource, detail))
    return errors


def file_field(item: Obj) -> Errors:
    """A file that shows a field of the pod or a resource of a container."""
    path, field, resource = item.get("path") or "", item.get("fieldRef"), item.get("resourceFieldRef")
    errors: list[FieldError] = [] if path else [required("path")]
    errors += at("path", local_path(path))
    if field is not None:
        errors += at("fieldRef", pod_field(field, FILE_FIELDS))
        if resource is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid_value("", "resource", detail))
    elif resource is not None:
        errors += at("resourceFieldRef", container_resource(resource, names_container=True))
    else:
        errors.append(required("", "one of fieldRef and resourceFieldRef is required"))
    return [*errors, *at("mode", file_mode(item.get("mode") or 0))]


object_key = record(("name", needed(text(subdomain_error))), ("key", needed(text(config_key_error))))
"""A key of a ConfigMap or Secret."""
file_key = record(
    ("key", needed(text(variable_error))),
    ("volumeName", needed(text(label_error))),
    ("path", needed(no_steps_back)),
)
"""A key in a file of an emptyDir (KEP-3721)."""


def _key_reference(reference: Obj) -> Errors:
    name = reference.get("name") or ""
    return [
        *at("name", exactly(subdomain_error)(name)),
        *at("key", needed(text(config_key_error))(reference.get("key"))),
    ]


def variable_source(variable: Obj) -> Errors:
    """Where an environment variable's value comes from."""
    source = variable.get("valueFrom")
    if source is None:
        return NONE
    given = [name for name in _SOURCES if source.get(name) is not None]
    errors = [error for name in given for error in at(name, _SOURCES[name](source[name]))]
    wrong = None
    if not given:
        wrong = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
    elif variable.get("value"):
        wrong = "may not be specified when `value` is not empty"
    elif len(given) > 1:
        wrong = "may not have more than one field specified at a time"
    return [*errors, invalid_value("", "", wrong)] if wrong else errors


_SOURCES: dict[str, Check] = {
    "fieldRef": lambda value: pod_field(value, VARIABLE_FIELDS),
    "resourceFieldRef": lambda value: container_resource(value, names_container=False),
    "configMapKeyRef": _key_reference,
    "secretKeyRef": _key_reference,
    "fileKeyRef": file_key,
}

_SIGNER_PATH = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_DOMAIN, _LONGEST_PATH = 253, 253


def signer_name(value: Any) -> Errors:
    """The name of a signer: `example.com/name`."""
    if not value:
        return [required("")]
    domain, slash, path = value.partition("/")
    if not slash or "/" in path:
        return [
            invalid_value(
                "", value, "must be a fully qualified domain and path of the form 'example.com/signer-name'"
            )
        ]
    if not path:
        return [invalid_value("", value, "validation failed: path segment must not be empty")]
    if (why := subdomain_error(domain)) is not None:
        return [invalid_value("", domain, why)]
    if "." not in domain:
        return [invalid_value("", value, "should be a domain with at least two segments separated by dots")]
    if _SIGNER_PATH.fullmatch(path) is None:
        return [invalid_value("", value, "validation failed: path segments are RFC 1123 subdomains")]
    return NONE

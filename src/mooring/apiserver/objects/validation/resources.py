"""Amounts of resources: their names, what they may be, requests against limits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from typing import Any

from mooring.apiserver.errors import (
    FieldError,
    Obj,
    duplicate,
    forbidden_field,
    invalid_value,
    not_among,
    required,
    unsupported,
)
from mooring.apiserver.objects.validation.checks import NONE, NOT_NEGATIVE, Errors, at, objects, part
from mooring.apiserver.objects.validation.formats import label_error, qualified_name_error
from mooring.apiserver.objects.validation.labels import name_errors
from mooring.kube.quantity import InvalidQuantity, parse_quantity

_COMPUTE = frozenset({"cpu", "memory"})
_CONTAINER = _COMPUTE | {"ephemeral-storage"}
_REQUESTS, _LIMITS = (frozenset(f"{side}.{name}" for name in _CONTAINER) for side in ("requests", "limits"))
_COUNTED = frozenset({
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims",
    "services.nodeports", "services.loadbalancers",
})  # fmt: skip
_QUOTA = _CONTAINER | _REQUESTS | _LIMITS | _COUNTED | {"requests.storage"}
_STANDARD = _QUOTA | {"storage"}
_HUGE, _HUGE_REQUESTS = "hugepages-", "requests.hugepages-"
_WHOLE = "must be an integer"

NameCheck = Callable[[str], Errors]


def is_native(name: str) -> bool:
    """Whether Kubernetes itself counts this resource."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Whether a device plugin or driver counts it: `example.com/gpu`."""
    return (
        not is_native(name)
        and not name.startswith("requests.")
        and qualified_name_error(f"requests.{name}") is None
    )


def overcommits(name: str) -> bool:
    """Whether a request may be below its limit."""
    return is_native(name) and not name.startswith(_HUGE)


def resource_name(name: str) -> Errors:
    """A standard resource, or one with a domain."""
    errors = name_errors("", name)
    if errors or "/" in name or name in _STANDARD or name.startswith((_HUGE, _HUGE_REQUESTS)):
        return errors
    return [invalid_value("", name, "must be a standard resource type or fully qualified")]


def container_resource_name(name: str) -> Errors:
    """A resource that a container can ask for."""
    errors = list(resource_name(name))
    if "/" not in name:
        if name not in _CONTAINER and not name.startswith(_HUGE):
            errors.append(invalid_value("", name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        errors.append(invalid_value("", name, "doesn't follow extended resource name standard"))
    return errors


def pod_resource_name(name: str) -> Errors:
    """A resource that a pod as a whole can ask for."""
    errors = resource_name(name)
    if errors or name in _COMPUTE or name.startswith(_HUGE):
        return errors
    return [unsupported("", name, ("cpu", "hugepages-", "memory"))]


def quota_resource_name(name: str) -> Errors:
    """A resource that a ResourceQuota can limit."""
    errors = list(resource_name(name))
    if "/" not in name and name not in _QUOTA and not name.startswith((_HUGE, _HUGE_REQUESTS)):
        errors.append(invalid_value("", name, "must be a standard resource for quota"))
    return errors


def standard_in_quota(name: str) -> bool:
    """Whether a quota's scopes say which standard resources they can be about."""
    return name in _QUOTA or name.startswith((_HUGE, _HUGE_REQUESTS))


def amount(name: str, value: Any) -> Errors:
    """An amount of a resource: not negative, and whole where only whole ones can be had."""
    number = parse_quantity(value)
    errors = [invalid_value("", value, NOT_NEGATIVE)] if number < 0 else []
    if (name in _COUNTED or is_extended(name)) and number != number.to_integral_value():
        errors.append(invalid_value("", value, _WHOLE))
    return errors


def not_negative_amount(value: Any) -> Errors:
    """An amount of nothing in particular."""
    return [invalid_value("", value, NOT_NEGATIVE)] if parse_quantity(value) < 0 else NONE


def positive_amount(value: Any) -> Errors:
    """An amount above zero."""
    return [invalid_value("", value, "must be greater than zero")] if parse_quantity(value) <= 0 else NONE


def _huge_error(name: str, value: Any) -> str | None:
    """Huge pages come in whole pages."""
    try:
        page = parse_quantity(name.removeprefix(_HUGE))
    except InvalidQuantity:
        page = Decimal(0)
    if page > 0 and page == page.to_integral_value() and parse_quantity(value) % page == 0:
        return None
    return f"{value} is not positive integer multiple of {name}"


def requirements(resources: Obj, names: NameCheck, claims: Collection[str]) -> Errors:
    """The `resources` of a container or pod; `claims` are the names of the pod's resource claims."""
    limits: Mapping[str, Any] = part(resources, "limits")
    requests: Mapping[str, Any] = part(resources, "requests")
    errors: list[FieldError] = []
    for name, value in limits.items():
        errors += at(f"limits[{name}]", [*names(name), *amount(name, value)])
        if name.startswith(_HUGE) and (why := _huge_error(name, value)) is not None:
            errors.append(invalid_value(f"limits[{name}]", value, why))
    for name, value in requests.items():
        errors += at(f"requests[{name}]", [*names(name), *amount(name, value)])
        errors += _against_limit(name, value, limits)
        if name.startswith(_HUGE) and (why := _huge_error(name, value)) is not None:
            errors.append(invalid_value(f"requests[{name}]", value, why))
    named = limits.keys() | requests.keys()
    if not named & _COMPUTE and any(name.startswith(_HUGE) for name in named):
        errors.append(forbidden_field("", "HugePages require cpu or memory"))
    return [*errors, *_claimed(objects(resources.get("claims")), claims)]


def _against_limit(name: str, value: Any, limits: Mapping[str, Any]) -> Errors:
    if name not in limits:
        return (
            NONE
            if overcommits(name)
            else [required("limits", "Limit must be set for non overcommitable resources")]
        )
    difference = parse_quantity(value) - parse_quantity(limits[name])
    if difference and not overcommits(name):
        return [invalid_value("requests", value, f"must be equal to {name} limit of {limits[name]}")]
    if difference > 0:
        return [
            invalid_value("requests", value, f"must be less than or equal to {name} limit of {limits[name]}")
        ]
    return NONE


def _claimed(entries: list[Obj], claims: Collection[str]) -> Errors:
    """The uses of resource claims: each of the pod's, and none twice, neither whole nor in part."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        name, request, path = entry.get("name") or "", entry.get("request") or "", f"claims[{index}]"
        if not name:
            errors.append(required(path))
            continue
        if name in seen:
            errors.append(duplicate(path, name))
        else:
            if request and (why := label_error(request)) is not None:
                errors.append(invalid_value(f"{path}.request", request, why))
            key = f"{name}/{request}" if request else name
            if key in seen or (not request and any(each.startswith(f"{name}/") for each in seen)):
                errors.append(duplicate(path, key))
            seen.add(key)
        if name not in claims:
            errors.append(not_among(path, name))
    return errors

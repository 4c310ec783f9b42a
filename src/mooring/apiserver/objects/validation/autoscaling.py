"""HorizontalPodAutoscalers."""

from __future__ import annotations

from typing import Any

from mooring.apiserver.errors import FieldError, Obj, forbidden_field, invalid_value, required, unsupported
from mooring.apiserver.objects.validation.checks import (
    Errors,
    always,
    at,
    each,
    needed,
    objects,
    one_of,
    part,
    record,
    text,
)
from mooring.apiserver.objects.validation.formats import label_error, path_segment_error
from mooring.apiserver.objects.validation.resources import container_resource_name, not_negative_amount
from mooring.kube.quantity import parse_quantity

_TYPES = {"Object": "object", "Pods": "pods", "Resource": "resource", "External": "external",
          "ContainerResource": "containerResource"}  # fmt: skip
_segment = text(path_segment_error)


def _version(value: Any) -> Errors:
    fits = (value or "").count("/") < 2
    detail = f"unexpected GroupVersion string: {value}"
    return [] if fits else [invalid_value("", value, detail)]


_reference = record(("kind", needed(_segment)), ("name", needed(_segment)), ("apiVersion", _version))


def autoscaler(obj: Obj) -> Errors:
    """A HorizontalPodAutoscaler."""
    return at("spec", _spec(part(obj, "spec")))


def _spec(spec: Obj) -> Errors:
    fewest, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    errors: list[FieldError] = []
    if fewest is not None and fewest < 1:
        errors.append(invalid_value("minReplicas", fewest, "must be greater than or equal to 1"))
    if not most:
        errors.append(required("maxReplicas", "must be set and greater than 0"))
    elif most < 0:
        errors.append(invalid_value("maxReplicas", most, "must be greater than or equal to 1"))
    if fewest is not None and most < fewest:
        errors.append(invalid_value("maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    errors += at("scaleTargetRef", _reference(part(spec, "scaleTargetRef")))
    errors += at("metrics", each(_metric)(spec.get("metrics")))
    if fewest == 0 and not any(
        each.get("type") in ("Object", "External") for each in objects(spec.get("metrics"))
    ):
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden_field("metrics", detail))
    return [*errors, *_BEHAVIOR(spec)]


def _rules(rules: Obj) -> Errors:
    seconds = rules.get("stabilizationWindowSeconds")
    errors: list[FieldError] = []
    if seconds is not None and not 0 <= seconds <= 3600:
        bound = "greater than or equal to zero" if seconds < 0 else "less than or equal to 3600"
        errors.append(invalid_value("stabilizationWindowSeconds", seconds, f"must be {bound}"))
    errors += _RULES(rules)
    if not rules.get("policies"):
        errors.append(required("policies", "must specify at least one Policy"))
    return [*errors, *at("policies", each(_policy)(rules.get("policies"))), *_TOLERANCE(rules)]


_RULES = record(("selectPolicy", one_of("Disabled", "Max", "Min")))
_TOLERANCE = record(("tolerance", not_negative_amount))


def _policy(policy: Obj) -> Errors:
    value, seconds = policy.get("value") or 0, policy.get("periodSeconds") or 0
    errors = at("type", one_of("Percent", "Pods")(policy.get("type")))
    if value <= 0:
        errors.append(invalid_value("value", value, "must be greater than zero"))
    if not 0 < seconds <= 1800:
        bound = "greater than zero" if seconds <= 0 else "less than or equal to 1800"
        errors.append(invalid_value("periodSeconds", seconds, f"must be {bound}"))
    return errors


_BEHAVIOR = record(("behavior", record(("scaleUp", _rules), ("scaleDown", _rules))))


def _metric(metric: Obj) -> Errors:
    kind, allowed = metric.get("type") or "", sorted(_TYPES)
    errors: list[FieldError] = [] if kind else [required("type", "must specify a metric source type")]
    errors += at("type", one_of(*allowed)(kind))
    given = [field for field in _SOURCES if metric.get(field) is not None]
    if given:
        errors += at(given[0], _SOURCES[given[0]](metric[given[0]]))
    expected = _TYPES.get(kind)
    if expected is None:
        errors.append(unsupported("type", kind, allowed))
    elif metric.get(expected) is None:
        errors.append(required(expected, "must populate information for the given metric source"))
    if len(given) != 1:
        detail = "must populate the given metric source only"
        errors += [forbidden_field(field, detail) for field in given if field != expected]
    return errors


def _amount(value: Any) -> Errors:
    return [] if parse_quantity(value) > 0 else [invalid_value("", value, "must be positive")]


def _utilization(value: int) -> Errors:
    return [] if value >= 1 else [invalid_value("", value, "must be greater than 0")]


def _target(target: Obj) -> list[FieldError]:
    kind = target.get("type") or ""
    errors: list[FieldError] = [] if kind else [required("type", "must specify a metric target type")]
    if kind not in ("Utilization", "Value", "AverageValue"):
        errors.append(invalid_value("type", kind, "must be either Utilization, Value, or AverageValue"))
    return [*errors, *_TARGET(target)]


_TARGET = record(("value", _amount), ("averageValue", _amount), ("averageUtilization", _utilization))
_METRIC = record(("metric", always(lambda value: _IDENTIFIER(value or {}))))
_IDENTIFIER = record(("name", needed(_segment, detail="must specify a metric name")))


def _wanted(
    source: Obj, *fields: str, default: str, detail: str, exclusive: str = "", twice: str = ""
) -> list[FieldError]:
    """A metric's target, and that it says one of some fields, or exactly one."""
    target = part(source, "target")
    errors = at("target", _target(target))
    given = [field for field in fields if target.get(field) is not None]
    if not given:
        errors.append(required(f"target.{default}", detail))
    if exclusive and len(given) > 1:
        errors.append(forbidden_field(f"target.{exclusive}", twice))
    return errors


def _object(source: Obj) -> Errors:
    errors = at("describedObject", _reference(part(source, "describedObject")))
    detail = "must set either a target value or averageValue"
    return [
        *errors,
        *_METRIC(source),
        *_wanted(source, "value", "averageValue", default="averageValue", detail=detail),
    ]


def _external(source: Obj) -> Errors:
    detail = "must set either a target value for metric or a per-pod target"
    twice = "may not set both a target value for metric and a per-pod target"
    fields = ("value", "averageValue")
    return [
        *_METRIC(source),
        *_wanted(source, *fields, default="averageValue", detail=detail, exclusive="value", twice=twice),
    ]


def _pods(source: Obj) -> Errors:
    detail = "must specify a positive target averageValue"
    return [*_METRIC(source), *_wanted(source, "averageValue", default="averageValue", detail=detail)]


def _resource_target(source: Obj) -> list[FieldError]:
    detail = "must set either a target raw value or a target utilization"
    twice = "may not set both a target raw value and a target utilization"
    fields = ("averageUtilization", "averageValue")
    return _wanted(
        source, *fields, default="averageUtilization", detail=detail, exclusive="averageValue", twice=twice
    )


def _resource(source: Obj) -> Errors:
    return [*_RESOURCE(source), *_resource_target(source)]


def _container_resource(source: Obj) -> Errors:
    return [*_CONTAINER_RESOURCE(source), *_resource_target(source)]


_RESOURCE = record(("name", needed(detail="must specify a resource name")))
_CONTAINER_RESOURCE = record(
    ("name", needed(container_resource_name, detail="must specify a resource name")),
    ("container", needed(text(label_error), detail="must specify a container")),
)
_SOURCES = {
    "object": _object, "external": _external, "pods": _pods, "resource": _resource,
    "containerResource": _container_resource,
}  # fmt: skip

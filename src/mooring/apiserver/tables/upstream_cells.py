"""The cells of kinds that only upstream's controllers act on. Pure.

Contents are upstream's (Kubernetes 1.36), because scripts and habits depend on them.
"""

from __future__ import annotations

from datetime import datetime

from mooring.apiserver.errors import Obj
from mooring.apiserver.tables.cells import NONE, UNSET
from mooring.apiserver.values.dotted import object_at, objects_at, text_at, value_at
from mooring.apiserver.values.timestamps import human

_SHOWN = 2
_TYPES = frozenset({"External", "Pods", "Object", "Resource", "ContainerResource"})


def targets(obj: Obj, now: datetime) -> str:
    """What a HorizontalPodAutoscaler aims at: the present value and the wanted one of its first metrics."""
    metrics, current = objects_at(obj, "spec.metrics"), objects_at(obj, "status.currentMetrics")
    shown = [_target(each, current[n] if n < len(current) else {}) for n, each in enumerate(metrics)]
    more = f" + {len(shown) - _SHOWN} more..." if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more or NONE


def requested_duration(obj: Obj, now: datetime) -> str:
    """How long a requested certificate is to be valid."""
    seconds = value_at(obj, "spec.expirationSeconds")
    return NONE if seconds is None else human(seconds)


def request_state(obj: Obj, now: datetime) -> str:
    """What was decided about a CertificateSigningRequest, and what came of it."""
    types = {text_at(each, "type") for each in objects_at(obj, "status.conditions")}
    decided = next((word for word in ("Denied", "Approved") if word in types), "Pending")
    failed = ",Failed" if "Failed" in types else ""
    issued = ",Issued" if value_at(obj, "status.certificate") else ""
    return decided + failed + issued


def parent(obj: Obj, now: datetime) -> str:
    """What an IPAddress belongs to: `services/default/kubernetes`."""
    reference = object_at(obj, "spec.parentRef")
    resource = ".".join(filter(None, (text_at(reference, "resource"), text_at(reference, "group")))).lower()
    parts = (resource, text_at(reference, "namespace"), text_at(reference, "name"))
    return "/".join(filter(None, parts)) or NONE


def parameter_kind(obj: Obj, now: datetime) -> str:
    """The kind that a ValidatingAdmissionPolicy takes parameters from."""
    kind = object_at(obj, "spec.paramKind")
    return f"{text_at(kind, 'apiVersion')}/{text_at(kind, 'kind')}" if kind else UNSET


def parameter(obj: Obj, now: datetime) -> str:
    """The object that gives a policy its parameters."""
    reference = object_at(obj, "spec.paramRef")
    name = text_at(reference, "name")
    return f"{text_at(reference, 'namespace') or '*'}/{name}" if name else UNSET


def _target(metric: Obj, status: Obj) -> str:
    kind = text_at(metric, "type")
    if kind not in _TYPES:
        return "<unknown type>"
    source = kind[0].lower() + kind[1:]
    wanted, current = object_at(metric, f"{source}.target"), object_at(status, f"{source}.current")
    if kind == "Pods":
        return _of(current, wanted, "averageValue")
    if kind in ("External", "Object"):
        averaged = value_at(wanted, "averageValue") is not None
        return f"{_of(current, wanted, 'averageValue')} (avg)" if averaged else _of(current, wanted, "value")
    name = text_at(metric, f"{source}.name")
    if value_at(wanted, "averageValue") is not None:
        return f"{name}: {_of(current, wanted, 'averageValue')}"
    return f"{name}: {_percent(current, '<unknown>')}/{_percent(wanted, '<auto>')}"


def _of(current: Obj, wanted: Obj, field: str) -> str:
    return f"{value_at(current, field) or '<unknown>'}/{value_at(wanted, field)}"


def _percent(value: Obj, missing: str) -> str:
    share = value_at(value, "averageUtilization")
    return missing if share is None else f"{share}%"

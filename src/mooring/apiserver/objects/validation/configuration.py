"""ConfigMaps, Secrets, quotas and limits, namespaces, nodes, events, leases, access control, priorities."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

from mooring.apiserver.errors import (
    FieldError,
    Obj,
    duplicate,
    forbidden_field,
    invalid_value,
    required,
    unsupported,
)
from mooring.apiserver.objects.validation.checks import (
    NONE,
    Check,
    Errors,
    always,
    at,
    each,
    entries,
    exactly,
    least,
    needed,
    not_negative,
    objects,
    one_of,
    part,
    record,
    text,
    too_long,
)  # fmt: skip
from mooring.apiserver.objects.validation.formats import (
    cidr_error,
    config_key_error,
    path_segment_error,
    subdomain_error,
)  # fmt: skip
from mooring.apiserver.objects.validation.labels import name_errors, selector
from mooring.apiserver.objects.validation.placement import taints
from mooring.apiserver.objects.validation.resources import (
    amount,
    container_resource_name,
    overcommits,
    quota_resource_name,
    resource_name,
    standard_in_quota,
)  # fmt: skip
from mooring.kube.quantity import parse_quantity

MOST_BYTES = 1024 * 1024
"""Bytes of all values of a ConfigMap or Secret together."""


def _keys(field: str, held: Mapping[str, Any]) -> list[FieldError]:
    errors = [(key, config_key_error(key)) for key in held]
    return [invalid_value(f"{field}[{key}]", key, why) for key, why in errors if why is not None]


def _binary_size(text_of: str) -> int:
    """The bytes that a text in base64 stands for."""
    kept = text_of.rstrip("=").rstrip("\n")
    return len(kept) * 3 // 4


def config_map(obj: Obj) -> Errors:
    """A ConfigMap."""
    texts, binary = part(obj, "data"), part(obj, "binaryData")
    errors = _keys("data", texts)
    detail = "duplicate of key present in binaryData"
    errors += [invalid_value(f"data[{key}]", key, detail) for key in texts if key in binary]
    errors += _keys("binaryData", binary)
    size = sum(len(value.encode(errors="replace")) for value in texts.values())
    size += sum(map(_binary_size, binary.values()))
    # As upstream: the path of the whole object is printed as "[]".
    return [*errors, too_long("[]", MOST_BYTES)] if size > MOST_BYTES else errors


def secret(obj: Obj) -> Errors:
    """A Secret: its keys, its size, and what its type needs."""
    data: Mapping[str, str] = part(obj, "data")
    errors = _keys("data", data)
    if sum(map(_binary_size, data.values())) > MOST_BYTES:
        errors.append(too_long("data", MOST_BYTES))
    needs = _SECRET_TYPES.get(obj.get("type") or "")
    return [*errors, *needs(obj, data)] if needs else errors


def _token_secret(obj: Obj, data: Mapping[str, str]) -> Errors:
    key = "kubernetes.io/service-account.name"
    named = part(obj["metadata"], "annotations").get(key)
    return NONE if named else [required(f"metadata.annotations[{key}]")]


def _json_secret(key: str) -> Callable[[Obj, Mapping[str, str]], Errors]:
    def check(obj: Obj, data: Mapping[str, str]) -> Errors:
        if key not in data:
            return [required(f"data[{key}]")]
        try:
            fits = isinstance(json.loads(b64decode(data[key] or "")), dict | None)
        except (ValueError, RecursionError):
            fits = False
        return (
            NONE
            if fits
            else [invalid_value(f"data[{key}]", "<secret contents redacted>", "is no JSON object")]
        )

    return check


def _basic_secret(obj: Obj, data: Mapping[str, str]) -> Errors:
    keys = ("username", "password")
    return NONE if any(key in data for key in keys) else [required(f"data[{key}]") for key in keys]


def _ssh_secret(obj: Obj, data: Mapping[str, str]) -> Errors:
    return NONE if data.get("ssh-privatekey") else [required("data[ssh-privatekey]")]


def _tls_secret(obj: Obj, data: Mapping[str, str]) -> Errors:
    return [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]


_SECRET_TYPES: Mapping[str, Callable[[Obj, Mapping[str, str]], Errors]] = {
    "kubernetes.io/service-account-token": _token_secret,
    "kubernetes.io/dockercfg": _json_secret(".dockercfg"),
    "kubernetes.io/dockerconfigjson": _json_secret(".dockerconfigjson"),
    "kubernetes.io/basic-auth": _basic_secret,
    "kubernetes.io/ssh-auth": _ssh_secret,
    "kubernetes.io/tls": _tls_secret,
}

_FINALIZERS = frozenset({"kubernetes", "orphan", "foregroundDeletion"})


def kube_finalizer(name: str) -> Errors:
    """A finalizer has a domain, unless it is one of Kubernetes' own."""
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return NONE if "/" in name or name in _FINALIZERS else [invalid_value("", name, detail)]


def namespace(obj: Obj) -> Errors:
    """A Namespace: the finalizers of its spec."""
    names = entries(part(obj, "spec"), "finalizers")
    return [
        error
        for name in names
        for error in at("spec.finalizers", [*name_errors("", name), *kube_finalizer(name)])
    ]


def node(obj: Obj) -> Errors:
    """A Node. As upstream, errors of taints are reported at the metadata, and those of capacities without
    brackets."""
    status, spec = part(obj, "status"), part(obj, "spec")
    errors = at("metadata.taints", taints(spec.get("taints")))
    for field in ("capacity", "allocatable"):
        for name, value in part(status, field).items():
            errors += at(f"status.{field}.{name}", amount(name, value))
    return [*errors, *at("status.declaredFeatures", _features(status.get("declaredFeatures") or []))]


_FEATURE = re.compile(r"[A-Z][a-zA-Z0-9]*(\/[a-zA-Z][a-zA-Z0-9]*)*")


def _features(names: list[str]) -> list[FieldError]:
    """The declared features of a Node: sorted, each once."""
    errors: list[FieldError] = []
    for index, name in enumerate(names):
        if len(name) > 253 or _FEATURE.fullmatch(name) is None:
            detail = f'invalid feature name "{name}": must start with an UpperCamelCase segment'
            errors.append(invalid_value(f"[{index}]", name, detail))
        if index and names[index - 1] == name:
            errors.append(duplicate(f"[{index}]", name))
        elif index and names[index - 1] > name:
            errors.append(invalid_value(f"[{index}]", name, "list must be sorted alphabetically"))
    return errors


def new_node(obj: Obj) -> Errors:
    """The fields of a Node that are checked only when it registers."""
    blocks = entries(part(obj, "spec"), "podCIDRs")
    errors = at("spec.podCIDRs", each(exactly(cidr_error))(blocks))
    if len(blocks) > 1 and (len(blocks) > 2 or len({":" in block for block in blocks}) < 2):
        detail = "may specify no more than one CIDR for each IP family"
        errors.append(invalid_value("spec.podCIDRs", blocks, detail))
    return errors


def changed_node(obj: Obj, old: Obj) -> list[FieldError]:
    """The fields of a Node that may not change, and the checks of updates only."""
    before, spec = part(old, "spec"), part(obj, "spec")
    errors: list[FieldError] = []
    addresses = objects(part(obj, "status").get("addresses"))
    first: dict[tuple[Any, Any], int] = {}
    for index, address in enumerate(addresses):
        if first.setdefault((address.get("type"), address.get("address")), index) < index:
            errors.append(duplicate(f"status.addresses[{index}]", address))
    if before.get("podCIDRs") and before["podCIDRs"] != spec.get("podCIDRs"):
        detail = 'node updates may not change podCIDR except from "" to valid'
        errors.append(forbidden_field("spec.podCIDRs", detail))
    if before.get("providerID") and before["providerID"] != spec.get("providerID"):
        detail = 'node updates may not change providerID except from "" to valid'
        errors.append(forbidden_field("spec.providerID", detail))
    if (spec.get("externalID") or "") != (before.get("externalID") or ""):
        errors.append(forbidden_field("spec.externalID", "may not be updated"))
    return errors


def _resources(field: str, names: Callable[[str], Errors], held: Mapping[str, Any]) -> list[FieldError]:
    return [error for name in held for error in at(f"{field}[{name}]", names(name))]


_LIMIT_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_BOUNDS = ("max", "min", "default", "defaultRequest")


def limit_range(obj: Obj) -> Errors:
    """A LimitRange."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, limit in enumerate(objects(part(obj, "spec").get("limits"))):
        kind = limit.get("type") or ""
        wrong = name_errors("type", kind)
        if not wrong and "/" not in kind and kind not in _LIMIT_TYPES:
            wrong.append(invalid_value("type", kind, "must be a standard limit type or fully qualified"))
        if kind in seen:
            wrong.append(duplicate("type", kind))
        seen.add(kind)
        errors += at(f"spec.limits[{index}]", [*wrong, *_limit(limit, kind)])
    return errors


def _limit(limit: Obj, kind: str) -> list[FieldError]:
    names = container_resource_name if kind in ("Pod", "Container") else resource_name
    held = {field: part(limit, field) for field in (*_BOUNDS, "maxLimitRequestRatio")}
    errors = [error for field in ("max", "min") for error in _resources(field, names, held[field])]
    for field in ("default", "defaultRequest"):
        if kind != "Pod":
            errors += _resources(field, names, held[field])
        elif held[field]:
            errors.append(forbidden_field(field, "may not be specified when `type` is 'Pod'"))
            held[field] = {}
    if kind == "PersistentVolumeClaim" and not any("storage" in held[field] for field in ("min", "max")):
        detail = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required("limits", detail))
    errors += _resources("maxLimitRequestRatio", names, held["maxLimitRequestRatio"])
    for name in dict.fromkeys(name for amounts in held.values() for name in amounts):
        errors += _bounds(
            name, {field: parse_quantity(held[field][name]) for field in held if name in held[field]}
        )
    return errors


_ORDER = (
    ("min", "max", "min"), ("min", "defaultRequest", "defaultRequest"), ("defaultRequest", "max", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest"), ("min", "default", "default"), ("default", "max", "default"),
)  # fmt: skip
"""Pairs of bounds whose first may not be above the second, and the one at which the error is reported."""


def _bounds(name: str, held: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    for low, high, bound in _ORDER:
        if low in held and high in held and held[low] > held[high]:
            errors.append(
                invalid_value(
                    f"{bound}[{name}]", str(held[bound]), f"{low} value is greater than {high} value"
                )
            )
    ratio, path = held.get("maxLimitRequestRatio"), f"maxLimitRequestRatio[{name}]"
    if ratio is not None and ratio < 1:
        errors.append(invalid_value(path, str(ratio), f"ratio {ratio} is less than 1"))
    if ratio is not None and held.get("min") and "max" in held and ratio > held["max"] / held["min"]:
        errors.append(invalid_value(path, str(ratio), f"ratio {ratio} is greater than max/min"))
    if (
        not overcommits(name)
        and "default" in held
        and held["default"] != held.get("defaultRequest", held["default"])
    ):
        bound = f"default value must equal to defaultRequest value in {name}"
        errors.append(invalid_value(f"defaultRequest[{name}]", str(held["defaultRequest"]), bound))
    return errors


_PODS = frozenset({"pods"})
_COMPUTE = _PODS | {f"{side}{name}" for side in ("", "limits.", "requests.") for name in ("cpu", "memory")}
_CLAIMS = frozenset({"persistentvolumeclaims", "requests.storage"})
_SCOPES: Mapping[str, frozenset[str]] = {
    "Terminating": _COMPUTE, "NotTerminating": _COMPUTE, "NotBestEffort": _COMPUTE, "PriorityClass": _COMPUTE,
    "CrossNamespacePodAffinity": _COMPUTE, "BestEffort": _PODS, "VolumeAttributesClass": _CLAIMS,
}  # fmt: skip
"""What a quota can limit for the objects of a scope."""
_ONLY_EXISTS = frozenset(
    {"Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity"}
)
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})


def quota(obj: Obj) -> Errors:
    """A ResourceQuota."""
    return at("spec", _quota(part(obj, "spec")))


def _quota(spec: Obj) -> list[FieldError]:
    hard: Mapping[str, Any] = part(spec, "hard")
    errors: list[FieldError] = []
    for name, value in hard.items():
        errors += at(f"hard[{name}]", [*quota_resource_name(name), *amount(name, value)])
    scopes = entries(spec, "scopes")
    for scope in scopes:
        errors += _scope("scopes", scope, scopes, hard, "scopes")
    errors += _conflicts("scopes", set(scopes), scopes)
    chosen = spec.get("scopeSelector")
    if chosen is None:
        return errors
    path = "scopeSelector.matchExpressions"
    for requirement in objects(chosen.get("matchExpressions")):
        scope = requirement.get("scopeName") or ""
        errors += _scope(path, scope, chosen, hard, f"{path}.scopeName")
        errors += at(path, _scope_operator(scope, requirement))
    named = {each.get("scopeName") for each in objects(chosen.get("matchExpressions"))}
    return [*errors, *_conflicts(path, named, scopes)]


def _scope(path: str, scope: str, value: Any, hard: Mapping[str, Any], own: str) -> list[FieldError]:
    if scope not in _SCOPES:
        return [invalid_value(own, value if own == path else scope, "unsupported scope")]
    outside = [name for name in hard if standard_in_quota(name) and name not in _SCOPES[scope]]
    return [invalid_value(path, value, "unsupported scope applied to resource") for _ in outside]


def _conflicts(path: str, scopes: set[Any], value: Any) -> list[FieldError]:
    return [invalid_value(path, value, "conflicting scopes") for pair in _OPPOSITES if pair <= scopes]


def _scope_operator(scope: str, requirement: Obj) -> Errors:
    operator, values = requirement.get("operator") or "", requirement.get("values")
    errors: list[FieldError] = []
    if scope in _ONLY_EXISTS and operator != "Exists":
        errors.append(invalid_value("operator", operator, f"must be 'Exists' when scope is {scope}"))
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            errors.append(required("values", detail))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            errors.append(invalid_value("values", values, detail))
    else:
        errors.append(invalid_value("operator", operator, "not a valid selector operator"))
    return errors


lease = record(
    (
        "spec",
        record(
            ("leaseDurationSeconds", least(1, "must be greater than 0")), ("leaseTransitions", not_negative)
        ),
    )
)
"""A Lease."""

_EVENT_LENGTHS = (("reportingInstance", 128), ("action", 128), ("reason", 128))


def event(obj: Obj) -> Errors:
    """An Event."""
    return _event(obj, "reportingComponent")


def event_v1(obj: Obj) -> Errors:
    """An Event of events.k8s.io, which is given as core/v1."""
    return _event(obj, "reportingController")


def _event(obj: Obj, reporter: str) -> Errors:
    """`reporter` is what the request's version calls the controller."""
    about, own = part(obj, "involvedObject").get("namespace") or "", obj["metadata"].get("namespace") or ""
    mismatch = invalid_value("involvedObject.namespace", about, "does not match event.namespace")
    if obj.get("eventTime") is None:
        return NONE if about == own or (not about and own in ("", "default")) else [mismatch]
    errors = [mismatch] if not about and own not in ("default", "kube-system") else []
    errors += at(
        reporter,
        [*needed()(obj.get("reportingComponent")), *name_errors("", obj.get("reportingComponent") or "")],
    )
    for field, most in _EVENT_LENGTHS:
        value = obj.get(field) or ""
        if not value:
            errors.append(required(field))
        if len(value) > most:
            errors.append(invalid_value(field, "", f"can have at most {most} characters"))
    if len(obj.get("message") or "") > 1024:
        errors.append(invalid_value("message", "", "can have at most 1024 characters"))
    return errors


def series(obj: Obj) -> Errors:
    """The series of an Event of events.k8s.io."""
    value = obj.get("series")
    if value is None:
        return NONE
    errors: list[FieldError] = []
    if (value.get("count") or 0) < 2:
        errors.append(invalid_value("series.count", "", "should be at least 2"))
    return errors if value.get("lastObservedTime") else [*errors, required("series.lastObservedTime")]


def new_event_v1(obj: Obj) -> Errors:
    """The rules of events.k8s.io for a new Event, which is given as core/v1."""
    errors, source = list(series(obj)), part(obj, "source")
    if obj.get("eventTime") is None:
        errors.append(required("eventTime"))
    if obj.get("type") not in ("Normal", "Warning"):
        errors.append(invalid_value("type", "", f"has invalid value: {obj.get('type') or ''}"))
    unset = [field for field in ("firstTimestamp", "lastTimestamp", "count") if obj.get(field)]
    if source.get("component") or source.get("host"):
        unset.append("source")
    return [*errors, *(invalid_value(field, "", "needs to be unset") for field in unset)]


_OWN_GROUP = "rbac.authorization.k8s.io"


def _policy_rule(*, namespaced: bool) -> Check:
    def check(rule: Obj) -> Errors:
        paths = rule.get("nonResourceURLs")
        errors: list[FieldError] = (
            [] if rule.get("verbs") else [required("verbs", "verbs must contain at least one value")]
        )
        if paths:
            if namespaced:
                detail = "namespaced rules cannot apply to non-resource URLs"
                errors.append(invalid_value("nonResourceURLs", paths, detail))
            if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                errors.append(invalid_value("nonResourceURLs", paths, detail))
            return errors
        for field, one in (("apiGroups", "api group"), ("resources", "resource")):
            if not rule.get(field):
                errors.append(required(field, f"resource rules must supply at least one {one}"))
        return errors

    return check


def _aggregation(rule: Obj) -> Errors:
    selectors = rule.get("clusterRoleSelectors")
    if not selectors:
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        return [required("clusterRoleSelectors", detail)]
    return at("clusterRoleSelectors", each(selector)(selectors))


role = record(("rules", each(_policy_rule(namespaced=True))))
"""A Role."""
cluster_role = record(("rules", each(_policy_rule(namespaced=False))), ("aggregationRule", _aggregation))
"""A ClusterRole."""


def _subject(*, namespaced: bool) -> Check:
    def check(subject: Obj) -> Errors:
        kind, name, group = (subject.get(field) or "" for field in ("kind", "name", "apiGroup"))
        errors: list[FieldError] = [] if name else [required("name")]
        if kind == "ServiceAccount":
            errors += at("name", text(subdomain_error)(name))
            errors += [unsupported("apiGroup", group, ("",))] if group else []
            errors += [] if namespaced or subject.get("namespace") else [required("namespace")]
        elif kind in ("User", "Group"):
            errors += at("apiGroup", one_of(_OWN_GROUP)(group))
        else:
            errors.append(unsupported("kind", kind, ("ServiceAccount", "User", "Group")))
        return errors

    return check


def _binding(*kinds: str, namespaced: bool) -> Check:
    reference = record(
        ("apiGroup", always(one_of(_OWN_GROUP))), ("kind", always(one_of(*kinds))),
        ("name", needed(text(path_segment_error))),
    )  # fmt: skip
    return record(
        ("roleRef", always(lambda value: reference(value or {}))),
        ("subjects", each(_subject(namespaced=namespaced))),
    )


role_binding = _binding("Role", "ClusterRole", namespaced=True)
cluster_role_binding = _binding("ClusterRole", namespaced=False)
_HIGHEST = 1_000_000_000
_SYSTEM_CLASSES = {"system-cluster-critical": 2 * _HIGHEST, "system-node-critical": 2 * _HIGHEST + 1000}


def priority_class(obj: Obj) -> Errors:
    """A PriorityClass."""
    name, value = obj["metadata"].get("name") or "", obj.get("value") or 0
    errors: list[FieldError] = []
    if name.startswith("system-"):
        if _SYSTEM_CLASSES.get(name) != value or obj.get("globalDefault"):
            detail = "priority class names with 'system-' prefix are reserved for system use only"
            errors.append(forbidden_field("metadata.name", detail))
    elif value > _HIGHEST:
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        errors.append(forbidden_field("value", detail))
    return [*errors, *_PREEMPTION(obj)]


_PREEMPTION = record(("preemptionPolicy", one_of("PreemptLowerPriority", "Never", needs=True)))


def revision(obj: Obj) -> Errors:
    """A ControllerRevision."""
    return at("revision", not_negative(obj.get("revision")))


def new_revision(obj: Obj) -> Errors:
    """The data of a ControllerRevision."""
    data = obj.get("data")
    if data is None:
        return [required("data", "data is mandatory")]
    return NONE if isinstance(data, dict) else [required("data", "data must be a valid JSON object")]

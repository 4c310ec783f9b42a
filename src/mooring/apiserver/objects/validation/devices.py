"""Dynamic resources (resource.k8s.io): claims, their templates, classes of devices, and what drivers publish.

Expressions in CEL are measured, not compiled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    needed,
    objects,
    part,
    record,
    text,
    too_long,
    too_many,
)  # fmt: skip
from mooring.apiserver.objects.validation.claims import template_metadata
from mooring.apiserver.objects.validation.formats import label_error, label_value_error, subdomain_error
from mooring.apiserver.objects.validation.labels import label_name, name_errors
from mooring.apiserver.objects.validation.placement import node_selector
from mooring.apiserver.objects.validation.resources import is_extended, is_native
from mooring.apiserver.objects.validation.volumes import csi_driver_name
from mooring.kube.quantity import parse_quantity

_label = needed(text(label_error))
_EXPRESSION_BYTES, _PARAMETER_BYTES, _ID_LENGTH, _VALUE_LENGTH = 10 * 1024, 10 * 1024, 32, 64
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


def _limited(most: int, check: Check) -> Check:
    """A list of at most so many entries."""
    return lambda value: [too_many("", len(value), most)] if value and len(value) > most else check(value)


def _identifier(value: str) -> Errors:
    """A name in the C language."""
    errors = [too_long("", _ID_LENGTH)] if len(value) > _ID_LENGTH else []
    detail = (
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
        "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is "
        "'[A-Za-z_][A-Za-z0-9_]*')"
    )
    return errors if _IDENTIFIER.fullmatch(value) else [*errors, invalid_value("", value, detail)]


def _qualified(value: str) -> Errors:
    """An identifier, perhaps of a driver's domain."""
    domain, slash, name = value.partition("/")
    if not slash:
        return _identifier(value)
    if "/" in name:
        return NONE
    first = csi_driver_name(domain) if domain else [invalid_value("", "", "the domain must not be empty")]
    return [*first, *(_identifier(name) if name else [invalid_value("", "", "the name must not be empty")])]


def _fully_qualified(value: str) -> Errors:
    detail = "a fully qualified name must be a domain and a name separated by a slash"
    return [*_qualified(value), *([] if "/" in value else [invalid_value("", value, detail)])]


def _selector(selector: Obj) -> Errors:
    expression = selector.get("cel")
    if expression is None:
        return [required("cel")]
    size = len((expression.get("expression") or "").encode())
    return [too_long("cel.expression", _EXPRESSION_BYTES)] if size > _EXPRESSION_BYTES else NONE


_selectors = _limited(32, each(_selector))


def _allocation(request: Obj) -> Errors:
    mode, count = request.get("allocationMode") or "", request.get("count") or 0
    if mode == "All":
        detail = "must not be specified when allocationMode is 'All'"
        return [invalid_value("count", count, detail)] if count else NONE
    if mode == "ExactCount":
        return [invalid_value("count", count, "must be greater than zero")] if count <= 0 else NONE
    return [unsupported("allocationMode", mode, ("All", "ExactCount"))]


_EFFECTS = ("NoExecute", "NoSchedule", "None")


def _toleration(toleration: Obj) -> Errors:
    operator, value, effect = (toleration.get(field) or "" for field in ("operator", "value", "effect"))
    errors = name_errors("key", toleration["key"]) if toleration.get("key") else []
    if operator == "Exists":
        errors += [invalid_value("value", value, "must be empty for operator `Exists`")] if value else []
    elif operator == "Equal":
        errors += at("value", text(label_value_error)(value))
    elif not operator:
        errors.append(required("operator"))
    else:
        errors.append(unsupported("operator", operator, ("Equal", "Exists")))
    return [*errors, unsupported("effect", effect, _EFFECTS)] if effect and effect not in _EFFECTS else errors


_DEMAND = (
    ("deviceClassName", needed(text(subdomain_error))), ("selectors", _selectors), _allocation,
    ("tolerations", each(_toleration)),
)  # fmt: skip
_exact = record(*_DEMAND)
_alternative = record(("name", _label), *_DEMAND)


def _by_name(entry: Obj) -> Any:
    return entry.get("name") or ""


def _request(request: Obj) -> Errors:
    errors = list(_NAMED(request))
    exact, several = request.get("exactly"), entries(request, "firstAvailable")
    detail = "exactly one of `exactly` or `firstAvailable` is required"
    if exact is None and not several:
        return [*errors, required("", detail)]
    if exact is not None and several:
        return [*errors, invalid_value("", None, f"{detail}, but multiple fields are set")]
    if exact is not None:
        return [*errors, *at("exactly", _exact(exact))]
    return [
        *errors,
        *at("firstAvailable", _limited(8, all_of(each(_alternative), distinct(_by_name)))(several)),
    ]


_NAMED = record(("name", _label))


def _names(requests: list[Obj]) -> Mapping[str, set[str]]:
    """The requests of a claim by name, each with its alternatives."""
    return {
        _by_name(each): {_by_name(sub) for sub in objects(each.get("firstAvailable"))} for each in requests
    }


def _reference(known: Mapping[str, set[str]]) -> Check:
    """The name of a request of the claim, or of one of its alternatives."""
    detail = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"

    def check(name: str) -> Errors:
        parts = name.split("/")
        if len(parts) > 2:
            return [invalid_value("", name, detail)]
        errors = [error for each_part in parts for error in _label(each_part)]
        fits = parts[0] in known and (len(parts) == 1 or parts[1] in known[parts[0]])
        return errors if fits else [*errors, invalid_value("", name, detail)]

    return check


def _references(known: Mapping[str, set[str]]) -> Check:
    return _limited(32, all_of(each(_reference(known)), distinct(lambda name: name)))


def _constraint(known: Mapping[str, set[str]]) -> Check:
    requests = _references(known)

    def check(constraint: Obj) -> Errors:
        errors = at("requests", requests(constraint.get("requests")))
        for field in ("matchAttribute", "distinctAttribute"):
            if (name := constraint.get(field)) is not None:
                return [*errors, *at(field, _fully_qualified(name))]
        detail = (
            'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        )
        return [*errors, required("", detail)]

    return check


def _parameters(value: Any) -> Errors:
    if value is None:
        return [required("")]
    return (
        NONE
        if isinstance(value, dict)
        else [invalid_value("", "<value omitted>", "must be a valid JSON object")]
    )


def _opaque(value: Any) -> Errors:
    return [required("")] if value is None else _OPAQUE(value)


_OPAQUE = record(("driver", always(csi_driver_name)), ("parameters", always(_parameters)))
_configuration = record(("opaque", always(_opaque)))


def _claim_spec(spec: Obj) -> Errors:
    devices = part(spec, "devices")
    requests = objects(devices.get("requests"))
    known = _names(requests)
    configuration = record(("requests", _references(known)), _configuration)
    return at("devices", record(
        ("requests", _limited(32, all_of(each(_request), distinct(_by_name)))),
        ("constraints", _limited(32, each(_constraint(known)))),
        ("config", _limited(32, each(configuration))),
    )(devices))  # fmt: skip


def claim(obj: Obj) -> Errors:
    """A ResourceClaim."""
    return at("spec", _claim_spec(part(obj, "spec")))


def claim_template(obj: Obj) -> Errors:
    """A ResourceClaimTemplate."""
    spec = part(obj, "spec")
    errors = at("metadata", template_metadata(part(spec, "metadata")))
    return at("spec", [*errors, *at("spec", _claim_spec(part(spec, "spec")))])


def _extended(value: str) -> Errors:
    detail = "must be a valid extended resource name"
    return NONE if is_extended(value) else [invalid_value("", value, detail)]


device_class = record(("spec", record(
    ("selectors", _selectors), ("config", _limited(32, each(_configuration))), ("extendedResourceName", _extended),
)))  # fmt: skip
"""A DeviceClass."""


def _pool_name(value: Any) -> Errors:
    if not value:
        return [required("")]
    errors = [too_long("", 253)] if len(value) > 253 else []
    return [
        *errors,
        *(error for each_part in value.split("/") for error in exactly(subdomain_error)(each_part)),
    ]


def _pool(pool: Obj) -> Errors:
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    errors = at("name", _pool_name(pool.get("name")))
    if count <= 0:
        errors.append(invalid_value("resourceSliceCount", count, "must be greater than zero"))
    if generation < 0:
        errors.append(invalid_value("generation", generation, "must be greater than or equal to zero"))
    return errors


_WHERE = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_PLACE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"


def resource_slice(obj: Obj) -> Errors:
    """A ResourceSlice."""
    spec = part(obj, "spec")
    errors = at("driver", csi_driver_name(spec.get("driver")))
    errors += at("pool", _pool(part(spec, "pool")))
    errors += _placed(spec)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        errors.append(invalid_value("", "", "only one of `sharedCounters` or `devices` is allowed"))
    devices = objects(spec.get("devices"))
    advanced = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    per_device = spec.get("perDeviceNodeSelection") is True
    judged = all_of(each(lambda device: _device(device, per_device=per_device)), distinct(_by_name))
    errors += at("devices", _limited(64 if advanced else 128, judged)(devices))
    return at("spec", [*errors, *_COUNTERS(spec)])


def _placed(spec: Obj) -> list[FieldError]:
    """Where the devices are: on one node, on some, on all, or each where it says."""
    errors: list[FieldError] = []
    if (name := spec.get("nodeName")) is not None:
        detail = "must be either unset or set to a non-empty string"
        errors += at(
            "nodeName", exactly(subdomain_error)(name) if name else [invalid_value("", name, detail)]
        )
    if (wanted := spec.get("nodeSelector")) is not None:
        errors += at("nodeSelector", node_selector(wanted))
        if len(entries(wanted, "nodeSelectorTerms")) != 1:
            detail = "must have exactly one node selector term"
            errors.append(
                invalid_value("nodeSelector.nodeSelectorTerms", entries(wanted, "nodeSelectorTerms"), detail)
            )
    for field in ("allNodes", "perDeviceNodeSelection"):
        if spec.get(field) is False:
            errors.append(invalid_value(field, False, "must be either unset or set to true"))
    given = [field for field in _WHERE if spec.get(field)]
    if spec.get("nodeSelector") is not None and "nodeSelector" not in given:
        given.append("nodeSelector")
    if not given:
        errors.append(required("", _ONE_PLACE))
    elif len(given) > 1:
        errors.append(invalid_value("", given, f"{_ONE_PLACE}, but multiple fields are set"))
    return errors


def _counters(most: int) -> Check:
    """Counters by name."""

    def check(value: Any) -> Errors:
        if not value:
            return [required("")]
        if len(value) > most:
            return [too_many("", len(value), most)]
        return [error for name in value for error in _label(name)]

    return always(check)


_counter_set = record(("name", _label), ("counters", _counters(32)))
_consumption = record(("counterSet", _label), ("counters", _counters(32)))
_COUNTERS = record(("sharedCounters", _limited(8, all_of(each(_counter_set), distinct(_by_name)))))


def _keyed(check: Check) -> Check:
    """A map whose keys are qualified names; as upstream, errors of keys are reported at the map."""

    def check_map(value: Any) -> Errors:
        pairs: Mapping[str, Any] = value or {}
        errors: list[FieldError] = []
        for key, entry in pairs.items():
            errors += _qualified(key)
            errors += at(f"[{key if len(key) <= 96 else key[:47] + '...' + key[-46:]}]", check(entry))
        return errors

    return check_map


def _version(value: str) -> Errors:
    detail = "must be a string compatible with semver.org spec 2.0.0"
    errors = [] if _SEMVER.fullmatch(value) else [invalid_value("", value, detail)]
    return [*errors, *_value(value)]


def _value(value: str) -> Errors:
    return [too_long("", _VALUE_LENGTH)] if len(value.encode(errors="replace")) > _VALUE_LENGTH else NONE


_KINDS = ("bool", "int", "string", "version", "bools", "ints", "strings", "versions")


def _attribute(attribute: Obj) -> Errors:
    given = [kind for kind in _KINDS if attribute.get(kind) is not None]
    errors = list(_ATTRIBUTE(attribute))
    return (
        errors if len(given) == 1 else [*errors, invalid_value("", "", "exactly one value must be specified")]
    )


_ATTRIBUTE = record(
    ("string", _value), ("version", _version), ("strings", each(_value)), ("versions", each(_version)),
)  # fmt: skip


def _single_capacity(capacity: Obj) -> Errors:
    detail = "allowMultipleAllocations must be true"
    return NONE if capacity.get("requestPolicy") is None else [forbidden_field("requestPolicy", detail)]


def _shared_capacity(capacity: Obj) -> Errors:
    policy = capacity.get("requestPolicy")
    if policy is None:
        return NONE
    values, bounds, default = entries(policy, "validValues"), policy.get("validRange"), policy.get("default")
    if values and bounds is not None:
        detail = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [forbidden_field("requestPolicy", detail)]
    if (values or bounds is not None) and default is None:
        which = "validValues" if values else "validRange"
        return [required("requestPolicy.default", f"required when {which} is defined")]
    if values:
        return at("requestPolicy.validValues", _options(values, default, capacity.get("value") or "0"))
    return (
        at("requestPolicy.validRange", _bounds(bounds, default, capacity.get("value") or "0"))
        if bounds
        else NONE
    )


def _options(values: list[Any], default: Any, most: Any) -> list[FieldError]:
    numbers = [parse_quantity(value) for value in values]
    errors: list[FieldError] = [
        invalid_value(f"[{index + 1}]", values[index + 1], "values must be sorted in ascending order")
        for index in range(len(values) - 1)
        if numbers[index] > numbers[index + 1]
    ]
    if len(values) > 10:
        return [*errors, too_many("", len(values), 10)]
    detail = f"option is larger than capacity value: {most}"
    errors += [
        invalid_value(f"[{i}]", values[i], detail) for i, n in enumerate(numbers) if n > parse_quantity(most)
    ]
    errors += [duplicate(f"[{i}]", values[i]) for i, n in enumerate(numbers) if n in numbers[:i]]
    if parse_quantity(default) not in numbers:
        detail = "default value is not valid according to the requestPolicy"
        errors.append(invalid_value("", default, detail))
    return errors


def _bounds(bounds: Obj, default: Any, most: Any) -> list[FieldError]:
    least, highest = bounds.get("min"), bounds.get("max")
    if least is None:
        return [required("min", "required when validRange is defined")]
    errors: list[FieldError] = []
    low, wanted, limit = parse_quantity(least), parse_quantity(default), parse_quantity(most)
    if low > limit:
        errors.append(invalid_value("min", least, f"min is larger than capacity value: {most}"))
    if wanted < low:
        errors.append(invalid_value("min", default, f"default is less than min: {least}"))
    if highest is not None:
        high = parse_quantity(highest)
        if low > high:
            errors.append(invalid_value("max", least, f"min is larger than max: {highest}"))
        if high > limit:
            errors.append(invalid_value("max", highest, f"max is larger than capacity value: {most}"))
        if wanted > high:
            errors.append(invalid_value("max", default, f"default is more than max: {highest}"))
    return errors


def _taint(taint: Obj) -> Errors:
    effect = taint.get("effect") or ""
    errors = name_errors("key", taint.get("key") or "")
    errors += at("value", text(label_value_error)(taint.get("value") or ""))
    if not effect:
        errors.append(required("effect"))
    elif effect not in _EFFECTS:
        errors.append(unsupported("effect", effect, _EFFECTS))
    return errors


def _device(device: Obj, *, per_device: bool) -> Errors:
    errors = list(_NAMED(device))
    attributes, capacity = part(device, "attributes"), part(device, "capacity")
    if len(attributes) + len(capacity) > 32:
        detail = "the total number of attributes and capacities must not exceed 32"
        errors.append(invalid_value("", len(attributes) + len(capacity), detail))
    errors += at("attributes", _keyed(_attribute)(attributes))
    shared = device.get("allowMultipleAllocations") is True
    errors += at("capacity", _keyed(_shared_capacity if shared else _single_capacity)(capacity))
    errors += _DEVICE(device)
    errors += _device_place(device, per_device=per_device)
    return [*errors, *_bindings(device), *at("nodeAllocatableResourceMappings", _mappings(device, capacity))]


_DEVICE = record(
    ("taints", _limited(16, each(_taint))),
    (
        "consumesCounters",
        _limited(2, all_of(each(_consumption), distinct(lambda entry: entry.get("counterSet")))),
    ),
)
_DEVICE_PLACES = ("nodeName", "nodeSelector", "allNodes")


def _device_place(device: Obj, *, per_device: bool) -> list[FieldError]:
    given = [field for field in _DEVICE_PLACES if device.get(field) is not None]
    if not per_device:
        detail = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in "
            "the ResourceSlice spec"
        )
        return [invalid_value("", None, detail)] if given else []
    errors: list[FieldError] = []
    if (name := device.get("nodeName")) is not None:
        errors += at(
            "nodeName",
            exactly(subdomain_error)(name) if name else [invalid_value("", "", "must not be empty")],
        )
    if (wanted := device.get("nodeSelector")) is not None:
        errors += at("nodeSelector", node_selector(wanted))
    if device.get("allNodes") is False:
        errors.append(invalid_value("allNodes", False, "must be either unset or set to true"))
    detail = (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to "
        "true in the ResourceSlice spec"
    )
    chosen = [field for field in given if device[field] not in ("", False)]
    if not chosen:
        errors.append(required("", detail))
    elif len(chosen) > 1:
        errors.append(invalid_value("", chosen, detail))
    return errors


def _bindings(device: Obj) -> list[FieldError]:
    """Conditions that devices must meet after they are chosen, and those by which they fail (KEP-5007)."""
    good, bad = entries(device, "bindingConditions"), entries(device, "bindingFailureConditions")
    errors = at("bindingConditions", _limited(4, each(label_name))(good))
    errors += at("bindingFailureConditions", _limited(4, each(label_name))(bad))
    for field, names in (("bindingConditions", good), ("bindingFailureConditions", bad)):
        errors += at(field, distinct(lambda name: name)(names))
    detail = "bindingFailureConditions must not overlap with bindingConditions"
    errors += [
        invalid_value(f"bindingFailureConditions[{i}]", name, detail)
        for i, name in enumerate(bad)
        if name in good
    ]
    if bad and not good:
        detail = "bindingConditions are required to use bindingFailureConditions"
        errors.append(invalid_value("bindingConditions", good, detail))
    if good and not bad:
        detail = "bindingFailureConditions are required to use bindingConditions"
        errors.append(invalid_value("bindingFailureConditions", bad, detail))
    return errors


def _mappings(device: Obj, capacity: Mapping[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, mapping in part(device, "nodeAllocatableResourceMappings").items():
        factor, key = mapping.get("allocationMultiplier"), mapping.get("capacityKey")
        wrong = (
            [] if is_native(name) else [invalid_value("", name, "must be a node allocatable resource name")]
        )
        if factor is not None and parse_quantity(factor) <= 0:
            wrong.append(invalid_value("allocationMultiplier", factor, "must be positive"))
        if key == "":
            wrong.append(invalid_value("capacityKey", "", "capacityKey must not be an empty string"))
        elif key is not None and key not in capacity:
            wrong.append(not_among("capacityKey", key))
        errors += at(f"[{name}]", wrong)
    return errors

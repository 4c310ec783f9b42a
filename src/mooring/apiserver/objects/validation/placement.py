"""Where pods may run: node selectors, affinity, tolerations, spreading; taints of nodes."""

from __future__ import annotations

from collections.abc import Callable
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
    Errors,
    at,
    each,
    entries,
    needed,
    objects,
    one_of,
    part,
    part_of,
    positive,
    record,
)
from mooring.apiserver.objects.validation.formats import label_error, label_value_error, subdomain_error
from mooring.apiserver.objects.validation.labels import label_name, label_values, name_errors, selector

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_IN = ("In", "NotIn")
_NOT_AN_OPERATOR = "not a valid selector operator"


def _requirement(requirement: Obj, *, values_count: bool) -> Errors:
    operator, values = requirement.get("operator") or "", entries(requirement, "values")
    errors: list[FieldError] = []
    if operator in _IN:
        if not values:
            errors.append(required("values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden_field("values", detail))
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            errors.append(
                required("values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
            )
    else:
        errors.append(invalid_value("operator", operator, _NOT_AN_OPERATOR))
    errors += name_errors("key", requirement.get("key") or "")
    return [*errors, *at("values", label_values(values))] if values_count else errors


def _field_requirement(requirement: Obj) -> Errors:
    operator, values, key = (
        requirement.get("operator") or "",
        entries(requirement, "values"),
        requirement.get("key"),
    )
    errors: list[FieldError] = []
    if operator not in _IN:
        errors.append(invalid_value("operator", operator, _NOT_AN_OPERATOR))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required("values", detail))
    if key != "metadata.name":
        return [*errors, invalid_value("key", key or "", "not a valid field selector key")]
    wrong = [(index, value, subdomain_error(value)) for index, value in enumerate(values)]
    return [
        *errors,
        *(invalid_value(f"values[{i}]", value, why) for i, value, why in wrong if why is not None),
    ]


def _node_term(*, values_count: bool) -> Callable[[Obj], Errors]:
    return record(
        ("matchExpressions", each(lambda value: _requirement(value, values_count=values_count))),
        ("matchFields", each(_field_requirement)),
    )


_required_term, _preferred_term = _node_term(values_count=True), _node_term(values_count=False)


def node_selector(value: Obj) -> Errors:
    """A term of a node selector."""
    terms = value.get("nodeSelectorTerms")
    if not terms:
        return [required("nodeSelectorTerms", "must have at least one node selector term")]
    return at("nodeSelectorTerms", each(_required_term)(terms))


def volume_affinity(value: Obj) -> Errors:
    """The nodes that can reach a volume."""
    required_part = value.get("required")
    if required_part is None:
        return [required("required", "must specify required node constraints")]
    return at("required", node_selector(required_part))


_WEIGHT = "must be in the range 1-100"


def _weight(entry: Obj) -> list[FieldError]:
    weight = entry.get("weight") or 0
    return [] if 0 < weight <= 100 else [invalid_value("weight", weight, _WEIGHT)]


def _preference(entry: Obj) -> Errors:
    return [*_weight(entry), *at("preference", _preferred_term(part(entry, "preference")))]


def label_keys(constraint: Obj) -> Errors:
    """`matchLabelKeys` and `mismatchLabelKeys`: of labels that the selector does not ask for itself
    (KEP-3633)."""
    matching, other = entries(constraint, "matchLabelKeys"), entries(constraint, "mismatchLabelKeys")
    wanted = constraint.get("labelSelector")
    errors: list[FieldError] = []
    for field, keys in (("matchLabelKeys", matching), ("mismatchLabelKeys", other)):
        if keys and wanted is None:
            errors.append(forbidden_field(field, "must not be specified when labelSelector is not set"))
        elif keys:
            errors += at(field, each(label_name)(keys))
    selected = set(part_of(wanted).get("matchLabels") or ())
    for expression in part_of(wanted).get("matchExpressions") or ():
        key = expression.get("key")
        if key in matching and key in selected:
            # As upstream: the index stands for the key's place in the other list.
            detail = "exists in both matchLabelKeys and labelSelector"
            errors.append(invalid_value(f"[{matching.index(key)}]", key, detail))
        selected.add(key)
    both = "exists in both matchLabelKeys and mismatchLabelKeys"
    return [
        *errors,
        *(invalid_value(f"matchLabelKeys[{i}]", k, both) for i, k in enumerate(matching) if k in other),
    ]


def _pod_term(term: Obj) -> Errors:
    errors = list(record(("labelSelector", selector), ("namespaceSelector", selector))(term))
    for name in entries(term, "namespaces"):
        if (why := label_error(name)) is not None:
            errors.append(invalid_value("namespace", name, why))
    errors += label_keys(term)
    key = term.get("topologyKey") or ""
    if not key:
        errors.append(required("topologyKey", "can not be empty"))
    return [*errors, *name_errors("topologyKey", key)]


def _weighted_term(entry: Obj) -> Errors:
    return [*_weight(entry), *at("podAffinityTerm", _pod_term(part(entry, "podAffinityTerm")))]


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_pods = record((_REQUIRED, each(_pod_term)), (_PREFERRED, each(_weighted_term)))
affinity = record(
    ("nodeAffinity", record((_REQUIRED, node_selector), (_PREFERRED, each(_preference)))),
    ("podAffinity", _pods),
    ("podAntiAffinity", _pods),
)
"""A pod's affinity to nodes and to other pods."""


def _toleration(toleration: Obj) -> Errors:
    key, operator, value, effect = (
        toleration.get(field) or "" for field in ("key", "operator", "value", "effect")
    )
    errors = name_errors("key", key) if key else []
    if not key and operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        errors.append(invalid_value("operator", operator, detail))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        errors.append(
            invalid_value("effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
        )
    if operator in ("", "Equal"):
        if (why := label_value_error(value)) is not None:
            errors.append(invalid_value("operator", value, why))
    elif operator == "Exists":
        if value:
            errors.append(invalid_value("operator", value, "value must be empty when `operator` is 'Exists'"))
    elif operator in ("Lt", "Gt"):
        errors.append(unsupported("operator", operator, ("Equal", "Exists", "Lt", "Gt")))
    else:
        errors.append(unsupported("operator", operator, ("Equal", "Exists")))
    return [*errors, *at("effect", one_of(*EFFECTS)(effect))] if effect else errors


tolerations = each(_toleration)
"""The tolerations of a pod."""


def taints(value: Any) -> Errors:
    """The taints of a Node: each key once per effect."""
    errors: list[FieldError] = []
    seen: set[tuple[Any, Any]] = set()
    for index, taint in enumerate(objects(value)):
        effect, key = taint.get("effect") or "", taint.get("key") or ""
        wrong = name_errors("key", key)
        if (why := label_value_error(taint.get("value") or "")) is not None:
            wrong.append(invalid_value("value", taint.get("value"), why))
        wrong += at("effect", one_of(*EFFECTS, needs=True)(effect))
        if (key, effect) in seen:
            wrong.append(duplicate("", taint))
        seen.add((key, effect))
        errors += at(f"[{index}]", wrong)
    return errors


def spreading(value: Any) -> Errors:
    """Topology spread constraints: each topology once per action."""
    errors: list[FieldError] = []
    entries = objects(value)
    pairs = [(each.get("topologyKey"), each.get("whenUnsatisfiable")) for each in entries]
    last = {pair: index for index, pair in enumerate(pairs)}
    for index, (constraint, pair) in enumerate(zip(entries, pairs, strict=True)):
        wrong = list(_CONSTRAINT(constraint))
        if last[pair] > index:
            wrong.append(duplicate("{topologyKey, whenUnsatisfiable}", f"{{{pair[0]}, {pair[1]}}}"))
        wrong += [*_domains(constraint), *_POLICIES(constraint), *label_keys(constraint)]
        wrong += at("labelSelector", selector(part(constraint, "labelSelector")))
        errors += at(f"[{index}]", wrong)
    return errors


_inclusion = one_of("Honor", "Ignore")
_CONSTRAINT = record(
    lambda constraint: at("maxSkew", positive(constraint.get("maxSkew"))),
    ("topologyKey", needed(detail="can not be empty")),
    lambda constraint: at(
        "whenUnsatisfiable", one_of("DoNotSchedule", "ScheduleAnyway")(constraint.get("whenUnsatisfiable"))
    ),
)
_POLICIES = record(("nodeAffinityPolicy", _inclusion), ("nodeTaintsPolicy", _inclusion))


def _domains(constraint: Obj) -> Errors:
    domains, action = constraint.get("minDomains"), constraint.get("whenUnsatisfiable") or ""
    if domains is None:
        return NONE
    errors = list(positive(domains))
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid_value("", domains, detail))
    return at("minDomains", errors)

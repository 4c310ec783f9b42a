"""Labels, annotations, and the selectors that ask for them."""

from collections.abc import Mapping
from typing import Any

from mooring.apiserver.errors import FieldError, Obj, forbidden_field, invalid_value, required
from mooring.apiserver.objects.validation.checks import (
    NONE,
    Errors,
    all_of,
    at,
    each,
    entries,
    part,
    part_of,
    record,
    too_long,
)
from mooring.apiserver.objects.validation.formats import label_value_error, qualified_name_errors

MOST_ANNOTATIONS = 256 * 1024
"""Bytes of all keys and values together."""


def name_errors(path: str, key: str) -> list[FieldError]:
    """What is wrong with a qualified name, at a path."""
    return [invalid_value(path, key, why) for why in qualified_name_errors(key)]


def label_name(value: Any) -> Errors:
    """The key of a label."""
    return name_errors("", value or "")


def labels(value: Any) -> Errors:
    """A map of labels."""
    errors: list[FieldError] = []
    pairs: Mapping[str, str] = value or {}
    for key, text in pairs.items():
        errors += name_errors("", key)
        if (why := label_value_error(text)) is not None:
            errors.append(invalid_value("", text, why))
    return errors


def annotations(value: Any) -> Errors:
    """A map of annotations: the keys' form in either case, and the size of all."""
    pairs: Mapping[str, str] = value or {}
    errors = [invalid_value("", key, why) for key in pairs for why in qualified_name_errors(key.lower())]
    size = sum(len(key) + len(text.encode(errors="replace")) for key, text in pairs.items())
    return [*errors, too_long("", MOST_ANNOTATIONS)] if size > MOST_ANNOTATIONS else errors


def label_values(value: Any) -> Errors:
    """A list of values of labels."""
    return each(
        lambda text: [invalid_value("", text, why)] if (why := label_value_error(text)) is not None else NONE
    )(value)


def _requirement(requirement: Obj) -> Errors:
    operator, values = requirement.get("operator", ""), requirement.get("values")
    errors: list[FieldError] = []
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required("values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden_field("values", detail))
    else:
        errors.append(invalid_value("operator", operator, "not a valid selector operator"))
    errors += name_errors("key", requirement.get("key") or "")
    return [*errors, *at("values", label_values(values))]


selector = record(("matchLabels", labels), ("matchExpressions", each(_requirement)))
"""A LabelSelector."""


def is_empty(value: Any) -> bool:
    """Whether a selector asks for nothing."""
    return not any(part_of(value).get(field) for field in ("matchLabels", "matchExpressions"))


def is_readable(value: Any) -> bool:
    """Whether a selector is valid; `selects` may be called for a valid one only."""
    return not selector(value or {})


def selects(value: Any, of: Mapping[str, str]) -> bool:
    """Whether a valid selector selects these labels; None selects nothing, an empty one everything."""
    if value is None:
        return False
    wanted = part(value, "matchLabels").items()
    return all(of.get(key) == text for key, text in wanted) and all(
        _holds(each, of) for each in entries(value, "matchExpressions")
    )


def _holds(requirement: Obj, of: Mapping[str, str]) -> bool:
    key, values = requirement["key"], entries(requirement, "values")
    match requirement["operator"]:
        case "In":
            return key in of and of[key] in values
        case "NotIn":
            return key not in of or of[key] not in values
        case "Exists":
            return key in of
        case _:
            return key not in of


template_metadata = all_of(record(("labels", labels), ("annotations", annotations)))
"""The metadata of what an object is a template for."""

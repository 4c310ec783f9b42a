"""CustomResourceDefinitions: their names, versions and what each version offers.

As upstream, an error in what all versions have alike is reported at the spec rather than at a version.
"""

from __future__ import annotations

from typing import Any

from mooring.apiserver.errors import FieldError, Obj, forbidden_field, invalid_value, required
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
)
from mooring.apiserver.objects.validation.formats import label_1035_error, subdomain_error
from mooring.apiserver.objects.validation.schemas import schema_errors

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_APPROVED = "api-approved.kubernetes.io"


def definition(obj: Obj) -> Errors:
    """A CustomResourceDefinition."""
    return [*at("spec", _spec(part(obj, "spec"))), *_approval(obj)]


def definition_name(obj: Obj) -> Errors:
    """A definition's name is PLURAL.GROUP of the kind that it defines."""
    spec, name = part(obj, "spec"), obj["metadata"].get("name") or ""
    wanted = f"{part(spec, 'names').get('plural') or ''}.{spec.get('group') or ''}"
    return (
        []
        if name == wanted
        else [invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]
    )


def _group(value: Any) -> Errors:
    if not value:
        return [required("")]
    why = subdomain_error(value)
    if why is None and "." not in value:
        why = "should be a domain with at least one dot"
    return [invalid_value("", value, why)] if why is not None else []


def _spec(spec: Obj) -> Errors:
    versions = objects(spec.get("versions"))
    shared = {
        field: _shared(versions, field) for field in ("schema", "subresources", "additionalPrinterColumns")
    }
    errors = [*_SCOPE(spec)]
    for index, version in enumerate(versions):
        if not part(version, "schema").get("openAPIV3Schema"):
            errors.append(required(f"versions[{index}].schema.openAPIV3Schema"))
    for index, version in enumerate(versions):
        own = {field: version.get(field) for field in shared if not shared[field]}
        wrong = [*_label("name", version.get("name") or ""), *_warning(version), *_offered(own, version)]
        errors += at(f"versions[{index}]", wrong)
    names = [version.get("name") for version in versions]
    if len(set(names)) < len(names):
        errors.append(invalid_value("versions", names, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        errors.append(
            invalid_value("versions", names, "must have exactly one version marked as storage version")
        )
    errors += at("names", [*_NAMED(part(spec, "names")), *_names(part(spec, "names"))])
    if versions:
        first = {field: versions[0].get(field) for field in shared if shared[field]}
        renamed = {"schema": "validation"}
        errors += _offered(first, versions[0], renamed)
    return [*errors, *_CONVERSION(spec)]


def _shared(versions: list[Obj], field: str) -> bool:
    """Whether all versions have the same value, which upstream then stores once."""
    return bool(versions) and all(version.get(field) == versions[0].get(field) for version in versions)


_SCOPE = record(("group", always(_group)), ("scope", always(one_of("Cluster", "Namespaced", needs=True))))


def _warning(version: Obj) -> list[FieldError]:
    warning, path = version.get("deprecationWarning"), "deprecationWarning"
    if warning is None:
        return []
    if not version.get("deprecated"):
        return [invalid_value(path, warning, "can only be set for deprecated versions")]
    detail = None
    if len(warning) > 256:
        detail = "must be <= 256 characters long"
    elif not warning:
        detail = "must not be an empty string"
    elif not warning.isprintable():
        detail = "must only contain printable UTF-8 characters"
    return [invalid_value(path, warning, detail)] if detail else []


def _offered(selected: Obj, version: Obj, renamed: Obj | None = None) -> list[FieldError]:
    """A version's schema, subresources and columns, as far as they are among `selected`."""
    names = renamed or {}
    errors: list[FieldError] = []
    schema: Obj = part(selected, "schema").get("openAPIV3Schema") or {}
    if schema:
        has_status = part(version, "subresources").get("status") is not None
        errors += at(
            f"{names.get('schema', 'schema')}.openAPIV3Schema", schema_errors(schema, has_status=has_status)
        )
    if (scale := part(selected, "subresources").get("scale")) is not None:
        errors += at("subresources.scale", _scale(scale))
    return [*errors, *at("additionalPrinterColumns", each(_column)(selected.get("additionalPrinterColumns")))]


def _path(value: str, *below: str) -> str | None:
    """Why a text is no simple JSONPath, or not one below some fields."""
    if not value.startswith("."):
        return "must be a simple json path starting with ."
    if below and not value.startswith(tuple(f"{field}." for field in below)):
        return f"should be a json path under {' or '.join(below)}"
    return None


def _scale(scale: Obj) -> Errors:
    errors: list[FieldError] = []
    for field, parent in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        value = scale.get(field) or ""
        if not value:
            errors.append(required(field))
        elif (why := _path(value, parent)) is not None:
            errors.append(invalid_value(field, value, why))
    selector = scale.get("labelSelectorPath")
    if selector and (why := _path(selector, ".spec", ".status")) is not None:
        errors.append(invalid_value("labelSelectorPath", selector, why))
    return errors


def _column(column: Obj) -> Errors:
    kind, form, path = (column.get(field) or "" for field in ("type", "format", "jsonPath"))
    errors: list[FieldError] = [] if column.get("name") else [required("name")]
    detail = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        errors.append(required("type", detail))
    elif kind not in _COLUMN_TYPES:
        errors.append(invalid_value("type", kind, detail))
    if form and form not in _COLUMN_FORMATS:
        errors.append(invalid_value("format", form, f"must be one of {','.join(_COLUMN_FORMATS)}"))
    if not path:
        errors.append(required("JSONPath"))
    elif (why := _path(path)) is not None:
        errors.append(invalid_value("JSONPath", path, why))
    return errors


def _label(field: str, value: str, *, printed: str | None = None) -> list[FieldError]:
    why = label_1035_error(value)
    return [invalid_value(field, printed or value, why)] if why is not None else []


_NAMED = record(*((field, needed()) for field in ("plural", "singular", "kind", "listKind")))


def _names(names: Obj) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field) or ""
        shown = value.lower() if field in ("kind", "listKind") else value
        errors += _label(field, shown, printed=value) if value else []
    for field in ("shortNames", "categories"):
        if field == "categories" and names.get("kind") and names["kind"] == names.get("listKind"):
            errors.append(
                invalid_value("listKind", names["listKind"], "kind and listKind may not be the same")
            )
        for index, value in enumerate(names.get(field) or ()):
            errors += _label(f"{field}[{index}]", value)
    return errors


def _conversion(conversion: Obj) -> Errors:
    strategy = conversion.get("strategy") or ""
    errors = at("strategy", one_of("None", "Webhook", needs=True)(strategy))
    hook = conversion.get("webhook")
    if strategy == "Webhook":
        # Not offered: nothing here would call the webhook.
        return [*errors, forbidden_field("strategy", "conversion by a webhook is not offered: use None")]
    if hook is not None:
        detail = "should not be set when strategy is not set to Webhook"
        fields = (
            ("clientConfig", "webhookClientConfig"),
            ("conversionReviewVersions", "conversionReviewVersions"),
        )
        errors += [forbidden_field(name, detail) for field, name in fields if hook.get(field)]
    return errors


_CONVERSION = record(("conversion", _conversion))


def _approval(obj: Obj) -> list[FieldError]:
    """A definition in a group of Kubernetes' own needs an approval annotation."""
    group = part(obj, "spec").get("group") or ""
    if group not in ("k8s.io", "kubernetes.io") and not group.endswith((".k8s.io", ".kubernetes.io")):
        return []
    if part(obj["metadata"], "annotations").get(_APPROVED):
        return []
    detail = (
        f'protected groups must have approval annotation "{_APPROVED}", see '
        "https://github.com/kubernetes/enhancements/pull/1111"
    )
    return [required(f"metadata.annotations[{_APPROVED}]", detail)]

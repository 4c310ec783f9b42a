"""CustomResourceDefinitions: their names, versions and what each version offers.

As upstream, what all versions say alike is told of the spec rather than of a version.
"""

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
    """A definition is named by what it defines."""
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
    found = [*_SCOPE(spec)]
    for index, version in enumerate(versions):
        if not part(version, "schema").get("openAPIV3Schema"):
            found.append(required(f"versions[{index}].schema.openAPIV3Schema"))
    for index, version in enumerate(versions):
        own = {field: version.get(field) for field in shared if not shared[field]}
        wrong = [*_label("name", version.get("name") or ""), *_warning(version), *_offered(own, version)]
        found += at(f"versions[{index}]", wrong)
    names = [version.get("name") for version in versions]
    if len(set(names)) < len(names):
        found.append(invalid_value("versions", names, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        found.append(
            invalid_value("versions", names, "must have exactly one version marked as storage version")
        )
    found += at("names", [*_NAMED(part(spec, "names")), *_names(part(spec, "names"))])
    if versions:
        first = {field: versions[0].get(field) for field in shared if shared[field]}
        renamed = {"schema": "validation"}
        found += _offered(first, versions[0], renamed)
    return [*found, *_CONVERSION(spec)]


def _shared(versions: list[Obj], field: str) -> bool:
    """Whether every version says the same, so that upstream keeps it once."""
    return bool(versions) and all(version.get(field) == versions[0].get(field) for version in versions)


_SCOPE = record(("group", always(_group)), ("scope", always(one_of("Cluster", "Namespaced", needs=True))))


def _warning(version: Obj) -> list[FieldError]:
    warning, path = version.get("deprecationWarning"), "deprecationWarning"
    if warning is None:
        return []
    if not version.get("deprecated"):
        return [invalid_value(path, warning, "can only be set for deprecated versions")]
    told = None
    if len(warning) > 256:
        told = "must be <= 256 characters long"
    elif not warning:
        told = "must not be an empty string"
    elif not warning.isprintable():
        told = "must only contain printable UTF-8 characters"
    return [invalid_value(path, warning, told)] if told else []


def _offered(said: Obj, version: Obj, renamed: Obj | None = None) -> list[FieldError]:
    """A version's schema, subresources and columns, as far as they are among what is `said`."""
    names = renamed or {}
    found: list[FieldError] = []
    schema: Obj = part(said, "schema").get("openAPIV3Schema") or {}
    if schema:
        has_status = part(version, "subresources").get("status") is not None
        found += at(
            f"{names.get('schema', 'schema')}.openAPIV3Schema", schema_errors(schema, has_status=has_status)
        )
    if (scale := part(said, "subresources").get("scale")) is not None:
        found += at("subresources.scale", _scale(scale))
    return [*found, *at("additionalPrinterColumns", each(_column)(said.get("additionalPrinterColumns")))]


def _path(value: str, *below: str) -> str | None:
    """Why a text is no simple JSONPath, or not one below some fields."""
    if not value.startswith("."):
        return "must be a simple json path starting with ."
    if below and not value.startswith(tuple(f"{field}." for field in below)):
        return f"should be a json path under {' or '.join(below)}"
    return None


def _scale(scale: Obj) -> Errors:
    found: list[FieldError] = []
    for field, parent in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        value = scale.get(field) or ""
        if not value:
            found.append(required(field))
        elif (why := _path(value, parent)) is not None:
            found.append(invalid_value(field, value, why))
    selector = scale.get("labelSelectorPath")
    if selector and (why := _path(selector, ".spec", ".status")) is not None:
        found.append(invalid_value("labelSelectorPath", selector, why))
    return found


def _column(column: Obj) -> Errors:
    kind, form, path = (column.get(field) or "" for field in ("type", "format", "jsonPath"))
    found: list[FieldError] = [] if column.get("name") else [required("name")]
    told = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        found.append(required("type", told))
    elif kind not in _COLUMN_TYPES:
        found.append(invalid_value("type", kind, told))
    if form and form not in _COLUMN_FORMATS:
        found.append(invalid_value("format", form, f"must be one of {','.join(_COLUMN_FORMATS)}"))
    if not path:
        found.append(required("JSONPath"))
    elif (why := _path(path)) is not None:
        found.append(invalid_value("JSONPath", path, why))
    return found


def _label(field: str, value: str, *, told: str | None = None) -> list[FieldError]:
    why = label_1035_error(value)
    return [invalid_value(field, told or value, why)] if why is not None else []


_NAMED = record(*((field, needed()) for field in ("plural", "singular", "kind", "listKind")))


def _names(names: Obj) -> list[FieldError]:
    found: list[FieldError] = []
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field) or ""
        shown = value.lower() if field in ("kind", "listKind") else value
        found += _label(field, shown, told=value) if value else []
    for field in ("shortNames", "categories"):
        if field == "categories" and names.get("kind") and names["kind"] == names.get("listKind"):
            found.append(
                invalid_value("listKind", names["listKind"], "kind and listKind may not be the same")
            )
        for index, value in enumerate(names.get(field) or ()):
            found += _label(f"{field}[{index}]", value)
    return found


def _conversion(conversion: Obj) -> Errors:
    strategy = conversion.get("strategy") or ""
    found = at("strategy", one_of("None", "Webhook", needs=True)(strategy))
    hook = conversion.get("webhook")
    if strategy == "Webhook":
        # Not offered: nothing here would call the webhook.
        return [*found, forbidden_field("strategy", "conversion by a webhook is not offered: use None")]
    if hook is not None:
        told = "should not be set when strategy is not set to Webhook"
        fields = (
            ("clientConfig", "webhookClientConfig"),
            ("conversionReviewVersions", "conversionReviewVersions"),
        )
        found += [forbidden_field(name, told) for field, name in fields if hook.get(field)]
    return found


_CONVERSION = record(("conversion", _conversion))


def _approval(obj: Obj) -> list[FieldError]:
    """A group of Kubernetes itself needs a word of approval."""
    group = part(obj, "spec").get("group") or ""
    if group not in ("k8s.io", "kubernetes.io") and not group.endswith((".k8s.io", ".kubernetes.io")):
        return []
    if part(obj["metadata"], "annotations").get(_APPROVED):
        return []
    told = (
        f'protected groups must have approval annotation "{_APPROVED}", see '
        "https://github.com/kubernetes/enhancements/pull/1111"
    )
    return [required(f"metadata.annotations[{_APPROVED}]", told)]

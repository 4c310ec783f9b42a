"""The content of a writing request: its object, its patch, its options and preconditions, checked against its
path. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from mooring.apiserver.encodings.body import media_type, read, read_object, repeated_fields
from mooring.apiserver.errors import (
    ApiError,
    BadRequest,
    FieldError,
    Obj,
    Unclassified,
    UnknownPatch,
    Unreadable,
    UnsupportedMediaType,
    conflict,
    forbidden_field,
    invalid,
    invalid_options,
    invalid_value,
    required,
    unsupported,
)
from mooring.apiserver.message import Request
from mooring.apiserver.objects.deletion import DeleteOptions, parse_options
from mooring.apiserver.objects.kinds import Kind
from mooring.apiserver.objects.managed_fields import Manager
from mooring.apiserver.objects.patches.json_patch import json_patch
from mooring.apiserver.objects.patches.merge_patch import merge_patch
from mooring.apiserver.objects.patches.strategic_merge import strategic_merge_patch
from mooring.apiserver.objects.typed_form import place_of
from mooring.apiserver.routes import Route
from mooring.apiserver.store.history import Item

APPLY = "application/apply-patch+yaml"
_LONGEST_MANAGER = 128
_WISHES = ("", "Ignore", "Strict", "Warn")
_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


class TellFields(Protocol):
    """Warns of fields of a kind that are unknown (or `what` they are), or refuses them, as the client
    wishes."""

    def __call__(self, kind: Kind, paths: Sequence[str], what: str = "unknown") -> None: ...


Patch = Callable[[Kind, Obj], Obj]
"""A patch, ready to be applied to an object of a kind."""


def read_sent(request: Request, kind: Kind) -> Obj:
    """The object in the body, which must be of `kind`. Raises BadRequest."""
    body_type = media_type(request.headers.get("content-type", ""))
    sent = read_object(request.body, body_type)
    check_kind(sent, kind)
    if request.parameter("fieldValidation") in ("Strict", "Warn") and body_type.endswith("json"):
        unknown_fields(request)(kind, repeated_fields(request.body), "duplicate")
    return sent


def read_applied(request: Request, kind: Kind) -> Obj:
    """The object in the body of an apply, which must say that it is of `kind`. Raises BadRequest."""
    sent = read_object(request.body, media_type(request.headers.get("content-type", "")))
    if not sent.get("apiVersion") or sent.get("kind") != kind.name:
        raise BadRequest(f"invalid object type: {type_of(sent)}")
    check_kind(sent, kind)
    return sent


def type_of(sent: Obj) -> str:
    """The type that an object says to be of, as Go prints it: `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`."""
    group, _, version = str(sent.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={sent.get('kind') or ''}"


def unknown_fields(request: Request) -> TellFields:
    """How the request wants unknown fields handled (fieldValidation). Raises Invalid for an unknown value."""
    wish = request.parameter("fieldValidation") or "Warn"
    if wish not in _WISHES:
        raise invalid_options(options_of(request), unsupported("fieldValidation", wish, _WISHES))

    def tell(kind: Kind, paths: Sequence[str], what: str = "unknown") -> None:
        described = [f'{what} field "{path}"' for path in paths]
        if wish == "Warn":
            request.warnings.extend(described)
        if wish == "Strict" and described:
            raise _refusal(request, kind, described)

    return tell


def _refusal(request: Request, kind: Kind, warnings: Sequence[str]) -> ApiError:
    """Upstream's answer to unknown fields: of a patch, that it is invalid; of an object, that it is no such
    object."""
    why = f"strict decoding error: {', '.join(warnings)}"
    if request.method == "PATCH":
        return invalid("", "", "", [invalid_value("patch", request.body.decode(errors="replace"), why)])
    return BadRequest(
        f'{kind.name} in version "{kind.api_version}" cannot be handled as a {kind.name}: {why}'
    )


def options_of(request: Request) -> str:
    """What upstream calls the parameters of a writing request."""
    return _OPTIONS.get(request.method, "DeleteOptions")


def settle_namespace(meta: Obj, route: Route) -> None:
    """Gives the object the namespace of its path. Raises BadRequest if it says another one."""
    if not route.kind.namespaced:
        meta.pop("namespace", None)
        return
    given = meta.get("namespace") or route.namespace
    if given != route.namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if not given:
        raise BadRequest(f"the namespace of the {route.kind.name} is missing: send it to a namespace's path")
    meta["namespace"] = given


def settle_name(meta: Obj, route: Route, *, needed: bool = True) -> None:
    """Gives the object the name of its path. Raises BadRequest if it says another one, or none where it is
    needed."""
    if needed and not meta.get("name"):
        raise BadRequest(
            f"the name of the object ({route.name} based on URL) was undeterminable: name must be provided"
        )
    if (meta.get("name") or route.name) != route.name:
        message = (
            f"the name of the object ({meta.get('name')}) does not match the name on the URL ({route.name})"
        )
        raise BadRequest(message)
    meta["name"] = route.name


def is_dry_run(request: Request) -> bool:
    """Whether the request asks for a dry run. Raises Invalid for a value that is not All."""
    values = [value for key, value in request.query if key == "dryRun" and value]
    if any(value != "All" for value in values):
        raise invalid_options(options_of(request), unsupported("dryRun", values, ["All"]))
    return bool(values)


def delete_options(request: Request) -> DeleteOptions:
    """The options of a delete, from its body or its query."""
    if request.body.strip():
        # As upstream: only the body counts.
        return parse_options(read_object(request.body, request.headers.get("content-type", "")), {})
    query = {key: value for key, value in request.query if key != "dryRun"}
    if is_dry_run(request):
        query["dryRun"] = "All"
    return parse_options({}, query)


def is_apply(request: Request) -> bool:
    """Whether the request is a server-side apply."""
    return request.method == "PATCH" and media_type(request.headers.get("content-type", "")) == APPLY


def manager_of(request: Request, route: Route, operation: str) -> Manager:
    """The name of the writer: the fieldManager parameter, otherwise the program's name. Raises Invalid."""
    name = request.parameter("fieldManager")
    if operation == "Apply" and not name:
        raise invalid_options("PatchOptions", required("fieldManager", "is required for apply patch"))
    if len(name) > _LONGEST_MANAGER:
        too_long = FieldError("FieldValueTooLong", "fieldManager", "Too long: may not be more than 128 bytes")
        raise invalid_options(options_of(request), too_long)
    if not name.isprintable():
        raise invalid_options(options_of(request), invalid_value("fieldManager", name, "should be printable"))
    program = request.headers.get("user-agent", "").partition("/")[0][:_LONGEST_MANAGER]
    return Manager(name or program or "unknown", operation, route.subresource)


def patch_of(request: Request) -> Patch:
    """The patch that a request carries. Raises BadRequest, Invalid or UnsupportedMediaType."""
    if request.parameter("force"):
        raise invalid_options(
            "PatchOptions", forbidden_field("force", "may not be specified for non-apply patch")
        )
    content_type = media_type(request.headers.get("content-type", ""))
    if content_type not in _PATCHES:
        message = ", ".join(sorted([*_PATCHES, APPLY]))
        raise UnknownPatch(
            f"the body of the request was in an unknown format - accepted media types include: {message}"
        )
    body = read(request.body, "application/yaml" if content_type.endswith("yaml") else "application/json")
    apply = _PATCHES[content_type]
    return lambda kind, obj: apply(kind, obj, body)


def _json(kind: Kind, obj: Obj, body: object) -> Obj:
    return _as_object(json_patch(obj, body))


def _merge(kind: Kind, obj: Obj, body: object) -> Obj:
    return _as_object(merge_patch(obj, body))


def _strategic(kind: Kind, obj: Obj, body: object) -> Obj:
    if kind.custom is not None:
        raise UnsupportedMediaType(
            f"the body of the request was in an unknown format - accepted media types include: {_CUSTOM_PATCHES}"
        )
    # A typed merge: the patch's own kind and version do not count.
    made = strategic_merge_patch(obj, body, place_of(kind))
    return made | {"kind": kind.name, "apiVersion": kind.api_version}


_PATCHES: Mapping[str, Callable[[Kind, Obj, object], Obj]] = {
    "application/json-patch+json": _json,
    "application/merge-patch+json": _merge,
    "application/strategic-merge-patch+json": _strategic,
}


_CUSTOM_PATCHES = ", ".join(sorted([*(each for each in _PATCHES if "strategic" not in each), APPLY]))
"""The patch types of custom kinds: how their lists would merge strategically is undefined."""


def _as_object(value: object) -> Obj:
    if not isinstance(value, dict):
        raise BadRequest("the patch turns the object into something that is no object")
    return value  # pyright: ignore[reportUnknownVariableType]


def check_kind(sent: Obj, kind: Kind) -> None:
    """Raises Unreadable if the object says that it is of another kind."""
    version, name = sent.get("apiVersion") or kind.api_version, sent.get("kind") or kind.name
    if not all(isinstance(sent.get(field), str | None) for field in ("kind", "apiVersion")):
        raise Unreadable(
            f"the object provided is unrecognized (must be of type {kind.name}): kind and apiVersion are text"
        )
    if (version, name) != (kind.api_version, kind.name):
        message = f"it says that it is a {name} of {version}, and this is the path of {kind.name} of {kind.api_version}"
        raise Unreadable(f'{name} in version "{version}" cannot be handled as a {kind.name}: {message}')


def check_uid(route: Route, meta: Obj, head: Item) -> None:
    """Raises Conflict if the object in the body is another one of the same name."""
    if meta.get("uid") and meta["uid"] != head.uid:
        key = "/".join(part for part in ("/registry", route.kind.plural, *head.key) if part)
        why = (
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
            f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {head.uid}"
        )
        raise conflict(route.kind.resource, route.name, why)


def check_version(route: Route, meta: Obj, head: Item) -> None:
    """Raises Conflict for a body computed from an older version, Invalid if it names none and the kind
    demands one."""
    version = meta.get("resourceVersion")
    if not version and not route.kind.strategy.unconditional_update:
        error = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(route.kind.group, route.kind.plural, route.name, [error])
    check_same_version(route, version, head)


def check_same_version(route: Route, version: str | None, head: Item) -> None:
    """Raises Conflict if a version is given that is not the object's."""
    if version and not (version.isascii() and version.isdecimal()):
        raise Unclassified(f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if version and version != str(head.version):
        raise conflict(route.kind.resource, route.name)

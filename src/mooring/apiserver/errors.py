"""The errors of requests, as the Status objects that Kubernetes answers.

    StoreFailed                    a write could not be made durable: writes are refused until the log resumes
    LogFailed                      the cause: the file, the system's error, what to do
    LogCorrupt                     the durable history cannot be read back
    ApiError                       becomes a Status object with code, reason and message
      BadRequest 400 (of it Unreadable), Unauthorized 401, Forbidden 403,
      NotFound 404 (of it UnknownPath, NoSuchPath), MethodNotAllowed 405,
      NotAcceptable 406 (of it NoRepresentation), TooSlow 408, AlreadyExists 409, Conflict 409,
      Expired 410, TooLarge 413, UnsupportedMediaType 415 (of it UnknownPatch), Invalid 422 (of it Rejected),
      TooManyRequests 429, Internal 500, Unclassified 500, NotImplementedYet 501,
      BadGateway 502, Unavailable 503, TooLargeVersion 504

The wording is upstream's, because people search for it and clients (client-go, kubectl) match on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

Obj = dict[str, Any]
"""A Kubernetes object as decoded JSON."""

_MAX_ERROR_BYTES = 256 * 1024
"""Bytes of field errors in an answer."""

OBJECT_MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class StoreFailed(Exception):
    """The log could not make a write durable, so its outcome is unknown; or the log has not resumed since."""


class LogFailed(Exception):
    """The log cannot be written now; the message names the file and what to do about it."""


class LogCorrupt(Exception):
    """The durable history does not read back; the message names the file."""


class ApiError(Exception):
    """A request that failed, with everything that its Status says."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"
    generic: ClassVar[bool] = False
    """Whether the error is about the request rather than an object: its details are then present and
    empty."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: Obj = {key: value for key, value in details.items() if value not in (None, "", [])}

    def status(self) -> Obj:
        """The `v1.Status` object of this failure."""
        status: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details or self.generic:
            status["details"] = self.details
        return status | {"code": self.code}


class BadRequest(ApiError):
    code, reason = 400, "BadRequest"


class Unreadable(BadRequest):
    """The body does not have the form of its kind."""


class Unauthorized(ApiError):
    code, reason = 401, "Unauthorized"

    def __init__(self) -> None:
        super().__init__("Unauthorized")


class Forbidden(ApiError):
    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    code, reason = 404, "NotFound"


class UnknownPath(NotFound):
    """A path that names no resource."""

    generic = True

    def __init__(self) -> None:
        super().__init__("the server could not find the requested resource")


class NoSuchPath(NotFound):
    """A path below no group and version that is served: answered in plain text, as upstream's router does."""

    def __init__(self) -> None:
        super().__init__("404 page not found")


class MethodNotAllowed(ApiError):
    code, reason, generic = 405, "MethodNotAllowed", True


class NotAcceptable(ApiError):
    code, reason = 406, "NotAcceptable"


class NoRepresentation(NotAcceptable):
    """The client accepts none of this server's media types."""

    generic = True


class TooSlow(ApiError):
    code, reason = 408, "Timeout"


class AlreadyExists(ApiError):
    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    code, reason = 409, "Conflict"


class Expired(ApiError):
    code, reason = 410, "Expired"


class TooLarge(ApiError):
    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    code, reason = 415, "UnsupportedMediaType"


class UnknownPatch(UnsupportedMediaType):
    """A patch whose media type is no patch type."""

    generic = True


class Invalid(ApiError):
    code, reason = 422, "Invalid"


class Rejected(Invalid):
    """A JSON patch that does not fit the object."""

    generic = True


class TooManyRequests(ApiError):
    code, reason = 429, "TooManyRequests"


class Internal(ApiError):
    pass


class Unclassified(ApiError):
    """A client's error that upstream nevertheless answers with 500 and no reason; so does this server."""

    reason = ""


class NotImplementedYet(ApiError):
    code, reason = 501, "NotImplemented"


class BadGateway(ApiError):
    """The node's agent cannot be called, or its answer cannot be passed on."""

    code, reason = 502, "BadGateway"


class Unavailable(ApiError):
    code, reason = 503, "ServiceUnavailable"


class TooLargeVersion(ApiError):
    code, reason = 504, "Timeout"

    def __init__(self, requested: int, current: int) -> None:
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        message = f"Timeout: Too large resource version: {requested}, current: {current}"
        super().__init__(message, causes=[cause], retryAfterSeconds=1)


@dataclass(frozen=True, slots=True)
class Resource:
    """A group and a plural, printed as Kubernetes prints it: `pods`, `statefulsets.apps`."""

    group: str
    plural: str

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def not_found(resource: Resource, name: str) -> NotFound:
    message = f'{resource} "{name}" not found'
    return NotFound(message, name=name, group=resource.group, kind=resource.plural)


def already_exists(resource: Resource, name: str, hint: str = "") -> AlreadyExists:
    message = f'{resource} "{name}" already exists{hint}'
    return AlreadyExists(message, name=name, group=resource.group, kind=resource.plural)


def conflict(resource: Resource, name: str, why: str = OBJECT_MODIFIED) -> Conflict:
    message = f'Operation cannot be fulfilled on {resource} "{name}": {why}'
    return Conflict(message, name=name, group=resource.group, kind=resource.plural)


def forbidden(resource: Resource, name: str, why: str, **details: Any) -> Forbidden:
    quoted = f' "{name}"' if name else ""
    message = f"{resource}{quoted} is forbidden: {why}"
    return Forbidden(message, name=name, group=resource.group, kind=resource.plural, **details)


@dataclass(frozen=True, slots=True)
class FieldError:
    """An error of one field; `type` is upstream's cause (`FieldValueRequired`, ...)."""

    type: str
    field: str
    body: str

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def required(field: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, "Required value" + (f": {detail}" if detail else ""))


def invalid_value(field: str, value: Any, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", field, f"Invalid value: {_json(value)}: {detail}")


def duplicate(field: str, value: Any) -> FieldError:
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {_json(value)}")


def not_among(field: str, value: Any) -> FieldError:
    """The field names something that does not exist."""
    return FieldError("FieldValueNotFound", field, f"Not found: {_json(value)}")


def forbidden_field(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, f"Forbidden: {detail}")


def unsupported(field: str, value: Any, allowed: Iterable[str]) -> FieldError:
    """`allowed` is printed in the order of a sequence; sorted, if it has no order."""
    ordered = allowed if isinstance(allowed, Sequence) else sorted(allowed)
    names = ", ".join(f'"{name}"' for name in ordered)
    return FieldError(
        "FieldValueNotSupported", field, f"Unsupported value: {_json(value)}: supported values: {names}"
    )


def invalid_options(options: str, *errors: FieldError) -> Invalid:
    """The 422 answer to parameters that contradict the rules of `options` (`ListOptions`, ...)."""
    return invalid("meta.k8s.io", options, "", errors)


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> Invalid:
    """The 422 answer that lists all field errors, or the first `_MAX_ERROR_BYTES` of them."""
    left = _MAX_ERROR_BYTES
    shown = [error for error in errors if (left := left - len(error.body) - len(error.field)) >= 0] or errors[
        :1
    ]
    texts = [str(error) for error in shown]
    if len(shown) < len(errors):
        texts.append(f"and {len(errors) - len(shown)} more")
    listed = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    qualified = f"{kind}.{group}" if group else kind
    causes = [{"reason": error.type, "message": error.body, "field": error.field} for error in shown]
    return Invalid(
        f'{qualified} "{name}" is invalid: {listed}', name=name, group=group, kind=kind, causes=causes
    )

"""Everything that can go wrong with a request, as the Status that Kubernetes answers.

    StoreFailed                    a write could not be made durable: none is accepted until the log resumes
    LogFailed                      why not: the file, what the system said, what to do
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
    """The log could not make a write durable, and whether it will be there is unknown; or it has not resumed
    yet."""


class LogFailed(Exception):
    """The log cannot be written now; the message names the file and what to do about it."""


class LogCorrupt(Exception):
    """The durable history does not read back; the message names the file."""


class ApiError(Exception):
    """A request that failed, with everything that its Status says."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"
    generic: ClassVar[bool] = False
    """Whether it is about the request rather than an object: the details are then there, and empty."""

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
    """What was sent is not of the form of its kind."""


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
    """Nothing that is accepted is a media type of this server."""

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
    """A patch of a type that is none."""

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
    """A request at fault that upstream nevertheless answers with 500 and no reason; so do we."""

    reason = ""


class NotImplementedYet(ApiError):
    code, reason = 501, "NotImplemented"


class BadGateway(ApiError):
    """What would have to be asked cannot be asked, or gave no answer that can be passed on."""

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
    """One thing wrong with one field; `type` is upstream's cause (`FieldValueRequired`, ...)."""

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
    """The field names something that is not there."""
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
    """The 422 answer that lists every field error at once; of very many the first."""
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

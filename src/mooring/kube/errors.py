"""What can go wrong between a client and an API server; one class for each thing that a caller can do about
it.

KubeError
├── ConfigError             the kubeconfig cannot be used: a person must mend it
├── NotSent                 the request was certainly not sent; `ReadOnly` raises it for a write
│   ├── CredentialError     no credential could be had (an exec plugin failed)
│   └── InvalidRequest      a name or header that no request can carry; repeating it is useless
├── NotLeading              nothing was done: the process does not hold the Lease any more
├── Unreachable             no answer. A write *may have happened*: read before deciding anything
│   └── Unreadable          an answer that is not what was asked for: it says nothing, as none does
└── ApiError                the server answered with a Status
    ├── BadRequest          400, 415, 405: the request itself is wrong; repeating it is useless
    ├── Unauthorized        401: the server does not accept our credentials
    ├── Forbidden           403: our user may not do this
    ├── NotFound            404: the object (or kind) is not there
    ├── Conflict            409: a precondition did not hold; read again and decide again
    │   └── AlreadyExists   409 on create
    ├── Gone                410: the resourceVersion is too old; list again
    ├── Invalid             422: the object is not valid
    ├── Throttled           429: wait `retry_after` seconds
    └── ServerError         5xx: like Unreachable, a write may have happened
        └── TooLargeVersion 504: the resourceVersion is not known there (yet): list again
"""

from __future__ import annotations

from typing import Any

import msgspec

LONGEST_REST_S = 600.0
"""The longest Retry-After that counts: a proxy may say a day, and a cache would stand still for it."""


class KubeError(Exception):
    """Base of everything that `mooring.kube` raises."""


class ConfigError(KubeError):
    """A kubeconfig that is missing, malformed or incomplete; the message names the file and the field."""


class NotSent(KubeError):
    """The request was certainly not sent, so it had no effect."""


class CredentialError(NotSent):
    """A token file or exec plugin gave no credential; the message names it. The request was not sent."""


class InvalidRequest(NotSent):
    """A name that no object can have, or a path or header that HTTP cannot carry. The request was not
    sent."""


class NotLeading(KubeError):
    """The process is not the leader any more, so the work was not begun or the write was not sent."""


class Unreachable(KubeError):
    """The request got no answer; its effect is unknown."""


class Unreadable(Unreachable):
    """The request got an answer that cannot be understood; its effect is unknown."""


class ApiError(KubeError):
    """An answer that is not a success. `status` is the HTTP code, `reason` the Status reason, `details` its
    details."""

    def __init__(
        self, message: str, *, status: int, reason: str = "", details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.details: dict[str, Any] = details or {}


class BadRequest(ApiError):
    """400, 405, 415: the request itself is wrong."""


class Unauthorized(ApiError):
    """401: the credentials are not known."""


class Forbidden(ApiError):
    """403: the user may not do this."""


class NotFound(ApiError):
    """404: no such object or kind."""


class Conflict(ApiError):
    """409: a uid or resourceVersion precondition failed, or the object's state forbids the request."""


def conflict(message: str) -> Conflict:
    """One that is found here, by what was read, and not by the API server: it is tried again likewise."""
    return Conflict(message, status=409, reason="Conflict")


class AlreadyExists(Conflict):
    """409 on create: an object of that name exists."""


class Gone(ApiError):
    """410: the resourceVersion or continue token is too old."""


class Invalid(ApiError):
    """422: validation refused the object."""


class Throttled(ApiError):
    """429: try again after `retry_after` seconds, at most `LONGEST_REST_S`."""

    retry_after: float = 1.0


class ServerError(ApiError):
    """5xx: the server failed; the effect of a write is unknown."""


class TooLargeVersion(ServerError):
    """504: a read of a resourceVersion that the server has not come to: it was restored from a backup."""


def is_refusal(error: Exception) -> bool:
    """Whether the API server says no to what was asked, and will do so again. Not that something has changed
    since, nor that it cannot answer now; but an admission webhook that cannot be called may stay so for
    long."""
    if isinstance(error, ServerError):
        return "failed calling webhook" in str(error)  # the API server's words; it has no reason of its own
    return isinstance(error, ApiError) and not isinstance(error, (Conflict, NotFound, Throttled))


_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: Throttled,
}


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0
    details: dict[str, Any] | None = None


def _is_of_another_uid(answer: _Status) -> bool:
    """The uid precondition of a patch did not hold: a server says so as if the patch were to change the
    uid."""
    causes: list[dict[str, Any]] = (answer.details or {}).get("causes") or []
    return any(cause.get("field") == "metadata.uid" for cause in causes)


def _is_of_too_large_a_version(answer: _Status) -> bool:
    causes: list[dict[str, Any]] = (answer.details or {}).get("causes") or []
    return any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes)


def from_answer(status: int, body: bytes, *, tried: str, retry_after: str = "") -> ApiError:
    """The error for an HTTP answer; `tried` ("GET /api/v1/nodes/n") is named in its message.

    `retry_after` is the Retry-After header: seconds; it goes before the Status' retryAfterSeconds.
    """
    try:
        answer = msgspec.json.decode(body, type=_Status)
    except msgspec.DecodeError:
        answer = _Status(message=body[:200].decode("utf-8", "replace"))
    kind = _BY_STATUS.get(status) or (ServerError if status >= 500 else BadRequest)
    if answer.reason == "AlreadyExists":
        kind = AlreadyExists
    elif kind is Invalid and _is_of_another_uid(answer):
        kind = Conflict
    elif kind is ServerError and _is_of_too_large_a_version(answer):
        kind = TooLargeVersion
    message = f"{tried}: {answer.message or f'HTTP {status}'}"
    error = kind(message, status=status, reason=answer.reason, details=answer.details)
    if isinstance(error, Throttled):
        seconds = retry_after if retry_after.isdecimal() else error.details.get("retryAfterSeconds")
        error.retry_after = min(float(seconds or 1), LONGEST_REST_S)
    return error

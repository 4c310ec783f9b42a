"""How calls fail, and what is then known about their effect.

    CsiError                 a call that did not end with OK: code, message, method
    ├── NotConnected         no driver answered at the address: the call was not sent
    └── EndpointError        an address that is none, or that cannot be listened on

A driver raises CsiError to answer with its code; a client gets the same CsiError from a call. No gRPC is
needed for either, so a driver can be called without a socket.
"""

from __future__ import annotations

from enum import Enum, IntEnum


class Code(IntEnum):
    """gRPC's status codes, by their numbers on the wire."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16

    def __str__(self) -> str:
        """As Go, and so upstream's metrics and logs, write it: DeadlineExceeded."""
        return _GO_SPELLING.get(self.name) or self.name.title().replace("_", "")


_GO_SPELLING = {"OK": "OK", "CANCELLED": "Canceled"}


class Outcome(Enum):
    """What a call has done."""

    DONE = "done"
    FINAL = "final"
    """Certainly nothing: it did not happen, and will not happen later."""
    UNKNOWN = "unknown"
    """It may have happened, in part too, or may still happen. The next call on that object says more."""


FINAL_CODES = frozenset(
    {
        Code.INVALID_ARGUMENT,
        Code.NOT_FOUND,
        Code.ALREADY_EXISTS,
        Code.PERMISSION_DENIED,
        Code.FAILED_PRECONDITION,
        Code.OUT_OF_RANGE,
        Code.UNIMPLEMENTED,
        Code.UNAUTHENTICATED,
    }
)
"""Codes that a driver gives before it does anything (CSI specification, "Error Scheme" and each call's
table).

All others leave the outcome unknown. Upstream's kubelet and sidecars take CANCELLED, DEADLINE_EXCEEDED,
UNAVAILABLE, RESOURCE_EXHAUSTED and ABORTED for that. We also take UNKNOWN and INTERNAL, which drivers give
after half of the work, and which gRPC itself gives when a stream breaks, and DATA_LOSS.
"""

FINAL_FOR_METHOD = {
    "CreateVolume": frozenset({Code.RESOURCE_EXHAUSTED}),
    "ControllerPublishVolume": frozenset({Code.RESOURCE_EXHAUSTED}),
}
"""Codes that the specification gives a final meaning for one method: no capacity in the wanted topology, and
the node's limit of volumes is reached."""


class CsiError(Exception):
    """A call of `method` ended with `code`. `message` is the driver's own; it is meant for people."""

    def __init__(self, code: Code, message: str, method: str = "") -> None:
        self.code = code
        self.message = message
        self.method = method
        super().__init__(f"{method + ': ' if method else ''}{code}: {message}")

    @property
    def outcome(self) -> Outcome:
        """What the failed call has done."""
        final = self.code in FINAL_CODES or self.code in FINAL_FOR_METHOD.get(self.method, ())
        return Outcome.FINAL if final else Outcome.UNKNOWN


class NotConnected(CsiError):
    """There was no connection to the driver, so nothing was sent: final, and worth another try later."""

    def __init__(self, address: str, problem: str, method: str = "") -> None:
        self.address = address
        super().__init__(
            Code.UNAVAILABLE,
            f"no driver answers at {address} ({problem}): is it running, with this endpoint?",
            method,
        )

    @property
    def outcome(self) -> Outcome:
        return Outcome.FINAL


class EndpointError(CsiError):
    """The address cannot be used; the message says why."""

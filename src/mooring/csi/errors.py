"""How calls fail, and what is then known about their effect.

    CsiError                 a call that did not end with OK: code, message, method
    ├── NotConnected         no driver answered at the address: the call was not sent
    └── EndpointError        an address that is malformed, or cannot be listened on

A driver raises CsiError to answer with its code; a client gets the same CsiError from a call. Neither side
needs gRPC for it, so a driver can be called without a socket.
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
    """What is known about the effect of a call."""

    DONE = "done"
    FINAL = "final"
    """The call had no effect, and will have none later."""
    UNKNOWN = "unknown"
    """The call may have taken effect, wholly or in part, or may still do so. The next call on that object
    says more."""


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

All others leave the outcome unknown. Upstream's kubelet and sidecars treat CANCELLED, DEADLINE_EXCEEDED,
UNAVAILABLE, RESOURCE_EXHAUSTED and ABORTED so. Here UNKNOWN, INTERNAL and DATA_LOSS are added: drivers answer
UNKNOWN and INTERNAL when half of the work is done, and gRPC itself does when a stream breaks.
"""

FINAL_FOR_METHOD = {
    "CreateVolume": frozenset({Code.RESOURCE_EXHAUSTED}),
    "ControllerPublishVolume": frozenset({Code.RESOURCE_EXHAUSTED}),
}
"""Codes to which the specification gives a final meaning in one method: no capacity in the wanted topology
(CreateVolume), and the node has as many volumes as it may have (ControllerPublishVolume)."""


class CsiError(Exception):
    """A call of `method` ended with `code`. `message` is the driver's own text, for people to read."""

    def __init__(self, code: Code, message: str, method: str = "") -> None:
        self.code = code
        self.message = message
        self.method = method
        super().__init__(f"{method + ': ' if method else ''}{code}: {message}")

    @property
    def outcome(self) -> Outcome:
        """What is known about the effect of the failed call."""
        final = self.code in FINAL_CODES or self.code in FINAL_FOR_METHOD.get(self.method, ())
        return Outcome.FINAL if final else Outcome.UNKNOWN


class NotConnected(CsiError):
    """There was no connection to the driver, so nothing was sent: the outcome is final, and a retry is
    safe."""

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

"""What clients of a register did and saw: operations with the times at which they began and ended, in seconds
of one clock. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

NEVER = float("inf")
"""The end of an operation whose outcome is unknown: it may take effect at any later time, or not at all."""


class Kind(StrEnum):
    PUT = "put"
    GET = "get"
    CAS = "cas"


@dataclass(frozen=True)
class Operation:
    """One call of one client on one register. Registers hold numbers; 0 means that it was never written."""

    key: str
    kind: Kind
    called: float
    returned: float = NEVER
    value: int = 0
    """What was to be written; what a get has read."""
    expected: int = 0
    """Of a compare-and-swap. One that found something else changed nothing and says what it found: it is
    recorded as a get."""

    @property
    def known(self) -> bool:
        """Whether its outcome is known."""
        return self.returned != NEVER

    def apply(self, state: int) -> int | None:
        """Returns the register's state after this operation; None if what was seen is impossible in
        `state`."""
        match self.kind:
            case Kind.PUT:
                return self.value
            case Kind.GET:
                return state if self.value == state else None
            case Kind.CAS:
                if state == self.expected:
                    return self.value
                return None if self.known else state

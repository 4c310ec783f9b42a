"""What a link does to what it carries, and what may happen at a single point of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol

from mooring.kube.transport import Request

REPLICA_LAG_S = 20.0
"""By how much the replica lags that a stale list comes from, and a late event."""


class Interceptor(Protocol):
    """Decides what happens at single points of a link (`cluster.fault_points`): each answer is a kind of
    fault, or nothing."""

    def request(self, request: Request) -> str:
        """At each request."""
        ...

    def event(self, piece: bytes) -> str:
        """At each piece of a watch."""
        ...

    def list(self, path: str) -> str:
        """At each watch that begins with a list."""
        ...


@dataclass
class LinkConditions:
    """What a link does to what it carries. Chances are for each request; times in seconds."""

    requests_cut: bool = False
    replies_cut: bool = False
    lost: float = 0.0
    unanswered: float = 0.0
    late: float = 0.0
    repeated: float = 0.0
    watch_lag: float = 0.0
    late_kind: str = ""  # watches of that resource come later than others, by `late_by`
    late_by: float = 0.0
    unread: asyncio.Event | None = None  # its part reads nothing of its watches until that comes
    replica_lag: float = 0.0  # of the replica that answers lists and watches of any version

    @property
    def unreliable(self) -> bool:
        return bool(self.lost or self.unanswered or self.late or self.repeated)

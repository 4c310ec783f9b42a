"""The detaches in flight, for logs and metrics: which of them take long, and in which state EC2 shows them.

It decides nothing. Times are the event loop's, in seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

SLOW_S = 60.0
"""An operator should look at a detach that takes longer; most take 1 to 4 s."""

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class Detach:
    """A detach in flight."""

    volume: str
    node: str
    since: float
    state: str = ""
    """The attachment's state as EC2 showed it last; empty: EC2 has shown none."""
    _is_logged: bool = False

    def saw(self, state: str, device: str, now: float) -> None:
        """Records the state that EC2 shows, and logs a detach that takes long, once."""
        self.state = state
        if now - self.since > SLOW_S and not self._is_logged:
            self._is_logged = True
            _log.warning(
                "a volume takes long to detach: its node may still use it",
                volume=self.volume, node=self.node, device=device, state=state,
            )  # fmt: skip


class PendingDetaches:
    """All detaches of one process. To be made in a running event loop."""

    def __init__(self) -> None:
        self._time = asyncio.get_running_loop().time
        self._pending: list[Detach] = []

    @contextmanager
    def waiting(self, volume: str, node: str) -> Generator[Detach]:
        """Records a detach while entered."""
        detach = Detach(volume, node, self._time())
        self._pending.append(detach)
        try:
            yield detach
        finally:
            self._pending.remove(detach)

    def slow(self) -> dict[tuple[str, str], tuple[str, float]]:
        """The detaches that take longer than `SLOW_S`: state and age by volume and node; the first of several
        for one pair."""
        now = self._time()
        found: dict[tuple[str, str], tuple[str, float]] = {}
        for each in self._pending:
            if now - each.since > SLOW_S:
                found.setdefault((each.volume, each.node), (each.state, now - each.since))
        return found

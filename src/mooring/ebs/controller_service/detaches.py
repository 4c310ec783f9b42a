"""The detaches that are under way, for those who want to know: which ones take long, and what EC2 shows of
them.

It decides nothing. Times are the event loop's, in seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

SLOW_S = 60.0
"""A detach that takes longer should be looked at by an operator; most take 1 to 4 s."""

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class Detach:
    """One that is under way."""

    volume: str
    node: str
    since: float
    state: str = ""
    """Of the attachment, as EC2 showed it last; empty: it has not shown one."""
    _is_told: bool = False

    def saw(self, state: str, device: str, now: float) -> None:
        """EC2 shows the attachment in this state. Of one that takes long, the log has one line."""
        self.state = state
        if now - self.since > SLOW_S and not self._is_told:
            self._is_told = True
            _log.warning(
                "a volume takes long to detach: its node may still use it",
                volume=self.volume, node=self.node, device=device, state=state,
            )  # fmt: skip


class PendingDetaches:
    """All of one process. Is made in a running event loop."""

    def __init__(self) -> None:
        self._time = asyncio.get_running_loop().time
        self._pending: list[Detach] = []

    @contextmanager
    def waiting(self, volume: str, node: str) -> Generator[Detach]:
        """A detach is under way while this is entered."""
        detach = Detach(volume, node, self._time())
        self._pending.append(detach)
        try:
            yield detach
        finally:
            self._pending.remove(detach)

    def slow(self) -> dict[tuple[str, str], tuple[str, float]]:
        """Those that take longer than `SLOW_S`: by volume and node, the state and for how long they are under
        way. Of several for one pair, the first."""
        now = self._time()
        found: dict[tuple[str, str], tuple[str, float]] = {}
        for one in self._pending:
            if now - one.since > SLOW_S:
                found.setdefault((one.volume, one.node), (one.state, now - one.since))
        return found

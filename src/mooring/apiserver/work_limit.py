"""How much a request may cost the thread that serves all: counted in steps while it is decided.

A step stands for about a microsecond of CPU. A server of many clients sets a limit around each decision
(`limited`); code whose cost depends on what a client sent counts its steps before it makes them (`spend`).
Past the limit `spend` raises `TooMuch`: the decision is abandoned, nothing has been changed, and
`transport.forked_requests` makes it again in a copy of the process. Without a limit, as in tests and
simulations, `spend` does nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

AT_ONCE = 40_000
"""What a server decides at once; what takes more it decides elsewhere."""
NO_LIMIT = 2**62


class TooMuch(Exception):
    """The decision would take the thread for too long."""


class Meter:
    """The steps that are left of `limit`."""

    __slots__ = ("left", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = self.left = limit


_METER: ContextVar[Meter | None] = ContextVar("work", default=None)


@contextmanager
def limited(steps: int) -> Generator[None]:
    """Lets what is decided within spend so many steps."""
    token = _METER.set(Meter(steps))
    try:
        yield
    finally:
        _METER.reset(token)


def spend(steps: int) -> None:
    """Says that so many steps are about to be made. Raises `TooMuch` if they are more than are left."""
    meter = _METER.get()
    if meter is not None:
        meter.left -= steps
        if meter.left < 0:
            raise TooMuch


def renew() -> None:
    """Says that the thread has served others: from here on all steps are left again."""
    meter = _METER.get()
    if meter is not None:
        meter.left = meter.limit

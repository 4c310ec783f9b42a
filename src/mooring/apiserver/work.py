"""How much a request may cost the thread that serves all: counted in steps while it is decided.

A step stands for about a microsecond of CPU. Whoever serves many clients by one thread sets a limit around a decision
(`limited`); code whose cost depends on what a client sent says what it is about to do (`spend`), before it does it.
Past the limit a decision is given up by `TooMuch`, which has changed nothing: it is to be made elsewhere (`aside`).
Where no limit is set, as in a process of one client, in tests and in simulations, all of this does nothing.
"""

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

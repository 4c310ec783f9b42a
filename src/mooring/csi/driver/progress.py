"""What a long operation waits for, and for how long its caller waits.

An operation may outlive its caller. A caller that retries meanwhile gets ABORTED with the text that the
operation reported here last; the sidecar writes it into an event or a status, where people see it. What must
not be begun for a caller that has gone (it may be done elsewhere since, and undone) asks `is_overdue`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any


@dataclass
class UnderWay:
    """An operation in flight: its method, its task, and what it waits for, as text."""

    method: str
    task: asyncio.Task[Any] | None
    waits_for: str = ""


current: ContextVar[UnderWay | None] = ContextVar("current", default=None)
"""The operation of the current task."""
_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))
"""Until when the caller of the current task waits, by the event loop's clock."""


@contextmanager
def due_in(timeout_s: float | None) -> Generator[None]:
    """While entered, and in tasks that begin there, the caller waits for so many seconds from now; None: for
    ever."""
    if timeout_s is None:
        yield
        return
    token = _deadline.set(asyncio.get_running_loop().time() + timeout_s)
    try:
        yield
    finally:
        _deadline.reset(token)


def is_overdue() -> bool:
    """Whether the caller of the current task does not wait any longer."""
    return asyncio.get_running_loop().time() >= _deadline.get()


def waits_for(what: str) -> None:
    """Reports what the current task's operation waits for ("EC2 shows it as attaching to i-1"). Does nothing
    outside of an operation."""
    if (operation := current.get()) is not None:
        operation.waits_for = what

"""What a long operation waits for, and for how long its caller waits.

An operation may outlive its caller. A caller that retries meanwhile gets ABORTED with the text that the
operation reported here last; the sidecar writes it into an event or a status, where people see it. What must
not be begun for a caller that has gone (it may be done elsewhere since, and undone) is done `while_it_waits`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
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
_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)
"""Until when the caller of the current task waits, by the event loop's clock; None: for ever."""


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
    deadline = _deadline.get()
    return deadline is not None and asyncio.get_running_loop().time() >= deadline


@asynccontextmanager
async def while_it_waits() -> AsyncGenerator[None]:
    """What is done here ends when the caller of the current task does not wait any longer: a request that
    stands in a queue is not sent then. Raises TimeoutError."""
    if is_overdue():
        raise TimeoutError
    async with asyncio.timeout_at(_deadline.get()):
        yield


def waits_for(what: str) -> None:
    """Reports what the current task's operation waits for ("EC2 shows it as attaching to i-1"). Does nothing
    outside of an operation."""
    if (operation := current.get()) is not None:
        operation.waits_for = what

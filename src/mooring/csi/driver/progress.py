"""What a long operation waits for, and for how long its caller waits.

An operation may outlive its caller. A caller that retries meanwhile gets ABORTED with the text that the
operation reported here last; the sidecar writes it into an event or a status, where people see it. What must
not be begun for a caller that has gone (it may be done elsewhere since, and undone) is done `while_it_waits`;
what may be, for a while, after `check_not_forgotten`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mooring.csi.errors import Code, CsiError
from mooring.this_boot import Elapsed

FORGOTTEN_S = 30.0
"""Seconds after which a caller that has gone may count its call as over: Mooring's attacher does so after 45,
for the usual call of 15. An EC2 that carries out what it is asked for takes a few more."""


@dataclass
class UnderWay:
    """An operation in flight: its method, its task, and what it waits for, as text."""

    method: str
    task: asyncio.Task[Any] | None
    waits_for: str = ""


current: ContextVar[UnderWay | None] = ContextVar("current", default=None)
"""The operation of the current task."""


@dataclass(frozen=True)
class _Due:
    """For how many seconds from its call on the caller waits."""

    timeout_s: float
    since: Elapsed = field(default_factory=Elapsed)


_due: ContextVar[_Due | None] = ContextVar("due", default=None)
"""Of the caller of the current task; None: it waits for ever."""


@contextmanager
def due_in(timeout_s: float | None) -> Generator[None]:
    """While entered, and in tasks that begin there, the caller waits for so many seconds from now; None: for
    ever."""
    if timeout_s is None:
        yield
        return
    token = _due.set(_Due(timeout_s))
    try:
        yield
    finally:
        _due.reset(token)


def is_overdue(by: float = 0.0) -> bool:
    """Whether the caller of the current task does not wait any longer, for so many seconds."""
    due = _due.get()
    return due is not None and due.since.seconds >= due.timeout_s + by


def check_not_forgotten(what: str) -> None:
    """Before the storage is asked to change something, in an operation that goes on without its caller, or in
    a process that may have stood still. Raises CsiError (ABORTED) if the caller has gone long ago: what it
    wanted may be done since by another process, and undone. Who asks again is heard."""
    if is_overdue(FORGOTTEN_S):
        raise CsiError(Code.ABORTED, f"{what}: who asked for it has gone {FORGOTTEN_S:g} s ago: try again")


@asynccontextmanager
async def while_it_waits() -> AsyncGenerator[None]:
    """What is done here ends when the caller of the current task does not wait any longer: a request that
    stands in a queue is not sent then. Raises TimeoutError."""
    if is_overdue():
        raise TimeoutError
    due = _due.get()
    async with asyncio.timeout_at(due.since.began + due.timeout_s if due is not None else None):
        yield


def waits_for(what: str) -> None:
    """Reports what the current task's operation waits for ("EC2 shows it as attaching to i-1"). Does nothing
    outside of an operation."""
    if (operation := current.get()) is not None:
        operation.waits_for = what

"""What a long operation waits for.

An operation may outlive its caller. A caller that retries meanwhile gets ABORTED with the text that the
operation reported here last; the sidecar writes it into an event or a status, where people see it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class UnderWay:
    """An operation in flight: its method, and what it waits for, as text."""

    method: str
    waits_for: str = ""


current: ContextVar[UnderWay | None] = ContextVar("current", default=None)
"""The operation of the current task."""


def waits_for(what: str) -> None:
    """Reports what the current task's operation waits for ("EC2 shows it as attaching to i-1"). Does nothing
    outside of an operation."""
    if (operation := current.get()) is not None:
        operation.waits_for = what

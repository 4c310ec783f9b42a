"""What an operation that takes long waits for.

An operation may outlive its caller; who asks again meanwhile is ABORTED, and is told what the operation has
said here last. So a person sees it, too: a sidecar writes the answer where people look.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass
class UnderWay:
    """An operation of a method; `waits_for` in words."""

    method: str
    waits_for: str = ""


current: ContextVar[UnderWay | None] = ContextVar("current", default=None)
"""The operation in whose task we are."""


def waits_for(what: str) -> None:
    """The operation that runs here waits for this ("EC2 shows it as attaching to i-1"). Without one, nothing
    is reported."""
    if (operation := current.get()) is not None:
        operation.waits_for = what

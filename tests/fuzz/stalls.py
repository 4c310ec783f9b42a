"""How long an event loop's thread is taken at a time, in CPU seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Stalls:
    """The longest turn so far, and what it ran."""

    longest: float = 0.0
    what: str = ""

    def reset(self) -> None:
        self.longest, self.what = 0.0, ""


@contextmanager
def watched() -> Generator[Stalls]:
    """Measures every callback of every loop of this process, each by its own thread's clock."""
    found, run = Stalls(), asyncio.Handle._run

    def measured(handle: Any) -> None:
        begun = time.thread_time()
        try:
            run(handle)
        finally:
            took = time.thread_time() - begun
            if took > found.longest:
                found.longest, found.what = took, repr(handle)[:300]

    asyncio.Handle._run = measured  # type: ignore[method-assign]
    try:
        yield found
    finally:
        asyncio.Handle._run = run  # type: ignore[method-assign]

"""While a run is played, the real world is out of reach: a call that asks for it fails.

The loop itself refuses threads, sockets and processes. Here: what needs no loop. The wall clock is refused to
Mooring's own modules only, because libraries stamp their counters with it.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

from mooring.simulation.engine.event_loop import Escape

OURS = "mooring."
REFUSED: tuple[tuple[Any, str], ...] = (
    (socket.socket, "__init__"),
    (subprocess.Popen, "__init__"),
    (threading.Thread, "start"),
    (os, "urandom"),
    (random, "_urandom"),
)
COUNTED: tuple[tuple[Any, str], ...] = (
    *((kind, "labels") for kind in (Counter, Gauge, Histogram)),
    *((Counter, "inc"), (Gauge, "inc"), (Gauge, "dec"), (Gauge, "set"), (Histogram, "observe")),
)
"""Metrics are not counted: no run reads them."""
CLOCKS = ("time", "time_ns", "monotonic")


def _refuse(what: str) -> Callable[..., Any]:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise Escape(f"{what}: a simulated part must not leave the simulation")

    return refused


def _not_for_us(what: str, real: Callable[[], Any]) -> Callable[[], Any]:
    def guarded() -> Any:
        if sys._getframe(1).f_globals.get("__name__", "").startswith(OURS):  # pyright: ignore[reportPrivateUsage]
            raise Escape(f"{what}: a simulated part has the loop's time, and an injected wall clock")
        return real()

    return guarded


def _uncounted(metric: Any, *args: Any, **kwargs: Any) -> Any:
    return metric


@contextmanager
def isolated() -> Generator[None, None, None]:
    """Refuses the real world to this process; not for use from several threads."""
    instead: list[tuple[Any, str, Callable[..., Any]]] = [
        (owner, name, _refuse(f"{owner.__name__}.{name}")) for owner, name in REFUSED
    ]
    instead += [(time, name, _not_for_us(f"time.{name}", getattr(time, name))) for name in CLOCKS]
    instead += [(owner, name, _uncounted) for owner, name in COUNTED]
    real = [(owner, name, owner.__dict__.get(name)) for owner, name, _ in instead]
    try:
        for owner, name, other in instead:
            setattr(owner, name, other)
        yield
    finally:
        for owner, name, before in real:
            if before is None:
                delattr(owner, name)  # what it inherits is there again
            else:
                setattr(owner, name, before)

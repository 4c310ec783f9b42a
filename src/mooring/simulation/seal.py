"""While a run is played, the real world is out of reach: whoever asks for it fails at that very call.

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
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from mooring.simulation.loop import Escape

OURS = "mooring."


def _refuse(what: str) -> Callable[..., Any]:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise Escape(f"{what}: a simulated part must not leave the simulation")

    return refused


def _not_for_us(what: str, real: Callable[[], Any]) -> Callable[[], Any]:
    def asked() -> Any:
        if sys._getframe(1).f_globals.get("__name__", "").startswith(OURS):  # pyright: ignore[reportPrivateUsage]
            raise Escape(f"{what}: a simulated part has the loop's time, and an injected wall clock")
        return real()

    return asked


@contextmanager
def sealed() -> Generator[None, None, None]:
    """Seals the process; not for use from several threads."""
    with ExitStack() as stack:
        refused: list[tuple[Any, str]] = [
            (socket.socket, "__init__"),
            (subprocess.Popen, "__init__"),
            (threading.Thread, "start"),
            (os, "urandom"),
            (random, "_urandom"),
        ]
        for owner, name in refused:
            stack.enter_context(patch.object(owner, name, _refuse(f"{owner.__name__}.{name}")))
        for name in ("time", "time_ns", "monotonic"):
            stack.enter_context(patch.object(time, name, _not_for_us(f"time.{name}", getattr(time, name))))
        yield

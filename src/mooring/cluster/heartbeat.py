"""Whether a part's event loop turns: a pipe on which the part sends a byte every few seconds.

A process that lives and does nothing (stopped, stuck in a call that does not return) answers no request, and
a supervisor that waits for its death does not start it again. Guarantees: silence counts from the first
heartbeat on, so that a program without one is never ended; time is the monotonic clock's, which stands still
while the machine sleeps; who stood still itself (a container that is paused), listens anew. Both sides are
here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping

VARIABLE = "MOORING_HEARTBEAT_FD"
"""In a part's environment: the descriptor to write to."""
BEAT_S = 2.0
SILENCE_S = 60.0
"""So long may a part say nothing, in seconds: no single step of ours takes a fraction of it."""


def beat(environ: Mapping[str, str]) -> None:
    """The part's side: beats while the running event loop turns. Nothing without the variable, or without a
    reader."""
    if not environ.get(VARIABLE, "").isdecimal():
        return
    descriptor, loop = int(environ[VARIABLE]), asyncio.get_running_loop()

    def send() -> None:
        try:
            os.write(descriptor, b".")
        except BlockingIOError:
            pass  # the pipe is full: its reader is what hangs
        except OSError:
            return  # there is no reader any more
        loop.call_later(BEAT_S, send)

    with contextlib.suppress(OSError):
        os.set_blocking(descriptor, False)
        os.set_inheritable(descriptor, False)
        send()


class Listener:
    """The other side: calls `silent` once when nothing has come for `patience` seconds since the first
    heartbeat."""

    def __init__(self, silent: Callable[[], None], patience: float = SILENCE_S) -> None:
        self._silent, self._patience = silent, patience
        self._loop = asyncio.get_running_loop()
        self._reader, self.writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._timer: asyncio.TimerHandle | None = None
        self._loop.add_reader(self._reader, self._read)

    def started(self) -> None:
        """The part has its end: this process lets go of it."""
        os.close(self.writer)

    def close(self) -> None:
        """Listens no more."""
        self._stop_timer()
        self._loop.remove_reader(self._reader)
        os.close(self._reader)

    def _read(self) -> None:
        if not os.read(self._reader, 4096):
            self._stop_timer()  # its end is closed: it has ended, or does not want to be watched
            self._loop.remove_reader(self._reader)
            return
        self._stop_timer()
        self._wait()

    def _wait(self) -> None:
        due = self._loop.time() + self._patience
        self._timer = self._loop.call_at(due, self._over, due)

    def _over(self, due: float) -> None:
        """What stopped this process may have stopped the part, too, which has had no time to beat yet."""
        if self._loop.time() - due > BEAT_S:
            self._wait()
        else:
            self._silent()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

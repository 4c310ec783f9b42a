"""Work in forks of this process: each piece in a fresh one, so many at a time. This process is kept free of
threads and of Mooring's own modules, so that each fork is warm and still may import a mutant."""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
PR_SET_PDEATHSIG = 1


class WorkFailed(Exception):
    """A fork ended without a result; its traceback is on stderr."""


def begin(work: Callable[[int], None]) -> tuple[int, int]:
    """Forks; the fork does the work, which writes to the descriptor that it is given, and ends. Returns the
    fork's pid and the descriptor from which to read. The fork ends with this process."""
    reading, writing = os.pipe()
    if pid := os.fork():
        os.close(writing)
        return pid, reading
    status = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.close(reading)
        work(writing)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def each(pieces: Iterable[T], work: Callable[[T], bytes], at_once: int) -> Iterator[tuple[T, bytes]]:
    """What the work makes of each piece, in the order in which they are done. Raises WorkFailed."""
    left, selector = iter(pieces), selectors.DefaultSelector()
    running: dict[int, tuple[int, T, bytearray]] = {}
    try:
        while True:
            while len(running) < at_once and (piece := next(left, None)) is not None:
                pid, reading = begin(lambda writing, piece=piece: _write_all(writing, work(piece)))
                selector.register(reading, selectors.EVENT_READ)
                running[reading] = (pid, piece, bytearray())
            if not running:
                return
            for key, _ in selector.select():
                pid, piece, found = running[key.fd]
                if data := os.read(key.fd, 1 << 16):
                    found += data
                    continue
                selector.unregister(key.fd)
                os.close(key.fd)
                del running[key.fd]
                if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
                    raise WorkFailed(f"the work on {piece} failed")
                yield piece, bytes(found)
    finally:
        for pid, _, _ in running.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _write_all(writing: int, data: bytes) -> None:
    while data:
        data = data[os.write(writing, data) :]

"""What a supervisor has to complain about, in its own log, `supervisor.log`. Standard library only.

A complaint never fails: the disk that a container's log has filled is the one that this log is on, too, and
with the supervisor its pod would end. Nor does the log grow for ever: what is lost may be said with each line
of a container, for months.
"""

from __future__ import annotations

import contextlib
import os

LONGEST = 1024 * 1024
"""Bytes; then it begins anew."""


def complain(text: str) -> None:
    """Writes a line to standard error, which is that log, if it can be written."""
    line = f"{text}\n".encode(errors="backslashreplace")
    with contextlib.suppress(OSError):
        if os.fstat(2).st_size + len(line) > LONGEST:
            os.ftruncate(2, 0)
        os.write(2, line)

"""The last lines of files that grow: of drivers' logs, and of the trace of their calls. For the live view."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

AT_FIRST = 64 * 1024
"""Bytes of a file that is long already at the first look; what is before is not read, and neither is the line
that begins there."""


class Tail:
    """One file, which may not exist yet, or be replaced. `lines` are the last ones so far."""

    def __init__(self, path: Path, keep: int) -> None:
        self.path = path
        self.lines: deque[str] = deque(maxlen=keep)
        self._at = -1
        self._inode = 0
        self._rest = b""
        self._in_a_line = False

    def look(self) -> list[str]:
        """The whole lines that have come since the last look."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return []
        if status.st_ino != self._inode or status.st_size < self._at:
            self._at = max(0, status.st_size - AT_FIRST) if self._at < 0 else 0
            self._in_a_line = self._at > 0
            self._inode, self._rest = status.st_ino, b""
        with self.path.open("rb") as file:
            file.seek(self._at, os.SEEK_SET)
            read = file.read()
        self._at += len(read)
        *whole, self._rest = (self._rest + read).split(b"\n")
        if self._in_a_line and whole:
            whole, self._in_a_line = whole[1:], False
        found = [line.decode(errors="replace").rstrip() for line in whole if line.strip()]
        self.lines.extend(found)
        return found

"""What is opened for a process that may not come into being. Standard library only.

A supervisor lives for months, and may have a thousand descriptors: what each attempt in vain left open would
keep every later one from being made, and its clients from being heard.
"""

from __future__ import annotations

import contextlib
import os


class Descriptors(contextlib.ExitStack):
    """Closes what was opened in it when it is left, unless that was taken over (`pop_all`)."""

    def pipe(self, flags: int = 0) -> tuple[int, int]:
        """The end to read from, and the one to write to."""
        ends = os.pipe2(os.O_CLOEXEC | flags)
        for end in ends:
            self.callback(os.close, end)
        return ends

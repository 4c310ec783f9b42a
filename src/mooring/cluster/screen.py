"""Lines on a terminal that are drawn anew in place, and never more of them than its window has.

What is drawn last stays there when the program ends. A line that is too long is cut; where there are too
many, the last one says so. Lines have to be printable already (`kube/printable.py`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TextIO

import click

_COLOURS = {
    "Unknown": "red",
    "out-of-service": "red",
    "detaching": "yellow",
    "attaching": "yellow",
    "Ready": "green",
}
_NO_WRAP, _WRAP, _REST_OF_LINE, _REST, _HOME = "\x1b[?7l", "\x1b[?7h", "\x1b[K", "\x1b[J", "\x1b[H\x1b[2J"


def is_terminal(out: TextIO) -> bool:
    """Whether lines can be drawn anew there: a terminal, and not one that says it is `dumb`."""
    return out.isatty() and os.environ.get("TERM", "") != "dumb"


class Screen:
    """The lines below what was printed before. Nothing else may print meanwhile."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._drawn = 0
        self._size: os.terminal_size | None = None

    @property
    def size(self) -> os.terminal_size:
        """Of the window, as it is now."""
        return os.get_terminal_size(self._out.fileno())

    def draw(self, lines: Sequence[str], more: str = "") -> None:
        """Draws these lines in the place of those before. `more`: where the rest is to be seen, if there is
        one."""
        size = self.size
        shown = fitted(lines, size.columns, size.lines - 1, more)
        begin = f"\x1b[{self._drawn}F" if self._drawn else ""
        if self._size is not None and size != self._size:
            begin = _HOME  # the terminal has broken the lines anew: where the first one is, is not known
        body = "".join(f"{coloured(line)}{_REST_OF_LINE}\n" for line in shown)
        self._out.write(f"{_NO_WRAP}{begin}{body}{_REST}{_WRAP}")
        self._out.flush()
        self._drawn, self._size = len(shown), size


def fitted(lines: Sequence[str], width: int, height: int, more: str = "") -> list[str]:
    """As much of the lines as a window has room for."""
    if len(lines) > height:
        rest = len(lines) - max(height - 1, 0)
        lines = [*lines[: max(height - 1, 0)], f"… {rest} more lines{f': {more}' if more else ''}"]
    return [line[:width] for line in lines]


def coloured(line: str) -> str:
    """The first word of a line that tells how something is, in its colour."""
    for word, colour in _COLOURS.items():
        if word in line:
            return line.replace(word, click.style(word, fg=colour), 1)
    return line

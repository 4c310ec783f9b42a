"""Lines on a terminal that are drawn anew in place, and never more of them than its window has.

What is drawn last stays there when the program ends. A line that is too long is cut; where there are too
many, the last one says so. Lines have to be printable already (`kube/printable.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import TextIO

import click

from mooring.kube.printable import counted

_COLOURS = {
    "Unknown": "red",
    "NotReady": "red",
    "out-of-service": "red",
    "detaching": "yellow",
    "attaching": "yellow",
    "Ready": "green",
}
_WORD = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, _COLOURS))})(?![\w-])")
_NO_WRAP, _WRAP, _REST_OF_LINE, _REST, _HOME = "\x1b[?7l", "\x1b[?7h", "\x1b[K", "\x1b[J", "\x1b[H\x1b[2J"


def is_terminal(out: TextIO) -> bool:
    """Whether lines can be drawn anew there: a terminal, and not one that says it is `dumb`."""
    return out.isatty() and os.environ.get("TERM", "") != "dumb"


class Screen:
    """The lines below what was printed before. Nothing else may print meanwhile. `paint` gives a line its
    colours."""

    def __init__(self, out: TextIO, paint: Callable[[str], str] | None = None) -> None:
        self._out = out
        self._paint = paint or coloured
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
        shown = [line[: size.columns] for line in fitted(lines, size.lines - 1, more)]
        begin = f"\x1b[{self._drawn}F" if self._drawn else ""
        if self._size is not None and size != self._size:
            begin = _HOME  # the terminal has broken the lines anew: where the first one is, is not known
        body = "".join(f"{self._paint(line)}{_REST_OF_LINE}\n" for line in shown)
        self._out.write(f"{_NO_WRAP}{begin}{body}{_REST}{_WRAP}")
        self._out.flush()
        self._drawn, self._size = len(shown), size


def fitted(lines: Sequence[str], height: int, more: str = "") -> list[str]:
    """As many of the lines as there is room for."""
    if len(lines) <= height:
        return list(lines)
    most = max(height - 1, 0)
    return [*lines[:most], f"… {counted(len(lines) - most, 'more line')}{f': {more}' if more else ''}"]


def coloured(line: str) -> str:
    """The first word of a line that tells how something is, in its colour."""
    return _WORD.sub(lambda found: click.style(found[0], fg=_COLOURS[found[0]]), line, count=1)

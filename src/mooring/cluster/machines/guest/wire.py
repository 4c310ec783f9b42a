"""The serial line between a machine's first process and the host: one JSON object on a line, each way.

The host asks `{"id": 1, "do": NAME, ...}` and is answered `{"id": 1}` or `{"id": 1, "error": TEXT}`; what the
machine says of itself has no id: `{"says": NAME, ...}`. The line works whatever happens to the network.
Standard library only.
"""

from __future__ import annotations

import json
import os
import termios

LIMIT = 1 << 16
"""Bytes of a line; a longer one is dropped."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Wire:
    """This end of the line. It never blocks for long: the host's end is always read."""

    def __init__(self, device: str) -> None:
        self.fileno = os.open(device, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        if os.isatty(self.fileno):
            _make_raw(self.fileno)
        self._held = b""

    def read(self) -> list[dict[str, Any]]:
        """The requests that have come. Lines that are none are dropped."""
        self._held += os.read(self.fileno, 4096)
        *lines, self._held = self._held.split(b"\n")
        if len(self._held) > LIMIT:
            self._held = b""
        return [request for line in lines if (request := parse(line)) is not None]

    def write(self, message: dict[str, Any]) -> None:
        """Says it."""
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(self.fileno, data) :]


def parse(line: bytes) -> dict[str, Any] | None:
    """The object on a line; None if there is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None  # pyright: ignore[reportUnknownVariableType]


def _make_raw(descriptor: int) -> None:
    mode = termios.tcgetattr(descriptor)
    mode[0] = mode[1] = mode[3] = 0  # nothing is translated, echoed or waited for
    mode[2] |= termios.CLOCAL | termios.CREAD
    mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
    termios.tcsetattr(descriptor, termios.TCSANOW, mode)

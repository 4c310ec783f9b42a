"""The machine's side of its watchdog: a socket in the machine, whose lines go over the serial line to the
supervisor outside, which plays the hardware (`cluster.machines.watchdog`), and its answers back.

Nothing is fed here, nor answered: what comes is passed on, and in its order. A line is JSON:
`{"do": "arm", "seconds": 10}`, `{"do": "feed"}`, `{"do": "disarm"}`. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket

from mooring.cluster.machines.guest.wire import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PATH = "/run/mooring-watchdog"
LIMIT = 1 << 12
"""Bytes of a line."""


class Door:
    """The socket, and who has come through it."""

    def __init__(self, path: str = PATH) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(path)
        os.chmod(path, 0o600)
        self.socket.listen()
        self._open: dict[int, tuple[socket.socket, bytes]] = {}

    @property
    def fileno(self) -> int:
        return self.socket.fileno()

    def accept(self) -> int:
        """The descriptor of one more connection."""
        made, _ = self.socket.accept()
        made.setblocking(False)
        self._open[made.fileno()] = made, b""
        return made.fileno()

    def has(self, descriptor: int) -> bool:
        return descriptor in self._open

    def read(self, descriptor: int) -> list[dict[str, Any]] | None:
        """What is to be said to the supervisor; None if the connection has ended."""
        connection, held = self._open[descriptor]
        try:
            data = connection.recv(LIMIT)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        *lines, rest = (held + data).split(b"\n")
        self._open[descriptor] = connection, rest[:LIMIT]
        found = [request for line in lines if (request := parse(line)) is not None]
        return [
            {"says": "watchdog", "from": descriptor, "do": each.get("do"), "seconds": each.get("seconds")}
            for each in found
        ]

    def answer(self, request: dict[str, Any]) -> None:
        """Passes the supervisor's answer on, if its asker is still there."""
        connection, _ = self._open.get(int(request["from"]), (None, b""))
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.send(json.dumps(request["answer"]).encode() + b"\n")

    def close(self, descriptor: int) -> None:
        self._open.pop(descriptor)[0].close()

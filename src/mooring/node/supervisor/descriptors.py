"""What a supervisor opens: for a process that may not come into being, and for its clients. Standard library
only.

A supervisor lives for months, and may have a thousand descriptors: what each attempt in vain left open would
keep every later one from being made, and its clients from being heard. The whole machine may have none left.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time

from mooring.node.supervisor.complaints import complain

ANSWER_S = 1.0
"""A client that does not read must not hold up the pod's other clients and children for longer."""
AGAIN_S = 0.1


class Descriptors(contextlib.ExitStack):
    """Closes what was opened in it when it is left, unless that was taken over (`pop_all`)."""

    def pipe(self, flags: int = 0) -> tuple[int, int]:
        """The end to read from, and the one to write to."""
        ends = os.pipe2(os.O_CLOEXEC | flags)
        for end in ends:
            self.callback(os.close, end)
        return ends


def accepted(listener: socket.socket) -> socket.socket | None:
    """The next client; None if none can be taken now. It waits then, until something is closed: with the
    supervisor its pod would end."""
    try:
        client, _ = listener.accept()
    except OSError as error:
        complain(f"a client waits: {error}")
        time.sleep(AGAIN_S)  # the listener stays ready: it is asked again at once
        return None
    client.settimeout(ANSWER_S)
    return client

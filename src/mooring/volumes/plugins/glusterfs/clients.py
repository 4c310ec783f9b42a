"""The processes of this node that serve GlusterFS mounts: one `glusterfs` for each mount point, the last word
of its command line, because the plugin has started it so.

Such a process holds the writes that the servers do not have. Guarantee: when `end` returns, none that served
the directory is left, so none of them writes or mounts any more. Blocking.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from pathlib import Path

from mooring.volumes.errors import VolumeError

PROGRAM = b"glusterfs"
OF_ITS_OWN_S, KILLED_S = 10.0, 5.0
_LONGEST = 64 * 1024


def of(directory: str) -> list[int]:
    """The processes that serve the mount point, or are about to."""
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdecimal())
    return [pid for pid in pids if _serves(pid, os.fsencode(directory))]


def _serves(pid: int, directory: bytes) -> bool:
    try:
        with Path(f"/proc/{pid}/cmdline").open("rb") as file:
            words = file.read(_LONGEST).rstrip(b"\0").split(b"\0")
    except OSError:  # it has ended
        return False
    return os.path.basename(words[0]) == PROGRAM and words[-1] == directory


def end(directory: str, patience_s: float = OF_ITS_OWN_S) -> list[int]:
    """Waits so many seconds until they have ended of their own, as they do after an unmount, and kills those
    that have not; these are returned. Raises VolumeError if one lives on."""
    until = time.monotonic() + patience_s
    killed: list[int] = []
    for pid in of(directory):
        with contextlib.suppress(ProcessLookupError):
            process = os.pidfd_open(pid)
            try:
                if not _serves(pid, os.fsencode(directory)) or _ended(process, until - time.monotonic()):
                    continue
                signal.pidfd_send_signal(process, signal.SIGKILL)
                killed.append(pid)
                if not _ended(process, KILLED_S):
                    raise VolumeError(
                        f"process {pid} serves GlusterFS at {directory}, was killed and has not ended: the "
                        f"kernel holds it. It is tried again"
                    )
            finally:
                os.close(process)
    return killed


def _ended(process: int, patience_s: float) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(max(0.0, patience_s) * 1000))

"""How a storage plugs a disk into a machine with a kernel of its own, for which a device of this host is not
enough.

The supervisor of the machine listens on the socket `port.sock` in the directory that the storage keeps for
it; without that socket the machine shares this host's kernel, and nothing has to be done. One JSON object
each way on a line: `{"plug": DISK, "device": PATH, "link": PATH}` or `{"unplug": DISK}` → `{}`, `{"busy":
WHO}` or `{"error": TEXT}`. Both are idempotent. Blocking.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mooring.mounts.errors import DeviceBusy, MountsError

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

SOCKET = "port.sock"
PATIENCE_S = 30.0
LONGEST = 1 << 16


class MachineDoesNotAnswer(MountsError):
    """The machine's supervisor is away, or could not do it: the disk may or may not be plugged in."""


def plug(directory: Path, disk: str, device: str, link: str) -> None:
    """Makes the device one of the machine's, if there is one; in the machine, `link` leads to it. Raises
    MachineDoesNotAnswer."""
    _ask(directory, {"plug": disk, "device": device, "link": link})


def unplug(directory: Path, disk: str) -> None:
    """Takes it away. Raises DeviceBusy while the machine has it open, MachineDoesNotAnswer."""
    answer = _ask(directory, {"unplug": disk})
    if "busy" in answer:
        raise DeviceBusy(disk, [str(answer["busy"])])


def _ask(directory: Path, request: Mapping[str, str]) -> Mapping[str, Any]:
    if not (directory / SOCKET).exists():
        return {}
    try:
        with short_path(directory / SOCKET) as address, socket.socket(socket.AF_UNIX) as line:
            line.settimeout(PATIENCE_S)
            line.connect(address)
            line.sendall(json.dumps(request).encode() + b"\n")
            with line.makefile("rb") as reader:
                answer = json.loads(reader.readline(LONGEST) or b"{}{}")
    except (OSError, ValueError) as error:
        raise MachineDoesNotAnswer(f"the machine of {directory.name} does not answer: {error}") from error
    if "error" in answer:
        raise MachineDoesNotAnswer(f"the machine of {directory.name}: {answer['error']}")
    return answer


@contextmanager
def short_path(path: Path) -> Generator[str]:
    """A path of the same socket that fits into a socket address (108 bytes), however long `path` is."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)

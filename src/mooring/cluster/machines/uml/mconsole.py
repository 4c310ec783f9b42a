"""Speaks to a User-mode Linux kernel over its console socket: disks are plugged in and out, the kernel is
made to panic.

One datagram there, one or more back; the kernel answers whatever its guest does, unless it stands still.
Source: arch/um/drivers/mconsole.h of Linux. Blocking.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

MAGIC, VERSION = 0xCAFEBABE, 2
REQUEST = struct.Struct("=III512s")
"""Magic number, version, length, command."""
REPLY = struct.Struct("=III")
"""Whether it is an error, whether more follows, length; the text comes after it."""
LONGEST = REQUEST.size - 12 - 1
PATIENCE_S = 5.0


class Refused(Exception):
    """The kernel's own words for why it does not."""


class NoAnswer(Exception):
    """The kernel is gone, or stands still."""


def order(socket_path: Path, command: str) -> str:
    """Sends a command and returns the answer. Raises `Refused`, `NoAnswer`."""
    encoded = command.encode()
    if len(encoded) > LONGEST:
        raise ValueError(f"{command[:40]}...: the kernel takes {LONGEST} bytes at most")
    # The kernel answers to a path, which it has to see as we do: so it is beside its own socket.
    back = socket_path.with_name(f"reply-{os.getpid()}-{os.urandom(4).hex()}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.settimeout(PATIENCE_S)
        try:
            line.bind(str(back))
            line.sendto(REQUEST.pack(MAGIC, VERSION, len(encoded), encoded), str(socket_path))
            return _answer(line)
        except OSError as error:
            raise NoAnswer(f"the machine's kernel does not answer: {error}") from error
        finally:
            back.unlink(missing_ok=True)


def _answer(line: socket.socket) -> str:
    text = ""
    while True:
        failed, more, part = parse(line.recv(4096))
        text += part
        if not more:
            break
    if failed:
        raise Refused(text.strip())
    return text


def parse(datagram: bytes) -> tuple[bool, bool, str]:
    """Whether it is an error, whether more follows, and the text. What is no answer is an error that says
    so."""
    if len(datagram) < REPLY.size:
        return True, False, "an answer that is none"
    failed, more, length = REPLY.unpack_from(datagram)
    text = datagram[REPLY.size : REPLY.size + min(length, 4096)]
    return bool(failed), bool(more), text.rstrip(b"\0").decode(errors="replace")

"""The agent's side of `mooring.node.supervisor.exec`: runs a command in a container of a pod.

Guarantee: when these coroutines are cancelled, the command is killed. The agent's death kills it, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mooring.mounts.machine_ports import short_path
from mooring.node.runtime import ExecFailure, ExecResult, Stdio, Struct

OUTPUT_LIMIT = 10 * 1024
"""Bytes of output that are kept (upstream: maxRespBodyLength of probes); the rest is read and dropped."""
TIOCSPTLCK = 0x40045431  # of every architecture that we run on; Python 3.11 has no name for them
TIOCGPTPEER = 0x5441
_PACKET = 1 << 18


class _Answer(Struct, frozen=True):
    exit_code: int
    error: str


async def run_in_container(
    directory: Path, container: str, argv: Sequence[str], stdio: Stdio, *, tty: bool = False
) -> int:
    """Runs `argv` in the container of the pod with that directory; its exit code. Raises `ExecFailure`."""
    loop = asyncio.get_running_loop()
    with _connect(directory) as connection:
        request = {"container": container, "argv": list(argv), "tty": tty}
        try:
            socket.send_fds(connection, [msgspec.json.encode(request)], stdio)
        except OSError as error:
            raise ExecFailure(f"container {container}: command not sent: {error}") from error
        answer = await loop.sock_recv(connection, _PACKET)
    if not answer:
        raise ExecFailure(f"container {container}: its pod ended")
    ended = msgspec.json.decode(answer, type=_Answer)
    if ended.error:
        raise ExecFailure(ended.error)
    return ended.exit_code


async def run_and_collect(directory: Path, container: str, argv: Sequence[str]) -> ExecResult:
    """The same without input; what it wrote is collected."""
    output = bytearray()
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.set_blocking(writer, True)
    loop = asyncio.get_running_loop()
    try:
        loop.add_reader(reader, _collect, reader, output)
        code = await run_in_container(directory, container, argv, (null, writer, writer))
        _collect(reader, output)
    finally:
        loop.remove_reader(reader)
        for descriptor in (reader, writer, null):
            os.close(descriptor)
    return ExecResult(code, output.decode(errors="replace"))


def _collect(reader: int, output: bytearray) -> None:
    with contextlib.suppress(BlockingIOError):
        while data := os.read(reader, 65536):
            output += data[: OUTPUT_LIMIT - len(output)]


def _connect(directory: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.setblocking(False)
    try:
        with short_path(directory / "exec.sock") as address:
            connection.connect(address)
    except OSError as error:
        connection.close()
        raise ExecFailure(f"the pod's supervisor takes no commands: {error}") from error
    return connection


def new_terminal(pts: str) -> tuple[int, int]:
    """Master and slave of a new terminal of the devpts that is mounted at `pts`; of this machine's if that is
    gone."""
    try:
        master = os.open(f"{pts}/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return os.openpty()
    fcntl.ioctl(master, TIOCSPTLCK, struct.pack("i", 0))
    slave = fcntl.ioctl(master, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    return master, slave

"""Commands that are run in a container beside its program (`kubectl exec`, probes, hooks). Standard library
only.

`exec.sock` takes connections of whole packets (SOCK_SEQPACKET). One connection is one command: the first
packet is an ExecRequest with three descriptors (standard input, output, error), the answer is {"exitCode",
"error"} when it has ended. A client that goes away before that has its command killed. The commands belong to
the pod: they end with it.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import signal
import socket
import termios
from functools import partial

from mooring.node.supervisor import START_ERROR, program, syscalls
from mooring.node.supervisor.container import Container
from mooring.node.supervisor.descriptors import Descriptors, accepted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypedDict

    class ExecRequest(TypedDict):
        container: str
        argv: list[str]
        tty: bool


PACKET = 1 << 18
_INT = array.array("i").itemsize


class Command:
    """One command: its client, its process, and the pipe on which it says why it could not start."""

    def __init__(
        self, client: socket.socket, container: Container, request: ExecRequest, stdio: list[int]
    ) -> None:
        self.client = client
        with Descriptors() as opened:
            self._errors, errors = opened.pipe(os.O_NONBLOCK)
            self.pid = os.fork()
            if self.pid == 0:
                of, tty = container.request, request["tty"]
                env = {**of["env"], **({"TERM": "xterm"} if tty and "TERM" not in of["env"] else {})}
                enter = partial(_enter, container, stdio, tty=tty)
                program.become(of, request["argv"], env, errors, enter)
            opened.pop_all()
        os.close(errors)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):  # it may not have its own group yet
            os.kill(self.pid, signal.SIGKILL)

    def answer(self, status: int) -> dict[str, object]:
        """After it was reaped."""
        try:
            error = os.read(self._errors, 4096).decode(errors="replace")
        except BlockingIOError:
            error = ""
        os.close(self._errors)
        code = os.waitstatus_to_exitcode(status)
        return {"exitCode": START_ERROR if error else code if code >= 0 else 128 - code, "error": error}


class ExecServer:
    """The part of the supervisor's event loop that serves `exec.sock`."""

    def __init__(
        self,
        register: Callable[[int, Callable[[], None]], None],
        unregister: Callable[[int], bool],
        find: Callable[[str], Container | None],
    ) -> None:
        self._register = register
        self._unregister = unregister
        self._find = find
        self._commands: dict[int, Command] = {}
        with contextlib.suppress(FileNotFoundError):
            os.unlink("/pod/exec.sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind("/pod/exec.sock")
        listener.listen()
        self._register(listener.fileno(), lambda: self._accept(listener))

    def exited(self, pid: int, status: int) -> None:
        """A process was reaped; nothing happens unless it was a command's."""
        command = self._commands.pop(pid, None)
        if command is not None:
            self._finish(command.client, command.answer(status))

    def _accept(self, listener: socket.socket) -> None:
        if (client := accepted(listener)) is not None:
            self._register(client.fileno(), lambda: self._begin(client))

    def _begin(self, client: socket.socket) -> None:
        try:
            packet, stdio = _receive(client)
        except OSError:
            packet, stdio = b"", []
        if len(stdio) != 3:
            _close_all(stdio)
            self._finish(client, None)
            return
        self._run(client, json.loads(packet), stdio)
        _close_all(stdio)

    def _run(self, client: socket.socket, request: ExecRequest, stdio: list[int]) -> None:
        container = self._find(request["container"])
        if container is None or not container.started:
            error = f"container {request['container']} is not running"
            self._finish(client, {"exitCode": START_ERROR, "error": error})
            return
        try:
            command = Command(client, container, request, stdio)
        except OSError as error:
            self._finish(client, {"exitCode": START_ERROR, "error": str(error)})
            return
        self._commands[command.pid] = command
        self._unregister(client.fileno())
        self._register(client.fileno(), lambda: self._hung_up(command))

    def _hung_up(self, command: Command) -> None:
        self._unregister(command.client.fileno())
        command.kill()

    def _finish(self, client: socket.socket, answer: dict[str, object] | None) -> None:
        self._unregister(client.fileno())
        if answer is not None:
            with contextlib.suppress(OSError):
                client.send(json.dumps(answer).encode())
        client.close()


def _receive(client: socket.socket) -> tuple[bytes, list[int]]:
    """A packet with its descriptors. `socket.recv_fds` imports a module, which is not possible in here."""
    descriptors = array.array("i")
    data, ancillary, _, _ = client.recvmsg(PACKET, socket.CMSG_LEN(3 * _INT), socket.MSG_CMSG_CLOEXEC)
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(content[: len(content) - len(content) % _INT])
    return data, list(descriptors)


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _enter(container: Container, stdio: list[int], *, tty: bool) -> list[int]:
    """In the child: goes into the container's mount namespace; returns the command's standard streams."""
    # The mount namespace alone: the command is a child of the supervisor, so it is in the pod's others
    # already.
    namespace = os.open(f"/proc/{container.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    syscalls.setns(namespace, syscalls.CLONE_NEWNS)
    os.chdir(container.request["workingDir"])
    if tty:
        fcntl.ioctl(stdio[0], termios.TIOCSCTTY, 0)
    return stdio

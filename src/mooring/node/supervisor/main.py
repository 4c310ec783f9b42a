"""Launch and event loop of a pod's supervisor. Standard library only.

Launch (`main`): reads from standard input, as one line of JSON, the network that the pod is to have, and
makes it; then, as the rest, the pod. It takes the pod's lock, forks the supervisor as the first process of
new namespaces, writes `supervisor.json` (pid, start time, boot ID: enough to distinguish it from a later
process of the same number), and only then lets it go on. Exits 0 when the pod can take containers, else 1
with the reason on standard error. The supervisor holds the lock as long as it lives: there is never a second
one.

Then it serves `control.sock` in the pod's directory: requests are JSON lines, {"start": ContainerRequest} or
{"signal": {"container", "signal"}}; each client that connects gets the whole state at once, and after each
change.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import sys
import time

from mooring.node.supervisor import ALREADY_STARTED, rootfs, syscalls
from mooring.node.supervisor.complaints import complain
from mooring.node.supervisor.container import Container, new_record
from mooring.node.supervisor.descriptors import accepted
from mooring.node.supervisor.exec import ExecServer
from mooring.node.supervisor.logs import LogStream
from mooring.node.supervisor.network import enter_network
from mooring.node.supervisor.protocol import BadRequest, requests_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from mooring.node.supervisor.container import ContainerRecord
    from mooring.node.supervisor.network import Network
    from mooring.node.supervisor.protocol import ContainerRequest

    class PodRequest(rootfs.PodRoot):
        hostname: str
        bootID: str  # noqa: N815 - as in JSON
        network: Network | None


def main() -> None:
    """Starts the pod that standard input describes; nothing, if it ends without a word of the pod."""
    network: Network | None = json.loads(sys.stdin.buffer.readline() or "null")
    if network is not None:
        enter_network(network)
    document = sys.stdin.buffer.read()
    if not document:
        return
    pod: PodRequest = json.loads(document)
    _lock(pod["directory"])
    go_out, go_in = os.pipe()
    ready_out, ready_in = os.pipe()
    syscalls.unshare(
        syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWUTS | syscalls.CLONE_NEWIPC
    )
    pid = os.fork()
    if pid == 0:
        os.close(go_in)
        os.close(ready_out)
        _supervise(pod, go_out, ready_in)
    os.close(ready_in)
    # The supervisor waits for `go` until its identity is on disk. If this process dies in between, the pipe
    # ends and so does the supervisor: a supervisor that no agent could find again would be a second pod.
    identity = {"pid": pid, "startTime": _start_time(pid), "bootID": pod["bootID"]}
    _replace(os.path.join(pod["directory"], "supervisor.json"), json.dumps(identity))
    os.write(go_in, b"1")
    answer = os.read(ready_out, 4096).decode(errors="replace")
    if answer != "ready":
        sys.exit(answer or "the pod's supervisor ended before it was ready")


def _lock(directory: str) -> None:
    """Taken for the life of this process and of the supervisor, which inherits the descriptor."""
    descriptor = os.open(f"{directory}/lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.write(2, b"another supervisor of this pod is running or being started")
        sys.exit(ALREADY_STARTED)


def _start_time(pid: int) -> int:
    """Clock ticks from the machine's boot to the start of the process: with the pid, its identity."""
    with open(f"/proc/{pid}/stat", "rb") as stat:
        return int(stat.read().rpartition(b")")[2].split()[19])


def _supervise(pod: PodRequest, go: int, ready: int) -> NoReturn:
    """The first process of the pod. If the launcher does not send the pod it ends at once: no agent would
    know of it."""
    code = 1
    try:
        os.setsid()
        if os.read(go, 1):
            _redirect_standard_streams(pod["directory"])
            syscalls.sethostname(pod["hostname"])
            address = pod["network"]["address"] if pod["network"] is not None else ""
            supervisor = Supervisor(rootfs.enter_pod_root(pod), pod["masks"], address)
            os.write(ready, b"ready")
            os.close(ready)
            supervisor.run()
    except Exception as error:
        complain(f"supervisor: {type(error).__name__}: {error} ({_where(error)})")
        os.write(ready, f"cannot prepare the pod's file system: {error}".encode())
    finally:
        os._exit(code)


def _where(error: BaseException) -> str:
    """Function and line of each frame: no module can be imported any more, so no `traceback`."""
    frames: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(f"{trace.tb_frame.f_code.co_name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return " > ".join(frames)


def _redirect_standard_streams(directory: str) -> None:
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    log = os.open(f"{directory}/supervisor.log", os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o640)
    for descriptor, number in ((null, 0), (null, 1), (log, 2)):
        os.dup2(descriptor, number)


def _replace(path: str, text: str) -> None:
    """Writes a small file so that a reader sees the old or the new, never a part."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{path}.new", path)


def earlier_sandboxes(directory: str) -> tuple[int, dict[str, ContainerRecord]]:
    """This sandbox's number, and what is known of the pod's containers from earlier ones: all of them have
    ended. Nothing is known if the machine lost its power before the file was on its disk."""
    try:
        with open(f"{directory}/state.json", encoding="utf-8") as file:
            state: dict[str, Any] = json.load(file)
        records: dict[str, ContainerRecord] = state["containers"]
        number = int(state["number"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return 0, {}
    for record in records.values():
        if record["exitCode"] is None:
            record.update(exitCode=128 + signal.SIGKILL, signal=int(signal.SIGKILL), finishedAt=time.time())
    return number + 1, records


def _ignore(number: int, frame: object) -> None:
    """A signal that has a handler wakes the event loop."""


class Supervisor:
    """The event loop: children, requests, output."""

    def __init__(self, mode: str, masks: list[str], address: str) -> None:
        self._mode = mode
        self._address = address
        self._masks = masks
        self._number, self._records = earlier_sandboxes("/pod")
        self._by_pid: dict[int, Container] = {}
        self._handlers: dict[int, Callable[[], None]] = {}
        self._clients: list[socket.socket] = []
        self._poll = select.poll()
        self._listen()  # before the first state is saved: an agent that reads it connects at once
        self._exec = ExecServer(self._register, self._unregister, self._running)
        self._watch_children()
        self._save()

    def run(self) -> NoReturn:
        while True:
            for descriptor, _ in self._poll.poll():
                handler = self._handlers.get(descriptor)
                if handler is not None:  # an earlier one of this round may have closed it
                    handler()

    def _register(self, descriptor: int, handler: Callable[[], None]) -> None:
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, select.POLLIN)

    def _unregister(self, descriptor: int) -> bool:
        """False if it was not registered (any more)."""
        if self._handlers.pop(descriptor, None) is None:
            return False
        self._poll.unregister(descriptor)
        return True

    # --- containers

    def _start(self, request: ContainerRequest) -> None:
        name, attempt = request["name"], request["attempt"]
        known = self._records.get(name)
        if known is not None and (known["attempt"] >= attempt or known["exitCode"] is None):
            return
        record = new_record(request, self._number, known)
        try:
            container = Container(request, record, self._mode, self._masks)
        except OSError as error:
            self._records[name] = new_record(request, self._number, known, f"container {name}: {error}")
            self._publish()
            return
        self._records[name] = record
        self._by_pid[container.pid] = container
        self._register(container.start_pipe, lambda: self._started(container))
        for stream in container.streams:
            self._register(stream.pipe, lambda stream=stream: self._read_stream(stream))

    def _started(self, container: Container) -> None:
        self._unregister(container.start_pipe)
        if container.take_start():
            self._publish()

    def _signal(self, name: str, number: int) -> None:
        container = self._running(name)
        if container is not None and 0 < number < signal.NSIG:
            os.kill(container.pid, number)

    def _running(self, name: str) -> Container | None:
        # Clients name a container, never a pid: the number may be another process's by the time they send it.
        return next((each for each in self._by_pid.values() if each.record is self._records.get(name)), None)

    def _watch_children(self) -> None:
        wake, wake_in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, _ignore)
        signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
        self._register(wake, lambda: self._reap(wake))

    def _reap(self, wake: int) -> None:
        os.read(wake, 4096)
        while True:  # signals of one kind are merged: one SIGCHLD may stand for many children
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._by_pid:
                self._exited(self._by_pid.pop(pid), status)
            else:  # or an orphan of some container, adopted and now reaped
                self._exec.exited(pid, status)

    def _exited(self, container: Container, status: int) -> None:
        if self._unregister(container.start_pipe):
            container.take_start()
        container.end_group()  # before the pipes are closed: a child that it left holds them open
        for stream in container.streams:
            self._unregister(stream.pipe)
            stream.close()
        container.ended(status)
        self._publish()

    def _read_stream(self, stream: LogStream) -> None:
        if stream.read() == 0:
            self._unregister(stream.pipe)
            stream.close()

    # --- clients

    def _listen(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink("/pod/control.sock")  # an earlier sandbox's
        listener = socket.socket(socket.AF_UNIX)
        listener.bind("/pod/control.sock")
        listener.listen()
        self._register(listener.fileno(), lambda: self._accept(listener))

    def _accept(self, listener: socket.socket) -> None:
        if (client := accepted(listener)) is None:
            return
        received = bytearray()
        self._clients.append(client)
        self._register(client.fileno(), lambda: self._read_client(client, received))
        self._send(client)

    def _read_client(self, client: socket.socket, received: bytearray) -> None:
        data = self._receive(client)
        if not data:
            self._drop(client)
            return
        received += data
        try:
            for request in requests_of(received):
                self._serve(request)
        except BadRequest as error:
            complain(f"a client is let go: {error}")
            self._drop(client)

    def _receive(self, client: socket.socket) -> bytes:
        try:
            return client.recv(65536)
        except OSError:
            return b""  # the agent died in the middle: the same as its leaving

    def _serve(self, request: dict[str, Any]) -> None:
        if "start" in request:
            self._start(request["start"])
        elif "signal" in request:
            self._signal(request["signal"]["container"], request["signal"]["signal"])

    def _publish(self) -> None:
        self._save()
        for client in list(self._clients):
            self._send(client)

    def _state(self) -> str:
        own = {"number": self._number, "rootfs": self._mode, "address": self._address}
        return json.dumps({**own, "containers": self._records})

    def _save(self) -> None:
        # Clients name a container, never a pid: that number may be another process by the time they send it.
        # another boot ID says that nothing of it runs.
        try:
            _replace("/pod/state.json", self._state())
        except OSError as error:
            complain(f"state not written: {error}")

    def _send(self, client: socket.socket) -> None:
        try:
            client.sendall(self._state().encode() + b"\n")
        except OSError:
            self._drop(client)

    def _drop(self, client: socket.socket) -> None:
        self._unregister(client.fileno())
        self._clients.remove(client)
        client.close()

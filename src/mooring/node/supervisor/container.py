"""One container: its process, its log, its exit. Standard library only.

A log line is `<RFC 3339 time with nanoseconds, UTC> <stdout|stderr> <F|P> <text>`, the format that Kubernetes' tools
read; P marks a line that goes on in the next entry. A log that cannot be written (disk full) loses lines, it never
stops the container.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from mooring.node.supervisor import rootfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, TypedDict

    class ContainerRequest(TypedDict):
        name: str
        attempt: int
        argv: list[str]
        env: dict[str, str]
        workingDir: str
        image: str | None
        mounts: list[rootfs.Mount]

    class ContainerRecord(TypedDict):
        """What is known of an attempt: times in seconds since the epoch, `exitCode` None while it runs. `sandbox` is
        the number of the pod's sandbox that it was made in; `last` is the attempt before."""

        attempt: int
        sandbox: int
        startedAt: float
        finishedAt: float | None
        exitCode: int | None
        signal: int
        error: str
        last: ContainerRecord | None


START_ERROR = 128  # the exit code of a container whose process could not be started
LOG_ENTRY_LIMIT = 16384  # bytes; a longer line is cut into partial entries


class LogStream:
    """Turns one output pipe into log entries."""

    def __init__(self, pipe: int, name: str, log: int) -> None:
        self.pipe = pipe
        self._name = name.encode()
        self._log = log
        self._rest = b""
        self.closed = False

    def read(self) -> int | None:
        """Takes what the pipe has; the number of bytes, 0 at its end, None if there is nothing now."""
        try:
            data = os.read(self.pipe, 65536)
        except BlockingIOError:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        entries = [entry for line in lines for entry in self._entries(line)]
        while len(self._rest) > LOG_ENTRY_LIMIT:
            entries.append((b"P", self._rest[:LOG_ENTRY_LIMIT]))
            self._rest = self._rest[LOG_ENTRY_LIMIT:]
        self._write(entries)
        return len(data)

    def close(self) -> None:
        if self._rest:
            self._write([(b"F", self._rest)])
        os.close(self.pipe)
        self.closed = True

    def _entries(self, line: bytes) -> list[tuple[bytes, bytes]]:
        cuts = [line[at : at + LOG_ENTRY_LIMIT] for at in range(0, len(line), LOG_ENTRY_LIMIT)] or [b""]
        return [(b"P", cut) for cut in cuts[:-1]] + [(b"F", cuts[-1])]

    def _write(self, entries: list[tuple[bytes, bytes]]) -> None:
        stamp = timestamp(time.time_ns())
        text = b"".join(b"%s %s %s %s\n" % (stamp, self._name, tag, line) for tag, line in entries)
        try:
            os.write(self._log, text)
        except OSError as error:
            os.write(2, f"log lines lost: {error}\n".encode())


def timestamp(nanoseconds: int) -> bytes:
    """RFC 3339 in UTC with nanoseconds."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09d}Z").encode()


def new_record(attempt: int, sandbox: int, last: ContainerRecord | None, error: str = "") -> ContainerRecord:
    """The record of an attempt that begins now or, with `error`, could not begin."""
    now = time.time()
    if last is not None:
        last = {**last, "last": None}
    return {
        "attempt": attempt,
        "sandbox": sandbox,
        "last": last,
        "startedAt": now,
        "finishedAt": now if error else None,
        "exitCode": START_ERROR if error else None,
        "signal": 0,
        "error": error,
    }


class Container:
    """A container process, which completes its `record`. Raises `OSError` if it cannot be forked."""

    def __init__(self, request: ContainerRequest, record: ContainerRecord, mode: str, masks: list[str]) -> None:
        self._log = os.open(
            f"/pod/logs/{request['name']}.log", os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o640
        )
        self.start_pipe, errors = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        out, out_in = os.pipe2(os.O_CLOEXEC)
        err, err_in = os.pipe2(os.O_CLOEXEC)
        self.record = record
        self.pid = os.fork()
        if self.pid == 0:
            _become(request, mode, masks, (out_in, err_in, errors))
        for descriptor in (out_in, err_in, errors):
            os.close(descriptor)
        for descriptor in (out, err):
            os.set_blocking(descriptor, False)
        self._streams = (LogStream(out, "stdout", self._log), LogStream(err, "stderr", self._log))

    @property
    def streams(self) -> list[LogStream]:
        """Those that may still bring output."""
        return [stream for stream in self._streams if not stream.closed]

    def take_start(self) -> bool:
        """Call once, when `start_pipe` is readable or the process has ended: True if its own program was started."""
        with contextlib.suppress(BlockingIOError):  # killed before it could say anything
            self.record["error"] = os.read(self.start_pipe, 4096).decode(errors="replace")
        os.close(self.start_pipe)
        return not self.record["error"]

    def ended(self, status: int) -> None:
        """The process is reaped and `streams` are closed: completes the record."""
        code = os.waitstatus_to_exitcode(status)
        self.record["finishedAt"] = time.time()
        self.record["signal"] = max(0, -code)
        self.record["exitCode"] = START_ERROR if self.record["error"] else code if code >= 0 else 128 - code
        os.close(self._log)

    def end_group(self) -> None:
        """Ends what the process left behind in its process group, and takes the output that is still in the pipes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        for stream in self.streams:
            for _ in range(64):  # no more than a pipe holds: a process that left the group may go on writing
                if not stream.read():
                    break


def _become(request: ContainerRequest, mode: str, masks: list[str], pipes: tuple[int, int, int]) -> NoReturn:
    """In the child: turns into the container's program, or reports why not and exits."""
    out, err, errors = pipes
    try:
        os.setsid()
        rootfs.enter_container_root(request["image"], mode, request["mounts"], masks)
        os.makedirs(request["workingDir"], exist_ok=True)
        os.chdir(request["workingDir"])
        null = os.open("/dev/null", os.O_RDONLY)
        for descriptor, number in ((null, 0), (out, 1), (err, 2)):
            os.dup2(descriptor, number)
        for number in (signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(request["argv"][0], request["argv"], request["env"])
    except FileNotFoundError as error:
        os.write(errors, _not_found(request, error).encode())
    except Exception as error:
        os.write(errors, f"container {request['name']}: {error}".encode())
    finally:
        os._exit(START_ERROR)


def _not_found(request: ContainerRequest, error: FileNotFoundError) -> str:
    name, command = request["name"], request["argv"][0]
    missing = os.fsdecode(error.filename) if error.filename is not None else command
    if os.path.basename(missing) != os.path.basename(command):
        return f"container {name}: {error}"
    return (
        f"container {name}: command {command!r} (or its interpreter) does not exist in the container's file system: "
        "correct `command` or `image`"
    )

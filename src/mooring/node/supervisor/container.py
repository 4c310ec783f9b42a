"""One container: its process, its exit, its last words. Standard library only.

What it writes to its termination message file, or else (`messageFromLogs`) the end of the log of an attempt
that failed, is its record's `message`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from functools import partial

from mooring.node.supervisor import START_ERROR, program, rootfs
from mooring.node.supervisor.descriptors import Descriptors
from mooring.node.supervisor.logs import Log, LogStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    from mooring.node.supervisor.protocol import ContainerRequest

    class ContainerRecord(TypedDict):
        """What is known of an attempt: times in seconds since the epoch, `exitCode` None while it runs.
        `sandbox` is the number of the pod's sandbox that it was made in; `last` is the attempt before.
        `stopSignal` is the number of the signal that asks it to end: it is kept for the agent."""

        attempt: int
        sandbox: int
        startedAt: float
        finishedAt: float | None
        exitCode: int | None
        signal: int
        error: str
        message: str
        last: ContainerRecord | None
        stopSignal: int


MESSAGE_LIMIT = 4096  # bytes of a termination message
MESSAGE_FROM_LOG = 2048  # bytes of the log that stand for a message that was not written


def new_record(
    request: ContainerRequest, sandbox: int, last: ContainerRecord | None, error: str = ""
) -> ContainerRecord:
    """The record of an attempt that begins now or, with `error`, could not begin."""
    now = time.time()
    if last is not None:
        last = {**last, "last": None}
    return {
        "attempt": request["attempt"],
        "sandbox": sandbox,
        "last": last,
        "startedAt": now,
        "finishedAt": now if error else None,
        "exitCode": START_ERROR if error else None,
        "signal": 0,
        "error": error,
        "message": "",
        "stopSignal": request.get("stopSignal", int(signal.SIGTERM)),
    }


class Container:
    """A container process, which completes its `record`. Raises `OSError` if it cannot be forked."""

    def __init__(
        self, request: ContainerRequest, record: ContainerRecord, mode: str, masks: list[str]
    ) -> None:
        self.request = request
        self.record = record
        self.started = False
        with Descriptors() as opened:
            self._log = Log("/pod/logs", request["name"], request["attempt"])
            opened.callback(self._log.close)
            self._message = _new_message(request["name"])
            self.start_pipe, errors = opened.pipe(os.O_NONBLOCK)
            out, out_in = opened.pipe()
            err, err_in = opened.pipe()
            self.pid = os.fork()
            if self.pid == 0:
                enter = partial(_enter, request, mode, masks, out_in, err_in)
                program.become(request, request["argv"], request["env"], errors, enter)
            opened.pop_all()
        # The supervisor must not hold the ends that are written to: the pipes would never end.
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
        """To be called once, when `start_pipe` is readable or the process has ended. Whether its own program
        was started."""
        with contextlib.suppress(BlockingIOError):  # killed before it could say anything
            self.record["error"] = os.read(self.start_pipe, 4096).decode(errors="replace")
        os.close(self.start_pipe)
        self.started = not self.record["error"]
        return self.started

    def ended(self, status: int) -> None:
        """The process is reaped and `streams` are closed: completes the record."""
        code = os.waitstatus_to_exitcode(status)
        self.record["finishedAt"] = time.time()
        self.record["signal"] = max(0, -code)
        self.record["exitCode"] = START_ERROR if self.record["error"] else code if code >= 0 else 128 - code
        self.record["message"] = self._last_words()
        self._log.close()

    def _last_words(self) -> str:
        try:
            with open(self._message, "rb") as file:
                message = file.read(MESSAGE_LIMIT).decode(errors="replace")
            if not message and self.record["exitCode"] and self.request["messageFromLogs"]:
                return self._log.tail(MESSAGE_FROM_LOG)
        except OSError as error:
            return f"termination message not read: {error}"
        return message

    def end_group(self) -> None:
        """Ends what the process left behind in its process group, and takes the output that is still in the
        pipes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        for stream in self.streams:
            for _ in range(64):  # no more than a pipe holds: a process that left the group may go on writing
                if not stream.read():
                    break


def _enter(
    request: ContainerRequest, mode: str, masks: list[str], out: int, err: int
) -> tuple[int, int, int]:
    """In the child: makes the container's root this process's; returns its standard streams."""
    files = {request["messagePath"]: f"/pod/messages/{request['name']}"} if request["messagePath"] else {}
    rootfs.enter_container_root(request["image"], mode, request["mounts"], masks, files)
    os.makedirs(request["workingDir"], exist_ok=True)
    os.chdir(request["workingDir"])
    if request["readOnlyRoot"]:
        rootfs.make_root_read_only()
    return os.open("/dev/null", os.O_RDONLY), out, err


def _new_message(name: str) -> str:
    """An empty termination message that any user of the container may write."""
    path = f"/pod/messages/{name}"
    with open(path, "wb"):
        os.chmod(path, 0o666)  # nosec B103 # that is its purpose, as upstream's
    return path

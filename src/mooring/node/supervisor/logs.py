"""A container's log: what its program writes to standard output and standard error. Standard library only.

A log line is `<RFC 3339 time with nanoseconds, UTC> <stdout|stderr> <F|P> <text>`, the format that
Kubernetes' tools read; P marks a line that goes on in the next entry. Each attempt has its own file,
`NAME.ATTEMPT.log`, with one older part `NAME.ATTEMPT.log.1` when it has grown; attempts before the last but
one are forgotten. A log that cannot be written (disk full) loses lines, it never stops the container.
"""

from __future__ import annotations

import contextlib
import os
import time

from mooring.node.supervisor.complaints import complain

LOG_ENTRY_LIMIT = 16384  # bytes; a longer line is cut into partial entries
LOG_SIZE_LIMIT = 10 * 1024 * 1024  # bytes of one file, as the kubelet's containerLogMaxSize


class Log:
    """The file of one attempt, and its rotation."""

    def __init__(self, directory: str, name: str, attempt: int, limit: int = LOG_SIZE_LIMIT) -> None:
        _forget(directory, name, attempt)
        self.path = f"{directory}/{name}.{attempt}.log"
        self._limit = limit
        self._open()

    def _open(self) -> None:
        self._file = os.open(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o640)
        self._size = os.fstat(self._file).st_size

    def write(self, text: bytes) -> None:
        """Appends whole entries."""
        try:
            if self._size and self._size + len(text) > self._limit:
                self._begin_anew()
            self._size += os.write(self._file, text)
        except OSError as error:
            # A full disk must not block the pipe: the program would hang in its next print.
            complain(f"log lines lost: {error}")

    def _begin_anew(self) -> None:
        """What was opened stays open until there is another: its number would be the next descriptor's."""
        with contextlib.suppress(FileNotFoundError):  # moved before, when no other could be made
            os.replace(self.path, f"{self.path}.1")
        former = self._file
        self._open()
        os.close(former)

    def close(self) -> None:
        os.close(self._file)

    def tail(self, size: int) -> str:
        """The text of the last entries, at most `size` bytes of it."""
        with open(self.path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2 * size - LOG_ENTRY_LIMIT))
            lines = file.read().split(b"\n")
        texts = [line.split(b" ", 3)[3] for line in lines if line.count(b" ") >= 3]
        return b"\n".join(texts)[-size:].decode(errors="replace")


def _forget(directory: str, name: str, attempt: int) -> None:
    """Removes the logs of the attempts before the last one."""
    for entry in os.listdir(directory):
        owner, number = [*entry.split("."), ""][:2]
        if owner == name and number.isdigit() and int(number) < attempt - 1:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{directory}/{entry}")


class LogStream:
    """Turns one output pipe into log entries."""

    def __init__(self, pipe: int, name: str, log: Log) -> None:
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
        if entries:
            stamp = timestamp(time.time_ns())
            self._log.write(
                b"".join(b"%s %s %s %s\n" % (stamp, self._name, tag, line) for tag, line in entries)
            )


def timestamp(nanoseconds: int) -> bytes:
    """RFC 3339 in UTC with nanoseconds."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:09d}Z").encode()

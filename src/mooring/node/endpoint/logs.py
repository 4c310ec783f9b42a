"""What a container wrote, as a stream of text: selected, cut, and followed while it grows.

The log's format is `mooring.node.supervisor.logs`'. The options are those of the API's `pods/log`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from mooring.kube.times import format_time, parse_time
from mooring.mounts.blocking import blocking
from mooring.node.inotify import IN_CREATE, IN_MODIFY, IN_MOVED_TO, Inotify

PIECE = 256 * 1024


class BadLogOptions(ValueError):
    """An option of the request has a value that it cannot have; the message names it."""


@dataclass(frozen=True)
class LogOptions:
    """Which entries are shown, and how. `since` is a stamp (RFC 3339, UTC)."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: str = ""
    limit: int | None = None
    stream: str = "All"


def read_options(query: Mapping[str, str], now: datetime) -> LogOptions:
    """The options of a request. Raises `BadLogOptions`."""
    since = query.get("sinceTime", "")
    seconds = _number(query, "sinceSeconds")
    if seconds is not None:
        since = format_time(now - timedelta(seconds=seconds))
    try:
        since = format_time(parse_time(since)) if since else ""
    except ValueError:
        raise BadLogOptions(f"sinceTime: {since!r} is not a time (RFC 3339)") from None
    return LogOptions(
        follow=_flag(query, "follow"),
        previous=_flag(query, "previous"),
        timestamps=_flag(query, "timestamps"),
        tail=_number(query, "tailLines"),
        since=since,
        limit=_number(query, "limitBytes"),
        stream=query.get("stream") or "All",
    )


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "false").lower() not in ("false", "0")


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not text.isdigit():
        raise BadLogOptions(f"{name}: {text!r} is not a whole number of at least 0")
    return int(text)


def entries(lines: Iterable[bytes], options: LogOptions) -> Iterator[bytes]:
    """The text of the entries that are shown. A line may be cut into several entries."""
    begins = True
    for line in lines:
        stamp, _, rest = line.partition(b" ")
        stream, _, rest = rest.partition(b" ")
        tag, _, text = rest.partition(b" ")
        if tag not in (b"F", b"P") or (options.stream != "All" and stream.decode().title() != options.stream):
            continue
        if options.since and stamp[:19].decode() < options.since[:19]:
            continue
        prefix = stamp + b" " if options.timestamps and begins else b""
        begins = tag == b"F"
        yield prefix + text + (b"\n" if begins else b"")


def last_lines(texts: Iterable[bytes], count: int) -> list[bytes]:
    """The last `count` whole lines (a line may come in several pieces)."""
    lines: deque[bytes] = deque(maxlen=count)
    rest = b""
    for text in texts:
        rest += text
        if rest.endswith(b"\n"):
            lines.append(rest)
            rest = b""
    return [*lines, *([rest] if rest and count else [])]


class _Growing:
    """The file of a log that may still grow, and be replaced by a new one when it is too large."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._rest = b""

    def lines(self) -> list[bytes]:
        """The whole lines that are new since the last call."""
        lines = self._read()
        while self._replaced():
            self.close()
            lines += self._read()
        return lines

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _read(self) -> list[bytes]:
        if self._file is None:
            try:
                self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return []
        data = self._rest
        while piece := os.read(self._file, PIECE):
            data += piece
        *lines, self._rest = data.split(b"\n")
        return lines

    def _replaced(self) -> bool:
        if self._file is None:
            return False
        with contextlib.suppress(FileNotFoundError):
            return self._path.stat().st_ino != os.fstat(self._file).st_ino
        return False


async def read_log(
    files: list[Path], options: LogOptions, changed: asyncio.Event, ended: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    """The text, piece by piece. With `follow` until `ended()`; `changed` is set when that may have
    changed."""
    *older, path = files
    growing = _Growing(path)
    watch: Inotify | None = None
    left = options.limit
    try:
        if options.follow:
            watch = Inotify([path.parent], IN_MODIFY | IN_CREATE | IN_MOVED_TO, changed.set)
        over = not options.follow or ended()
        text = await blocking(_first, older, growing, options)
        while True:
            if text:
                yield text if left is None else text[:left]
                left = None if left is None else left - len(text)
            if over or (left is not None and left <= 0):
                return
            await changed.wait()
            changed.clear()
            over = ended()  # asked before the last read
            text = b"".join(entries(growing.lines(), options))
    finally:
        growing.close()
        if watch is not None:
            watch.close()


def _first(older: list[Path], growing: _Growing, options: LogOptions) -> bytes:
    """What is there already."""
    lines: list[bytes] = []
    for path in older:
        with contextlib.suppress(FileNotFoundError):
            lines += path.read_bytes().split(b"\n")
    shown = entries([*lines, *growing.lines()], options)
    return b"".join(shown if options.tail is None else last_lines(shown, options.tail))

"""A trace of every call of a driver: a line of JSON for each in a file, without secrets; and its display.

Several processes append to one file, so each line is written with one system call. One that cannot be
written (a full disk) is lost: the call has its answer all the same. A file that has grown begins anew, and
one older part of it is kept.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from mooring.csi.client import Exchange
from mooring.csi.errors import Code

LARGEST = 64 * 1024 * 1024
"""Bytes of one part: drivers are asked all the time how full their volumes are."""
LONGEST = 160
"""Characters of a request or reply that `shown` prints."""


def tracer(path: Path, caller: str, now: Callable[[], datetime]) -> Callable[[str, Exchange], None]:
    """Returns a function that appends a call to the file; `caller` is a node's name, or "controller"."""

    def observe(driver: str, exchange: Exchange) -> None:
        line = {
            "time": now().isoformat(timespec="milliseconds"),
            "driver": driver,
            "caller": caller,
            "method": exchange.method,
            "code": str(exchange.code),
            "message": exchange.message,
            "seconds": round(exchange.duration_s, 6),
            "request": exchange.request(),
            "reply": exchange.reply(),
        }
        with contextlib.suppress(OSError):
            append(path, json.dumps(line, default=str))

    return observe


def append(path: Path, line: str) -> None:
    """Appends one line to the file, with one write(2). Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
        if os.fstat(descriptor).st_size > LARGEST and _is_still(path, descriptor):
            os.replace(path, older_part(path))
    finally:
        os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether the file at the path is the one that is open: another process may have moved it."""
    return os.path.samestat(os.stat(path), os.fstat(descriptor))


def older_part(path: Path) -> Path:
    """Where the part before the present one is, if there is one."""
    return path.with_name(f"{path.name}.1")


def read(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The calls of a file's lines, without a last line that is still being written."""
    for line in lines:
        if line.endswith("\n"):
            yield json.loads(line)


def call_line(call: dict[str, Any]) -> str:
    """A call on one line: time, caller, method, duration, outcome."""
    time = str(call["time"])[11:23]
    outcome = call["code"] if call["code"] == str(Code.OK) else f"{call['code']}: {call['message']}"
    return f"{time}  {call['caller']:<12} {call['method']:<26} {call['seconds'] * 1000:>8.1f} ms  {outcome}"


def shown(call: dict[str, Any]) -> str:
    """The same, with the request and the reply below it."""
    head = call_line(call)
    request, reply = _brief(call["request"]), _brief(call["reply"])
    return head + (f"\n{'':14}{request}" if request else "") + (f"\n{'':11}-> {reply}" if reply else "")


def _brief(values: dict[str, Any]) -> str:
    text = ", ".join(f"{key}={_value(value)}" for key, value in values.items())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)

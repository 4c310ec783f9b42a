"""A trace of every call of a driver: a line of JSON for each in a file, without secrets; and its display.

Several processes append to one file, so each line is written with one system call.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from mooring.csi.client import Exchange
from mooring.csi.errors import Code

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
        append(path, json.dumps(line, default=str))

    return observe


def append(path: Path, line: str) -> None:
    """Appends one line to the file, with one write(2)."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


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

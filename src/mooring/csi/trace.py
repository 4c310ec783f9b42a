"""Every call of a driver as a line of JSON in a file, without secrets; and those lines for people.

Several processes append to one file: a line is written with one system call.
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
"""Characters of a request or answer on a line for people."""


def tracer(path: Path, caller: str, now: Callable[[], datetime]) -> Callable[[str, Exchange], None]:
    """Appends each call of a driver by `caller` (a node's name, or "controller") to the file."""

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
    """One line, whole."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def read(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The calls of a file's lines; a last line that is being written is left out."""
    for line in lines:
        if line.endswith("\n"):
            yield json.loads(line)


def call_line(call: dict[str, Any]) -> str:
    """A call on one line: when, by whom, what, how long, how it ended."""
    time = str(call["time"])[11:23]
    outcome = call["code"] if call["code"] == str(Code.OK) else f"{call['code']}: {call['message']}"
    return f"{time}  {call['caller']:<12} {call['method']:<26} {call['seconds'] * 1000:>8.1f} ms  {outcome}"


def shown(call: dict[str, Any]) -> str:
    """The same, with what was asked and answered below it."""
    head = call_line(call)
    asked, answered = _brief(call["request"]), _brief(call["reply"])
    return head + (f"\n{'':14}{asked}" if asked else "") + (f"\n{'':11}-> {answered}" if answered else "")


def _brief(values: dict[str, Any]) -> str:
    text = ", ".join(f"{key}={_value(value)}" for key, value in values.items())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)

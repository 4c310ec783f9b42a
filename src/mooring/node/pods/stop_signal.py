"""The signal that asks a container to end, from the words of its image or its pod. Pure.

Rules: the OCI image specification (`StopSignal` is a name as `SIGKILL` or `SIGRTMIN+3`), and what upstream's
runtimes take beside that: a name in small letters or without SIG, and a number. The real-time signals are
those of glibc, 34 to 64.
"""

from __future__ import annotations

import signal

LONGEST = 16
"""Characters; the longest name is SIGRTMIN+30."""
_HINT = "use a name as SIGQUIT or SIGRTMIN+3, or a number from 1 to 64"


def signal_number(text: str) -> int:
    """The number of the signal, from 1 to 64. Raises `ValueError` for what names none."""
    if len(text) > LONGEST or not text.isascii():
        raise ValueError(f"{text[:LONGEST]!r}... names no signal: {_HINT}")
    number = int(text) if text.isdigit() else _named(f"SIG{text.upper().removeprefix('SIG')}")
    if not 0 < number < signal.NSIG:
        raise ValueError(f"{text!r} names no signal: {_HINT}")
    return number


def _named(name: str) -> int:
    """0 for what is no name."""
    first, last = int(signal.SIGRTMIN), int(signal.SIGRTMAX)
    for prefix, base, sign in (("SIGRTMIN+", first, 1), ("SIGRTMAX-", last, -1)):
        offset = name.removeprefix(prefix)
        if offset != name:
            number = base + sign * int(offset) if offset.isdigit() else 0
            return number if first <= number <= last else 0
    return int(signal.Signals.__members__.get(name, 0))

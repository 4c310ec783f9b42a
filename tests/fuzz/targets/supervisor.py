"""A supervisor's protocol: requests are taken or refused, and the same in whatever pieces they arrive; states
too."""

from __future__ import annotations

import msgspec

from mooring.node.process_runtime import _State
from mooring.node.supervisor.protocol import BadRequest, requests_of

SEEDS = [
    b'{"start": {"name": "c", "attempt": 0}}\n{"signal": {"container": "c", "signal": 9}}\n',
    b'{"number": 1, "rootfs": "host", "address": "", "containers": {}}\n',
    b"[]\n{}\n",
    b'{"signal": 5}\n',
]


def _taken(pieces: list[bytes]) -> list[object] | None:
    received, found = bytearray(), list[object]()
    try:
        for piece in pieces:
            received += piece
            found += requests_of(received)
    except BadRequest:
        return None
    return found


def check(data: bytes) -> None:
    whole = _taken([data])
    assert _taken([data[at : at + 7] for at in range(0, len(data), 7)]) == whole
    for line in data.split(b"\n"):
        try:
            state = msgspec.json.decode(line, type=_State)
        except (msgspec.DecodeError, ValueError):
            continue
        state.sandbox(running=True)

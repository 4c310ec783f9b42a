"""The requests to a supervisor: lines of JSON, parsed and checked before anything acts on them. Pure.

Standard library only.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NotRequired, TypedDict

    from mooring.node.supervisor.rootfs import Mount

    class ContainerRequest(TypedDict):
        """What `start` asks for: one attempt of a container."""

        name: str
        attempt: int
        argv: list[str]
        env: dict[str, str]
        workingDir: str
        image: str | None
        mounts: list[Mount]
        user: str
        groups: list[int]
        readOnlyRoot: bool
        noNewPrivileges: bool
        messagePath: str
        messageFromLogs: bool
        stopSignal: NotRequired[int]


LONGEST_LINE = 1 << 20
"""Bytes; no request of an agent is nearly as long."""
_START = {"name": str, "attempt": int}
_SIGNAL = {"container": str, "signal": int}


class BadRequest(ValueError):
    """The line is no request: its sender is no agent, or one of another version."""


def requests_of(received: bytearray) -> list[dict[str, Any]]:
    """The requests that are whole in what was received, which keeps the rest. Raises BadRequest."""
    *lines, rest = bytes(received).split(b"\n")
    if max(map(len, (*lines, rest))) > LONGEST_LINE:
        raise BadRequest(f"a line has more than {LONGEST_LINE} bytes")
    received[:] = rest
    return [_request(line) for line in lines]


def _request(line: bytes) -> dict[str, Any]:
    try:
        request: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"a line is no JSON: {error}") from error
    if not isinstance(request, dict):
        raise BadRequest("a line holds no object")
    for verb, fields in (("start", _START), ("signal", _SIGNAL)):
        if verb in request:
            _check(verb, request[verb], fields)
    return request  # pyright: ignore[reportUnknownVariableType]


def _check(verb: str, body: Any, fields: dict[str, type]) -> None:
    if not isinstance(body, dict) or not all(type(body.get(name)) is kind for name, kind in fields.items()):  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        raise BadRequest(
            f"{verb} needs {', '.join(f'{name} ({kind.__name__})' for name, kind in fields.items())}"
        )

"""The words that `mooring node …` says to the `mooring up` that runs, over a Unix socket in the data
directory.

One JSON object each way on a line: `{"command": "cut", "node": "node-1", "options": {"far": "api"}}` →
`{"message": …}` or `{"error": …}`. A line has at most 64 KiB. What the words mean is the handler's to say.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard, cast

import structlog

from mooring.cluster.layout import ClusterError
from mooring.mounts.machine_ports import short_path

log = structlog.get_logger(component="cluster")

MOST_OPTIONS = 16
LONGEST_WORD = 253
"""Characters; the longest name of a Kubernetes object."""
LONGEST_TEXT = 8192
"""Characters of an option."""

Handler = Callable[[str, str, Mapping[str, Any]], Awaitable[str]]
"""Takes command, node and options (words and numbers by name); returns a message for the user; raises
ClusterError."""


@dataclass(frozen=True)
class Words:
    """One command as it was said."""

    command: str
    node: str
    options: Mapping[str, Any]


def parse(line: bytes) -> Words:
    """One line of a client. Raises ClusterError for anything that is no command."""
    try:
        said: Any = json.loads(line)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise ClusterError("a command is one line with a JSON object")
    words = cast("dict[str, Any]", said)
    command, node, options = words.get("command"), words.get("node"), words.get("options", {})
    if not _is_word(command) or not _is_word(node):
        raise ClusterError("a command is an object with the words `command` and `node`")
    if not isinstance(options, dict) or len(cast("dict[str, Any]", options)) > MOST_OPTIONS:
        raise ClusterError(f"`options` is an object of at most {MOST_OPTIONS}")
    for name, value in cast("dict[str, Any]", options).items():
        if not _is_word(name) or not (_is_text(value) or isinstance(value, int | float | None)):
            raise ClusterError(
                f"an option is a text, a number, true, false or null: {name[:LONGEST_WORD]!r} is not"
            )
    return Words(command, node, cast("dict[str, Any]", options))


def _is_word(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and len(value) <= LONGEST_WORD


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_TEXT


@contextlib.asynccontextmanager
async def serving(path: Path, handler: Handler):
    """Answers commands while the context is open."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            words = parse(await reader.readline())
            reply = {"message": await handler(words.command, words.node, words.options)}
        except ClusterError as error:
            reply = {"error": str(error)}
        except Exception as error:
            log.exception("a command failed")
            reply = {"error": f"{type(error).__name__}: {error}"}
        writer.write(json.dumps(reply).encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()

    path.unlink(missing_ok=True)
    with short_path(path) as address:
        server = await asyncio.start_unix_server(answer, address)
    path.chmod(0o600)
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


async def say(path: Path, command: str, node: str, options: Mapping[str, Any] | None = None) -> str:
    """Sends one command and returns the answer; ClusterError if nothing listens or the answer is an error."""
    if not path.exists():
        raise ClusterError(
            f"no cluster runs on {path.parent}: start it with `mooring up` (or name its --data-dir)"
        )
    try:
        with short_path(path) as address:
            reader, writer = await asyncio.open_unix_connection(address)
    except OSError as error:
        raise ClusterError(f"the cluster on {path.parent} does not answer: {error.strerror}") from error
    words = {"command": command, "node": node, "options": dict(options or {})}
    writer.write(json.dumps(words).encode() + b"\n")
    reply = json.loads(await reader.readline() or b'{"error": "the cluster stopped before it answered"}')
    writer.close()
    if "error" in reply:
        raise ClusterError(reply["error"])
    return str(reply["message"])

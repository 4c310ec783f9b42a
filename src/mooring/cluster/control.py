"""The words that `mooring node …` says to the `mooring up` that runs, over a Unix socket in the data
directory.

One JSON object each way on a line: `{"command": "stop", "node": "node-1"}` → `{"message": …}` or `{"error":
…}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path

import structlog

from mooring.cluster.layout import ClusterError

log = structlog.get_logger(component="cluster")

Handler = Callable[[str, str], Awaitable[str]]
"""Takes command and node; returns a message for the user; raises ClusterError."""


@contextlib.contextmanager
def short(path: Path) -> Generator[str]:
    """A path of the same socket that fits into a socket address (108 bytes), however long `path` is."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


@contextlib.asynccontextmanager
async def serving(path: Path, handler: Handler):
    """Answers commands while the context is open."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            words = json.loads(await reader.readline())
            reply = {"message": await handler(str(words["command"]), str(words["node"]))}
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
    with short(path) as address:
        server = await asyncio.start_unix_server(answer, address)
    path.chmod(0o600)
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)


async def say(path: Path, command: str, node: str) -> str:
    """Sends one command and returns the answer; ClusterError if nothing listens or the answer is an error."""
    if not path.exists():
        raise ClusterError(
            f"no cluster runs on {path.parent}: start it with `mooring up` (or name its --data-dir)"
        )
    try:
        with short(path) as address:
            reader, writer = await asyncio.open_unix_connection(address)
    except OSError as error:
        raise ClusterError(f"the cluster on {path.parent} does not answer: {error.strerror}") from error
    writer.write(json.dumps({"command": command, "node": node}).encode() + b"\n")
    reply = json.loads(await reader.readline() or b'{"error": "the cluster stopped before it answered"}')
    writer.close()
    if "error" in reply:
        raise ClusterError(reply["error"])
    return str(reply["message"])

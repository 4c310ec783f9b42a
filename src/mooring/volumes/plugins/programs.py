"""Runs a program of this node for a plugin: an argument list, never a shell; a deadline; bounded output.

Guarantee: when `run` has returned or raised, the program has ended, or was killed and is held by the kernel
(it writes to a server that has gone). It is killed if the deadline comes first, or the task is cancelled;
what it had asked of a daemon or the kernel may still happen then.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from dataclasses import dataclass
from typing import Protocol

from mooring.mounts.commands import find_tool

OUTPUT_BYTES = 64 * 1024
MESSAGE_CHARACTERS = 300
KILLED_S = 5.0
"""How long is waited for a program that was killed."""


@dataclass(frozen=True)
class Ended:
    """`status` is None where the deadline came first."""

    status: int | None
    output: str = ""
    errors: str = ""

    def words(self) -> str:
        """How it ended, for a person."""
        how = "did not end in time" if self.status is None else f"exit status {self.status}"
        said = " ".join((self.errors or self.output).split())[:MESSAGE_CHARACTERS]
        return f"{how}: {said}" if said else how


class Run(Protocol):
    """As `run` is; a test plays another one."""

    async def __call__(self, *words: str, deadline_s: float) -> Ended: ...


async def run(*words: str, deadline_s: float) -> Ended:
    """Runs it in the C locale without input, at most `deadline_s` seconds. Raises ToolMissing."""
    process = await asyncio.create_subprocess_exec(
        find_tool(words[0]),
        *words[1:],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(deadline_s):
            output, errors = await asyncio.gather(_bounded(process.stdout), _bounded(process.stderr))
            return Ended(await process.wait(), output, errors)
    except TimeoutError:
        return Ended(None)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with what it has started: mount has its helpers
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), KILLED_S)


async def _bounded(stream: asyncio.StreamReader) -> str:
    """The beginning of what comes; the rest is read and forgotten."""
    kept = b""
    while part := await stream.read(OUTPUT_BYTES):
        kept += part[: OUTPUT_BYTES - len(kept)]
    return kept.decode(errors="replace")

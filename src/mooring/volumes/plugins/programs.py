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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from mooring.mounts.blocking import finish
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
    program, stop = find_tool(words[0]), asyncio.Event()
    order = asyncio.create_task(_run(program, words[1:], deadline_s, stop))
    try:
        return await asyncio.shield(order)
    except asyncio.CancelledError:
        # Never the order itself, for it may just be starting the program: asyncio would kill that alone, and
        # wait for all that hold its outputs.
        stop.set()
        await finish(order)
        raise


async def _run(program: str, words: Sequence[str], deadline_s: float, stop: asyncio.Event) -> Ended:
    process = await asyncio.create_subprocess_exec(
        program,
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
        start_new_session=True,
    )
    ending = asyncio.create_task(_ending(process))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({ending, stopped}, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if ending.done():
        return ending.result()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # with what it has started: mount has its helpers
    await asyncio.wait({ending}, timeout=KILLED_S)
    ending.cancel()
    return Ended(None)


async def _ending(process: asyncio.subprocess.Process) -> Ended:
    assert process.stdout is not None
    assert process.stderr is not None
    output, errors = await asyncio.gather(_bounded(process.stdout), _bounded(process.stderr))
    return Ended(await process.wait(), output, errors)


async def _bounded(stream: asyncio.StreamReader) -> str:
    """The beginning of what comes; the rest is read and forgotten."""
    kept = b""
    while part := await stream.read(OUTPUT_BYTES):
        kept += part[: OUTPUT_BYTES - len(kept)]
    return kept.decode(errors="replace")

"""Processes that each start one pod's supervisor (`supervisor.main`); one is kept that waits for its pod.

It has its imports behind it and, if the next pod is to have a network, that too: most of a sandbox's start-up
time. A launcher that is not used ends with its standard input, also when this agent is killed, and its
network with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import Process
from pathlib import Path

import msgspec

from mooring.node.runtime import PodNetwork

START_TIMEOUT_S = 60.0
_SOURCES = str(Path(__file__).parents[2])
# The sources come last on the path, so that nothing installed beside them can shadow the standard library.
_LAUNCH = f"import sys; sys.path.append({_SOURCES!r}); from mooring.node.supervisor.main import main; main()"


class Launchers:
    """Starts pods; `prepare` says what the next one is likely to need."""

    def __init__(self) -> None:
        self._spare: tuple[PodNetwork | None, asyncio.Task[Process]] | None = None
        self._closed = False

    def prepare(self, network: PodNetwork | None) -> None:
        """The next pod is likely to have this network."""
        if self._spare is None and not self._closed:
            self._spare = network, asyncio.create_task(_launcher(network), name="spare launcher")

    async def launch(self, network: PodNetwork | None, document: object) -> tuple[int | None, str]:
        """The launcher's exit status, and what it said; no status if it was not done in time."""
        launcher = await self._take(network)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                _, errors = await launcher.communicate(msgspec.json.encode(document))
        except TimeoutError:
            launcher.kill()
            return None, f"the sandbox was not ready after {START_TIMEOUT_S:.0f} s"
        return launcher.returncode, errors.decode(errors="replace").strip()

    async def close(self) -> None:
        """Lets the spare go."""
        self._closed = True
        if self._spare is not None:
            (_, spare), self._spare = self._spare, None
            await (await spare).communicate(b"")

    async def _take(self, network: PodNetwork | None) -> Process:
        """The spare if it fits."""
        if self._spare is None or self._spare[0] != network:
            return await _launcher(network)
        (_, spare), self._spare = self._spare, None
        return await spare


async def _launcher(network: PodNetwork | None) -> Process:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", _LAUNCH),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        env={"PATH": os.environ.get("PATH", os.defpath)},
    )
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError):  # it ended at once; its first use raises why
        process.stdin.write(msgspec.json.encode(network) + b"\n")
    return process

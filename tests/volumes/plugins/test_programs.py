"""Programs of the node for a plugin: bounded, and ended with all that they have started."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from mooring.mounts.errors import ToolMissing
from mooring.volumes.plugins import programs

HELPER = "sh -c 'echo $$ > {0}; exec sleep 300' & while ! test -s {0}; do :; done; sleep 300"
"""A helper that holds the outputs, as mount has."""


def alive(file: Path) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path("/proc", file.read_text().strip(), "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone before it was opened, or before it was read
        return False


async def sh(script: str, deadline_s: float = 10) -> programs.Ended:
    return await programs.run("sh", "-c", script, deadline_s=deadline_s)


async def is_ended(file: Path) -> None:
    """The helper was killed with its group; the kernel may take a moment to bury it."""
    async with asyncio.timeout(20):
        while alive(file):  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.01)


async def test_its_status_and_both_outputs_are_told_and_are_bounded():
    ended = await sh("head -c 5000000 /dev/zero; echo wrong >&2; exit 3")
    assert (ended.status, len(ended.output), ended.errors) == (3, programs.OUTPUT_BYTES, "wrong\n")
    assert ended.words().startswith("exit status 3: wrong")


async def test_at_the_deadline_it_is_killed_with_its_helpers(tmp_path: Path):
    ended = await sh(HELPER.format(tmp_path / "pid"), deadline_s=1)
    assert (ended.status, ended.words()) == (None, "did not end in time")
    await is_ended(tmp_path / "pid")


@pytest.mark.parametrize("steps", range(12))
async def test_cancelled_at_any_moment_of_its_start_it_is_killed_with_its_helpers(tmp_path: Path, steps: int):
    file = tmp_path / "pid"
    task = asyncio.create_task(sh(HELPER.format(file), deadline_s=300))
    for _ in range(steps):
        await asyncio.sleep(0)
    until = time.monotonic() + 1
    while not (file.exists() and file.read_text()) and time.monotonic() < until:
        time.sleep(0.01)  # noqa: ASYNC251 - nothing else of this loop goes on while the helper starts
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 20)
    if file.exists():
        await is_ended(file)


async def test_a_program_that_is_not_there_is_said():
    with pytest.raises(ToolMissing, match="mooring-none"):
        await programs.run("mooring-none", deadline_s=1)

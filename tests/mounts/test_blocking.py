"""Blocking work: once the call has returned, nothing of it goes on in the background."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from mooring.mounts.blocking import blocking
from mooring.mounts.commands import run


def _wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.005)


async def test_the_result_and_the_error_of_the_function_are_passed_on():
    assert await blocking(int, "7", base=8) == 7
    with pytest.raises(ValueError):
        await blocking(int, "x")


async def test_a_cancelled_caller_gets_its_cancellation_only_after_the_function_has_ended():
    started, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        go_on.wait()
        ended.set()

    task = asyncio.create_task(blocking(work))
    await asyncio.to_thread(started.wait)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_a_cancelled_caller_gets_its_cancellation_only_after_the_tool_has_ended(tmp_path: Path):
    begun, gate, done = tmp_path / "begun", tmp_path / "gate", tmp_path / "done"
    script = f"touch {begun}; until [ -e {gate} ]; do sleep 0.01; done; touch {done}"
    task = asyncio.create_task(run("sh", "-c", script))
    await asyncio.to_thread(_wait_for, begun)
    task.cancel()
    await asyncio.sleep(0)
    gate.touch()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done.exists()

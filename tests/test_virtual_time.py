"""The event loop of tests whose time jumps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from mooring.mounts.blocking import finish


def test_a_story_may_end_while_a_thread_is_at_work(run: Callable[[Any], Any]):
    """What is cancelled then waits for it: no timer is set, and it is no deadlock."""
    done: list[bool] = []
    left: list[asyncio.Task[None]] = []

    def work() -> None:
        time.sleep(0.2)
        done.append(True)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        left.append(loop.create_task(finish(loop.run_in_executor(None, work))))
        await asyncio.sleep(0)

    run(story())
    assert done == [True]


def test_a_story_that_waits_for_what_never_comes_is_told_so(run: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(run.__globals__, "THREADS_S", 0.1)

    async def story() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="deadlock"):
        run(story())

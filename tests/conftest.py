"""Shared fixtures: virtual time, and what a machine must offer for the tests that need root."""

from __future__ import annotations

import asyncio
import gc
import os
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import hypothesis
import pytest

from mooring.node.supervisor import syscalls

hypothesis.settings.register_profile(
    "mooring", deadline=None
)  # machines are noisy: no test asserts a duration
hypothesis.settings.load_profile("mooring")


THREADS_S = 10.0


class _Jump(selectors.DefaultSelector):
    """A selector that never waits: what would be waited for is added to the loop's clock. But where no timer
    is set, a thread that is still at work may be all that is waited for."""

    elapsed = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(THREADS_S if timeout is None else 0)
        if not ready:
            if timeout is None:
                raise RuntimeError("deadlock: nothing is ready and no timer is set")
            self.elapsed += max(timeout, 0)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer as soon as nothing is ready. No threads, no
    sockets."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)
        # The default resolution would make timers due slightly early; here a jump lands exactly.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return self._jump.elapsed

    def now(self) -> datetime:
        """A wall clock that follows virtual time."""
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self._jump.elapsed)


def run_in_virtual_time(story: Coroutine[Any, Any, Any]) -> Any:
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(story)
    finally:
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        if pending:
            loop.run_until_complete(asyncio.wait(pending))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Runs a coroutine to its end in virtual time."""
    return run_in_virtual_time


def virtual_now() -> datetime:
    """The wall clock of the running virtual-time loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return loop.now()


@pytest.fixture
def now() -> Callable[[], datetime]:
    """A wall clock in virtual time, for use inside `run`."""
    return virtual_now


def pytest_collection_finish() -> None:
    """What was imported lives until the end: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


def pytest_configure() -> None:
    """Each process that runs tests has mounts of its own.

    Else a process that is started with a copy of all mounts holds the devices of a test that runs beside it.
    """
    if "PYTEST_XDIST_WORKER" in os.environ and os.geteuid() == 0:
        syscalls.unshare(syscalls.CLONE_NEWNS)
        syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.geteuid() == 0:
        return
    skip = pytest.mark.skip(reason="needs root (loop devices, mounts, namespaces)")
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(skip)

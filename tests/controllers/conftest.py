"""Every controller is tested on a `ControllerStage`."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from virtual_server import not_stuck, started


@pytest.fixture
def play(run: Callable[[Any], Any], now: Callable[[], datetime]) -> Play:
    """Plays a story on a stage with a fresh server, in virtual time; `options` are the stage's."""

    def play_story(
        story: Callable[[Any], Coroutine[Any, Any, Any]],
        stage: type[ControllerStage] = ControllerStage,
        **options: Any,
    ) -> Any:
        async def on_server() -> Any:
            return await story(stage(await started(now), now, **options))

        return run(not_stuck(on_server()))

    return play_story


@pytest.fixture
def asleep(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Has the machine slept for so many seconds, in which the event loop's clock stood."""
    slept, read = 0.0, time.clock_gettime

    def clock(which: int) -> float:
        return read(which) + (slept if which == time.CLOCK_BOOTTIME else 0.0)

    def sleep(seconds: float) -> None:
        nonlocal slept
        slept += seconds

    monkeypatch.setattr(time, "clock_gettime", clock)
    return sleep

"""Every controller is tested on a `ControllerStage`."""

from __future__ import annotations

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

"""A stage on which nodes are lost and fenced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fencing_stage import FencingStage
from storage_stage import StorageStage


@pytest.fixture
def fencing(play: Any) -> Callable[[Callable[[FencingStage], Any]], Any]:
    """Plays a story on a `FencingStage` that knows the kinds of fences."""

    def play_story(story: Callable[[FencingStage], Any]) -> Any:
        async def on_stage(stage: FencingStage) -> Any:
            await stage.install()
            return await story(stage)

        return play(on_stage, FencingStage)

    return play_story


@pytest.fixture
def storage(play: Any) -> Any:
    """Plays a story on a `StorageStage`."""

    def play_story(story: Any) -> Any:
        async def on_stage(stage: StorageStage) -> Any:
            await stage.install()
            return await story(stage)

        return play(on_stage, StorageStage)

    return play_story

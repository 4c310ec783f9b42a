"""A whole cluster in one event loop, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import structlog
from world import World

Story = Callable[[World], Coroutine[Any, Any, Any]]


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """Whole clusters log much; what goes wrong here is told by the assertions."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), cache_logger_on_first_use=False)
    yield
    structlog.reset_defaults()


@pytest.fixture
def play(tmp_path: Path, run: Callable[[Any], Any], now: Callable[[], Any]) -> Callable[[Story], Any]:
    """Plays a story in a world of its own; several may be played one after the other."""
    played: list[None] = []

    def play_story(story: Story) -> Any:
        async def told() -> Any:
            guard = asyncio.create_task(asyncio.sleep(1e6))
            found = await story(World(tmp_path / str(len(played)), now))
            assert not guard.done()
            return found

        played.append(None)
        return run(told())

    return play_story

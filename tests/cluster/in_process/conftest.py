"""A whole cluster in one event loop, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import structlog
from in_process_cluster import InProcessCluster
from virtual_server import not_stuck

Story = Callable[[InProcessCluster], Coroutine[Any, Any, Any]]


@pytest.fixture(autouse=True)
def quiet() -> Any:
    """Whole clusters log much; what goes wrong here is told by the assertions."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), cache_logger_on_first_use=False)
    yield
    structlog.reset_defaults()


@pytest.fixture
def play(tmp_path: Path, run: Callable[[Any], Any], now: Callable[[], Any]) -> Callable[[Story], Any]:
    """Plays a story in a cluster of its own; several may be played one after the other."""
    played: list[None] = []

    def play_story(story: Story) -> Any:
        played.append(None)
        return run(not_stuck(story(InProcessCluster(tmp_path / str(len(played)), now))))

    return play_story

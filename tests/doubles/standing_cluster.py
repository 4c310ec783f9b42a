"""A cluster of real processes that stands while a test runs, and of which nothing is left after it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

from mooring.cluster.stage import PATIENCE_S, Stage


@contextlib.asynccontextmanager
async def standing(
    data_dir: Path, *flags: str, nodes: int, patience: float = PATIENCE_S
) -> AsyncGenerator[Stage]:
    """`mooring up` with these flags, once so many nodes are Ready."""
    stage = Stage(data_dir)
    try:
        await stage.up(*flags)
        await stage.until("all nodes are Ready", lambda: stage.ready_nodes(nodes), patience=patience)
        yield stage
    finally:
        status, answer = await stage.down()
    assert status == 0, answer
    assert stage.leftovers() == []

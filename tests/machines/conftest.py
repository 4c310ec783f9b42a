"""Clusters on machines with a kernel of their own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from standing_cluster import standing

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines.uml import kernel
from mooring.cluster.stage import Stage

FLAGS = ("--machines", "uml=2", "--port", "0", "--node-monitor-grace-period", "8")


@pytest.fixture(scope="session", autouse=True)
def _possible() -> None:
    """What is missing here is said, once, as its user would read it."""
    try:
        kernel.check()
    except ClusterError as error:
        pytest.skip(str(error))


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data directory that is removed afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="mooring-test-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
async def stage(data_dir: Path) -> AsyncIterator[Stage]:
    """A cluster of two such machines; afterwards nothing of it is left."""
    async with standing(data_dir, *FLAGS, nodes=2) as stage:
        yield stage

"""Stages for stories that are played by real processes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from standing_cluster import standing
from tests.cluster.scripted import Shell, cluster_and_shell

from mooring.cluster.stage import Stage


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data directory that is removed afterwards. Short: sockets live in it."""
    directory = Path(tempfile.mkdtemp(prefix="mooring-test-"))
    yield directory
    shutil.rmtree(directory)


TWO_NODES = ("--nodes", "2", "--port", "0", "--node-monitor-grace-period", "8")


@pytest.fixture
async def stage(data_dir: Path) -> AsyncIterator[Stage]:
    """A cluster of two nodes; afterwards nothing of it is left."""
    async with standing(data_dir, *TWO_NODES, nodes=2) as stage:
        yield stage


@pytest.fixture(scope="package")
def shell() -> Iterator[Shell]:
    """A cluster of three nodes for all scripts, and a shell that speaks to it."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl on the PATH")
    with cluster_and_shell() as shell:
        yield shell

"""Stages for stories that are played by real processes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.scripted import Shell, cluster_and_shell


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data directory that is removed afterwards. Short: sockets live in it."""
    directory = Path(tempfile.mkdtemp(prefix="mooring-test-"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="package")
def shell() -> Iterator[Shell]:
    """A cluster of three nodes for all scripts, and a shell that speaks to it."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl on the PATH")
    with cluster_and_shell() as shell:
        yield shell

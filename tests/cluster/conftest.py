"""Stages for stories that are played by real processes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A data directory that is removed afterwards. Short: sockets live in it."""
    directory = Path(tempfile.mkdtemp(prefix="mooring-test-"))
    yield directory
    shutil.rmtree(directory)

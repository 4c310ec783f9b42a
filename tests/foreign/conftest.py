"""What clients of others speak to: the cluster that `mooring.testing` gives to the tests of their authors."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import until_in_thread

from mooring.testing import Options, PlayedCluster


@pytest.fixture(scope="session")
def mooring_options() -> Options:
    """With the controllers that a client's work needs."""
    return Options(nodes=0, controllers=("statefulset", "cleanup"))


@pytest.fixture
def cluster(mooring_cluster: PlayedCluster) -> PlayedCluster:
    return mooring_cluster


def asset(name: str) -> Path:
    """A program that `make assets` builds; skips the test if it was not built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mooring" / "assets"
    folders = [Path(given)] if (given := os.environ.get("KUBEBUILDER_ASSETS")) else sorted(cache.glob("*"))
    found = next((folder / name for folder in reversed(folders) if (folder / name).is_file()), None)
    if found is None:
        pytest.skip(f"needs {name}: run `make assets`")
    return found


@pytest.fixture
def until() -> Callable[[Callable[[], bool], str], None]:
    """`waiting.until_in_thread`."""
    return until_in_thread


@pytest.fixture
def helm() -> Path:
    return asset("helm")

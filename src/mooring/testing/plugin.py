"""The fixtures, as pytest finds them by its entry point `pytest11`. Loads nothing else until a test asks."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mooring.testing import Cluster, Options, PlayedCluster


@pytest.fixture(scope="session")
def mooring_options() -> Options:
    """What the clusters are made of: override it in a conftest.py."""
    from mooring.testing import Options

    return Options()


@pytest.fixture
def mooring_api() -> Generator[PlayedCluster]:
    """A Kubernetes API server for one test, in this process; no controllers, no nodes: only what the test
    does happens."""
    yield from _in_process(None, empty=True)


@pytest.fixture
def mooring_cluster(mooring_options: Options) -> Generator[PlayedCluster]:
    """A cluster for one test, in this process: API server, controllers, nodes that are played."""
    yield from _in_process(mooring_options)


@pytest.fixture(scope="session")
def mooring_nodes(mooring_options: Options) -> Generator[Cluster]:
    """A cluster of real nodes for the whole run, by `mooring up`. Skips, with the reason, where there can be
    none."""
    from mooring.testing import on_this_machine
    from mooring.testing.machine_cluster import lacking

    if reason := lacking():
        pytest.skip(f"mooring_nodes: {reason}")
    with on_this_machine(mooring_options) as cluster:
        yield cluster


def _in_process(options: Options | None, *, empty: bool = False) -> Generator[PlayedCluster]:
    from mooring.testing import Options, in_process
    from mooring.testing.logs import routed

    chosen = replace(options or Options(), nodes=0, controllers=()) if empty else options
    with routed(), in_process(chosen) as cluster:
        yield cluster

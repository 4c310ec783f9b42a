"""The real kube-apiserver, one for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real.server import RealServer, assets, real_server


@pytest.fixture(scope="session")
def programs() -> Path:
    """The folder with the real programs."""
    found = assets()
    if found is None:
        pytest.skip("needs etcd and kube-apiserver: run `make assets`, or set KUBEBUILDER_ASSETS")
    return found


@pytest.fixture(scope="session")
def real(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with real_server(programs, tmp_path_factory.mktemp("real")) as server:
        yield server

"""A server of its own: what other tests have put on a shared one would be found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real.server import RealServer, real_server


@pytest.fixture(scope="module")
def real(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with real_server(programs, tmp_path_factory.mktemp("real")) as server:
        yield server

"""The real server still answers as it was recorded: what `tests/differential` compares with is true."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.differential.answers import differences, recorded
from tests.differential.record import play_to_real
from tests.real.server import RealServer, real_server


@pytest.fixture
def unused(programs: Path, tmp_path: Path) -> Iterator[RealServer]:
    """One that other tests have left nothing in."""
    with real_server(programs, tmp_path) as server:
        yield server


def test_the_real_server_answers_as_recorded(unused: RealServer) -> None:
    found, kept = asyncio.run(play_to_real(unused)), recorded()
    assert found.keys() == kept.keys(), "the script has changed: record it again"
    found_differences = [
        f"{name} {kept[name]['request']}\n    {difference}"
        for name in kept
        for difference in differences(kept[name], found[name])
    ]
    assert not found_differences, "\n".join(found_differences)

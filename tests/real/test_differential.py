"""The real server still answers as it was recorded: what `tests/differential` compares with is true."""

from __future__ import annotations

import asyncio

from tests.differential.answers import differences, recorded
from tests.differential.record import play_to_real
from tests.real.server import RealServer


def test_the_real_server_answers_as_recorded(real: RealServer) -> None:
    found, kept = asyncio.run(play_to_real(real)), recorded()
    assert found.keys() == kept.keys(), "the script has changed: record it again"
    found_differences = [
        f"{name} {kept[name]['request']}\n    {difference}"
        for name in kept
        for difference in differences(kept[name], found[name])
    ]
    assert not found_differences, "\n".join(found_differences)

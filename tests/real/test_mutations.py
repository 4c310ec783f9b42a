"""Mutations of valid objects are answered by both servers alike: status code and field of the first cause.

Some hundreds of one seed by default; with MOORING_SOAK 5,000 of a seed that was not used before, which is
printed.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import SystemRandom

import pytest
from tests.differential.mutations.draw import draw
from tests.differential.mutations.hostile import hostile
from tests.differential.mutations.known import unlisted
from tests.differential.mutations.play import Outcome, play
from tests.differential.mutations.record import chosen, play_to_real, recorded
from tests.differential.mutations.report import compare
from tests.differential.servers import embedded, to_embedded
from tests.real.server import real_server

SOAK = bool(os.environ.get("MOORING_SOAK"))
LEAST = 0.99


@pytest.mark.soak
def test_recorded_outcomes_are_true_and_new_mutations_agree(programs: Path, tmp_path: Path) -> None:
    seed = int(os.environ.get("MOORING_SEED") or (SystemRandom().randrange(2**31) if SOAK else 1))
    drawn = draw(seed, 5_000 if SOAK else 400)
    known = chosen()

    async def ours() -> list[Outcome]:
        server = embedded()
        await server.start()
        return await play(drawn, to_embedded(server))

    with real_server(
        programs, tmp_path
    ) as server:  # one of its own: the samples would be in the way of other tests
        found = asyncio.run(play_to_real([*known, *drawn], server))
    answers = [outcome for _, outcome in recorded()]
    changed = compare(known, answers, found[: len(known)])
    assert not changed.disagreements, f"record again:\n{changed.listed()}"
    compared = compare(drawn, found[len(known) :], asyncio.run(ours()))
    print(f"seed {seed}, {len(hostile())} hostile ones beside: {compared.summary()}")
    assert compared.agreement >= LEAST, compared.listed()
    new = unlisted(compared.disagreements)
    print("of no class in docs/api-differences.md:", *new, sep="\n")
    assert SOAK or not new  # a new seed finds new ones: to be listed, or mended

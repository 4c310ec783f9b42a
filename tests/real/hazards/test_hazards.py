"""Mooring's attach/detach controller on the real API server does no harm in any hazard; upstream's does, so
the harness can tell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.real.hazards.control_plane import MOORING, UPSTREAM, UPSTREAM_NO_FORCE, ControllerProgram, stage
from tests.real.hazards.hazards import HAZARDS, SAFE, Hazard, play_all
from tests.real.server import real_server

pytestmark = pytest.mark.timeout(1200)
SOAK = bool(os.environ.get("MOORING_SOAK"))
SHORT = tuple(each for each in HAZARDS if not each.long)


async def harm(
    programs: Path, folder: Path, controller: ControllerProgram, hazards: tuple[Hazard, ...]
) -> tuple[dict[str, str], dict[str, str]]:
    """By hazard: what happened, and what happened in its control."""
    if not (programs / "kube-controller-manager").exists():
        pytest.skip("needs kube-controller-manager: run `make assets`")
    with real_server(programs, folder) as server:
        async with stage(server, programs, folder, controller) as (played, (running,)):
            done = await play_all(played, running, hazards)
    return {h.key: done[h.key, True] for h in hazards}, {h.key: done[h.key, False] for h in hazards}


async def check(
    programs: Path, folder: Path, controller: ControllerProgram, hazards: tuple[Hazard, ...], column: int
) -> None:
    found, controls = await harm(programs, folder, controller, hazards)
    expected = {h.key: SAFE if column < 0 else h.upstream[column] for h in hazards}
    assert controls == dict.fromkeys(controls, SAFE)
    assert found == expected


async def test_no_hazard_does_harm_with_mooring(programs: Path, tmp_path: Path):
    await check(programs, tmp_path, MOORING, SHORT, -1)


async def test_upstream_is_harmed_where_it_was_measured_to_be(programs: Path, tmp_path: Path):
    await check(programs, tmp_path, UPSTREAM, SHORT, 0)


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="takes upstream's six minutes: `make soak` plays it")
@pytest.mark.parametrize(
    ("controller", "column"),
    [(MOORING, -1), (UPSTREAM, 0), (UPSTREAM_NO_FORCE, 1)],
    ids=["mooring", "upstream", "upstream-without-force"],
)
async def test_all_hazards(programs: Path, tmp_path: Path, controller: ControllerProgram, column: int):
    await check(programs, tmp_path, controller, HAZARDS, column)

"""Every state of the handshake: nothing is wrong with all rules, and each rule that is switched off is missed."""

from __future__ import annotations

import os

import pytest

from mooring.simulation.model.runs import HARM, HOLD, Run
from mooring.simulation.model.search import search

SOAK = bool(os.environ.get("MOORING_SOAK"))


def chosen(runs: tuple[Run, ...], *, quick: bool) -> list[object]:
    return [pytest.param(run, id=run.name.replace(" ", "-")) for run in runs if run.quick is quick]


def holds(run: Run) -> None:
    found = search(run.settings, liveness=run.liveness)
    assert (found.violation, found.way) == ("", ())
    assert found.complete
    assert (found.dead, found.dead_way) == (0, ())


def harms(run: Run) -> None:
    assert search(run.settings, liveness=False).violation


@pytest.mark.parametrize("run", chosen(HOLD, quick=True))
def test_nothing_is_wrong_and_everything_can_come_right(run: Run):
    holds(run)


@pytest.mark.parametrize("run", chosen(HARM, quick=True))
def test_without_the_rule_harm_is_found(run: Run):
    harms(run)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.skipif(not SOAK, reason="takes minutes: `make soak` makes them")
@pytest.mark.parametrize("run", chosen(HOLD, quick=False))
def test_nothing_is_wrong_in_larger_searches(run: Run):
    holds(run)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.skipif(not SOAK, reason="takes minutes: `make soak` makes them")
@pytest.mark.parametrize("run", chosen(HARM, quick=False))
def test_without_the_rule_harm_is_found_in_larger_searches(run: Run):
    harms(run)


def test_a_volume_that_is_attached_mounted_and_let_go_again_is_among_the_states():
    """The searches are not empty: what they guard against needs a mount, and there is one."""
    found = search(HARM[1].settings, liveness=False)
    assert any("mounts" in step for step in found.way)

"""Every state of the handshake: nothing is wrong with all rules, and each rule that is switched off is
missed."""

from __future__ import annotations

import os

import pytest

from mooring.simulation.model.runs import HARM, HOLD, Run
from mooring.simulation.model.search import search

SOAK = bool(os.environ.get("MOORING_SOAK"))


SLOW = (
    pytest.mark.soak,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not SOAK, reason="takes minutes: `make soak` makes them"),
)


def each(runs: tuple[Run, ...]) -> list[object]:
    return [pytest.param(run, id=run.name.replace(" ", "-"), marks=() if run.quick else SLOW) for run in runs]


@pytest.mark.parametrize("run", each(HOLD))
def test_nothing_is_wrong_and_everything_can_come_right(run: Run):
    found = search(run.settings, liveness=run.liveness)
    assert (found.violation, found.way) == ("", ())
    assert found.complete
    assert (found.dead, found.dead_way) == (0, ())


@pytest.mark.parametrize("run", each(HARM))
def test_without_the_rule_harm_is_found(run: Run):
    assert search(run.settings, liveness=False).violation


def test_a_volume_that_is_attached_mounted_and_let_go_again_is_among_the_states():
    """The searches are not empty: what they guard against needs a mount, and there is one."""
    found = search(HARM[1].settings, liveness=False)
    assert any("mounts" in step for step in found.way)

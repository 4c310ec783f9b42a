"""While many volumes move from one real kubelet to another, the controller that moves them changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kubelet.lab.cluster import Cluster
from tests.kubelet.lab.moving import Move, moving
from tests.kubelet.lab.upstream import Upstream

pytestmark = [pytest.mark.root, pytest.mark.soak, pytest.mark.timeout(900)]
COUNT = 50 if os.environ.get("MOORING_SOAK") else 12


@pytest.fixture
def move(lab: Cluster, tmp_path: Path) -> Iterator[Move]:
    with moving(lab, tmp_path, COUNT) as made:
        yield made


def test_the_leader_is_killed_and_the_other_candidate_goes_on(lab: Cluster, move: Move):
    lab.parts.start_attach_detach("second")
    move.begin()
    move.half_way()
    lab.parts.kill("attachdetach")
    move.until_all_run("node-2")
    lab.parts.stop("second")
    lab.parts.start_attach_detach()


def test_upstreams_controller_takes_over_and_gives_back(lab: Cluster, move: Move):
    assert isinstance(lab.control, Upstream)
    move.begin()
    move.half_way()
    lab.parts.stop("attachdetach")
    with lab.control.attach_detach():
        move.until_all_run("node-2")
        move.begin(away_from="node-2", to="node-1")
        move.half_way(to="node-1")
    lab.parts.start_attach_detach()
    move.until_all_run("node-1")

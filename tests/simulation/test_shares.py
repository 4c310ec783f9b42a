"""What nothing attaches is mounted once for each node, and its pods are left alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.node.volumes.manager import VolumeManager
from mooring.simulation.cluster.scenario import PlanStep, Scenario
from mooring.simulation.run import play

SHARES = Scenario(
    nodes=2,
    sets={"www": 4},
    workloads={"www": "sharing"},
    minutes=10,
    faults=0,
    actions=0,
    steps=(
        PlanStep(60.0, "kill", "n0", 5.0),
        PlanStep(90.0, "delete-pod", "www"),
        PlanStep(120.0, "mount-fails", "n0", 20.0),
        PlanStep(125.0, "delete-pod", "www", how=1),
        PlanStep(180.0, "power-off", "n1", 20.0),
    ),
)


@pytest.mark.parametrize("driver", ["plugin", "csi", "ebs"])
def test_shares_come_and_go_with_their_pods(driver: str):
    outcome = play(1, replace(SHARES, driver=driver))
    assert outcome.violations == []
    assert outcome.guarded["D6"] > 10


def test_an_agent_that_misses_their_attachments_is_found(monkeypatch: pytest.MonkeyPatch):
    changed = VolumeManager.node_changed

    def misses(manager: VolumeManager, old: object, new: object) -> None:
        changed(manager, old, new)  # type: ignore[arg-type]
        for volume in (manager.remembered() or {}).values():
            volume.unverified = True

    monkeypatch.setattr(VolumeManager, "node_changed", misses)
    assert "D7" in play(1, SHARES).invariants

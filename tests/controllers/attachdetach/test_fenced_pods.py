"""Pods that are being deleted on a machine that a fence has cut off keep no volume: on that machine."""

from __future__ import annotations

import pytest
from decide_values import ATTACHED
from msgspec.structs import replace

from mooring.controllers.attachdetach.decide import decide
from mooring.controllers.attachdetach.state import (
    Action,
    Attachment,
    Demand,
    NodeState,
    VolumeDecision,
    VolumeState,
)
from mooring.kube.objects import Condition, ManagedMeta, Node, NodeStatus, NodeSystemInfo
from mooring.volumes.statements import Evidence

FORMER, PRESENT = "6a2e9c1e-0000-4000-8000-000000000001", "6a2e9c1e-0000-4000-8000-000000000002"
FENCED = Evidence("uid-n0", "b1", begun="2030-01-01T00:00:00Z", by="NodeFence f")


def decided(node: NodeState | None, held: Attachment, *, starting: bool = False) -> VolumeDecision:
    demands = (Demand("n0", ("default/p",), "1", starting),)
    nodes = {"n0": node} if node is not None else {}
    (decision,) = decide(VolumeState("v", False, demands, (held,), nodes))
    return decision


@pytest.mark.parametrize(
    ("absent", "starting", "expected"),
    [
        (True, False, (Action.DETACH, "Fenced")),
        (False, False, (Action.SETTLED, "Attached")),
        (True, True, (Action.SETTLED, "Attached")),
    ],
    ids=["it was absent when the fence was asked", "it was there then", "a pod starts"],
)
def test_of_a_node_that_is_gone_a_fence_counts_that_has_read_its_absence(
    absent: bool, starting: bool, expected: tuple[Action, str]
):
    held = replace(ATTACHED, evidence=replace(FENCED, absent=absent))
    decision = decided(None, held, starting=starting)
    assert (decision.action, decision.reason.code) == expected


def test_a_fence_of_the_machine_that_has_the_name_now_is_not_about_the_former_ones_pods():
    info = NodeSystemInfo(boot_id="b1", system_uuid=PRESENT)
    status = NodeStatus(conditions=(Condition(type="Ready", status="Unknown"),), node_info=info)
    node = NodeState.of(Node(metadata=ManagedMeta(name="n0", uid="uid-n0"), status=status), "v")
    decision = decided(node, replace(ATTACHED, machine=f"{FORMER} ", evidence=FENCED))
    assert (decision.action, decision.reason.code) == (Action.BLOCKED, "AnotherMachine")
    assert decision.pods == ("default/p",)

"""Which of two records of an exclusive volume stays, and which node is told of what no pod wants there."""

from __future__ import annotations

from typing import Any

import pytest
from decide_values import ATTACHED, NODE
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
from mooring.volumes.attachment_lock import Lock

OLD, NEW = "2030-01-01T00:00:00Z", "2030-01-01T00:09:00Z"


def held(on: str, **changes: Any) -> Attachment:
    made = replace(ATTACHED, name=f"va-{on}", node=on, node_uid=f"uid-{on}", created=OLD)
    return replace(made, **changes)


def node(name: str, **changes: Any) -> NodeState:
    return replace(replace(NODE, name=name, uid=f"uid-{name}"), **changes)


def both(
    held_by: dict[str, dict[str, Any]], nodes: dict[str, dict[str, Any]], lock: Lock | None
) -> dict[str, VolumeDecision]:
    """What is decided where pods of n0 and n1 want the volume, and both have it."""
    attachments = tuple(held(name, **held_by.get(name, {})) for name in ("n0", "n1"))
    known = {name: node(name, **nodes.get(name, {})) for name in ("n0", "n1")}
    demands = tuple(Demand(name, ("default/p",), "1", True) for name in ("n0", "n1"))
    return {
        each.node: each for each in decide(VolumeState("v", False, demands, attachments, known, lock=lock))
    }


USED, REPORTED = {"in_use": True}, {"reported": True}


@pytest.mark.parametrize(
    ("held_by", "nodes"),
    [
        ({"n1": {"epoch": 4}}, {"n0": REPORTED}),
        ({"n1": {"attached": False}}, {"n1": REPORTED, "n0": USED}),
        ({"n1": {"created": NEW}}, {"n1": USED}),
        ({"n1": {"created": NEW}, "n0": {"attached": False}}, {"n0": USED}),
        ({"n0": {"created": NEW}}, {}),
        ({"n0": {"name": "va-z"}}, {}),
    ],
    ids=[
        *("of the lock's epoch", "reported", "attached and used", "attached, where the other is only used"),
        *("older", "the first by name"),
    ],
)
def test_of_two_records_the_one_stays_whose_node_is_likeliest_to_use_the_volume(
    held_by: dict[str, dict[str, Any]], nodes: dict[str, dict[str, Any]]
):
    """In each case n1's, which the lines before do not say."""
    lock = Lock(4) if held_by.get("n1", {}).get("epoch") else Lock()
    found = both(held_by, nodes, lock)
    assert found["n0"].reason.message.startswith("node n1 has the volume, which is exclusive")
    assert found["n1"].reason.code not in ("SecondAttachment", "MultiAttach")


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ({}, (Action.DETACH, "SecondAttachment")),
        (USED, (Action.BLOCKED, "MultiAttach")),
        ({"uid": "anew", "reconstructed": False}, (Action.BLOCKED, "MultiAttach")),
    ],
    ids=["it has let go", "it uses the volume", "it is another node, and has not looked yet"],
)
def test_a_second_record_goes_when_its_node_has_let_go(there: dict[str, Any], expected: tuple[Action, str]):
    found = both({"n0": {"created": NEW, "attached": False}}, {"n0": there}, Lock())["n0"]
    assert (found.action, found.reason.code, found.pods) == (*expected, ("default/p",))


def test_where_the_lock_cannot_be_read_one_of_two_records_stays_and_nothing_is_reported():
    found = both({"n0": {"created": NEW}}, {}, None)
    assert {name: each.reason.code for name, each in found.items()} == {
        "n0": "SecondAttachment",
        "n1": "LockDamaged",
    }


@pytest.mark.parametrize(
    ("lock", "several", "others", "there", "told"),
    [
        (Lock(), False, (), {}, True),
        (Lock(4), False, (), {}, False),
        (None, False, (), {}, False),
        (Lock(), False, (held("n1"),), {}, False),
        (Lock(), False, (held("n1", deleting=True, detached=True),), {}, True),
        (Lock(), False, (), {"uid": "anew"}, False),
        (Lock(4), True, (held("n1"),), {}, True),
        (None, True, (), {}, True),
    ],
    ids=[
        *("alone", "of an older epoch", "the lock is damaged", "another has it", "another had it"),
        *("registered anew", "several may have it", "several may have it, the lock is damaged"),
    ],
)
def test_a_node_that_still_uses_a_volume_that_no_pod_wants_is_told_of_it_where_no_other_may_have_it(
    lock: Lock | None, several: bool, others: tuple[Attachment, ...], there: dict[str, Any], told: bool
):
    """Its agent may have to look at the list before it can unmount."""
    known = {"n0": node("n0", in_use=True, **there), "n1": node("n1", reported=True, in_use=True)}
    decisions = decide(VolumeState("v", several, (), (held("n0"), *others), known, lock=lock))
    (found,) = (each for each in decisions if each.node == "n0")
    assert (found.action, found.reason.code) == (Action.REPORT if told else Action.WAIT, "InUse")

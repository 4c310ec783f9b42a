"""What one fence does next, in the cases that no story plays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.controllers.fencing.decide import decide_fence
from mooring.controllers.fencing.decisions import Action, Begin, NodeDecision
from mooring.controllers.fencing.detection import policies_of
from mooring.controllers.fencing.ladder import next_step
from mooring.controllers.fencing.struck import may_be_off
from mooring.kube.objects import (
    Condition,
    LabelSelector,
    LabelSelectorRequirement,
    ManagedMeta,
    Node,
    NodeStatus,
    NodeSystemInfo,
    ObjectMeta,
)
from mooring.kube.objects.fencing import (
    FenceAttempt,
    FencePolicy,
    FencePolicySpec,
    FenceTarget,
    NodeFence,
    NodeFenceSpec,
    NodeFenceStatus,
    Rung,
)
from mooring.kube.reason import Reason
from mooring.volumes.names import STATUS_WRITE

THEN = "2030-01-01T00:00:00Z"
LADDER = (Rung(mechanism="m"), Rung(mechanism="power"))
LOST = NodeDecision(Begin.FENCE, Reason("Lost", "it does not answer"))
HEALTHY = NodeDecision(Begin.NO, Reason("SeenHealthy", "it answers"))


def node(uid: str = "u1", boot: str = "b1", ready: str = "True", report: str = "r1") -> Node:
    return Node(
        metadata=ManagedMeta(name="a", uid=uid, annotations={STATUS_WRITE: report}),
        status=NodeStatus(
            conditions=(Condition(type="Ready", status=ready),), node_info=NodeSystemInfo(boot_id=boot)
        ),
    )


def fence(
    *,
    scope: str = "Power",
    outcome: str = "Fenced",
    code: str = "NotHeard",
    spec: Any = None,
    going: bool = False,
    **status: Any,
) -> NodeFence:
    """`code`: the reason of an outcome that is not known."""
    attempt = FenceAttempt(
        mechanism="m",
        token="t",
        ordered_at=THEN,
        answered_at=THEN,
        outcome=outcome,
        reason=code if outcome == "Unknown" else "",
        scope=scope,
        report="r1",
    )
    target = FenceTarget(node_name="a", node_uid="u1", boot_id="b1")
    return NodeFence(
        metadata=ObjectMeta(name="f", uid="x", deletion_timestamp=THEN if going else None),
        spec=NodeFenceSpec(node_name="a", **(spec or {"requested_by": "me"})),
        status=NodeFenceStatus(
            phase="Fencing",
            target=target,
            attempts=(attempt,),
            proof="t" if outcome == "Fenced" else "",
            **status,
        ),
    )


def act(
    of: NodeFence,
    there: Node | None,
    begin: NodeDecision | None = None,
    *,
    ladder: Sequence[Rung] = LADDER,
) -> Action:
    return decide_fence(of, there, ladder, begin, {}).action


@pytest.mark.parametrize("how", ["unfence", "deletion"])
def test_a_fence_that_is_to_be_taken_back_orders_nothing_more(how: str):
    spec = {"requested_by": "me", "unfence": how == "unfence"}
    asked = fence(outcome="Unknown", spec=spec, going=how == "deletion")
    assert act(asked, node()) is Action.CLOSE


@pytest.mark.parametrize("spec", [{}, {"requested_by": "me"}])
def test_a_fence_that_was_cancelled_is_reopened_unless_it_was_taken_back(spec: dict[str, Any]):
    """Else it is begun and taken back for ever, as fast as the API answers."""
    over = fence(outcome="Unknown", spec=spec)
    over = replace(over, status=replace(over.status, phase="Cancelled"))
    taken_back = replace(over, spec=replace(over.spec, unfence=True))
    assert act(over, node(), LOST) is Action.REOPEN
    assert act(taken_back, node(), LOST) is Action.SETTLED


def test_a_node_that_was_let_in_is_not_shut_out_again_because_its_node_is_gone():
    """7000713 of `fencing-by-storage.yaml`: its new boot was let in; the look found the storage open."""
    over = fence(scope="Storage", released_at=THEN, verified_at=THEN, power_on_at=THEN)
    assert act(over, None) is Action.CLOSE
    shut = fence(scope="Storage", released_at=THEN, verified_at=THEN)
    assert act(shut, None) is not Action.CLOSE


@pytest.mark.parametrize(
    ("outcome", "report", "counts"),
    [("Unknown", "r1", True), ("Unknown", "r2", False), ("NotFenced", "r1", False), ("Fenced", "r1", True)],
)
def test_an_order_that_may_have_struck_the_next_boot_counts_until_that_reports_after_the_answer(
    outcome: str, report: str, counts: bool
):
    """8000170 of `fencing.yaml`. The report `r1` was there when the order was answered."""
    over = fence(outcome=outcome)
    over = replace(over, status=replace(over.status, phase="Unfenced", reason="AnotherBoot"))
    assert may_be_off(over, node(boot="b2", report=report)) is counts
    assert not may_be_off(over, None)


def test_an_order_that_was_taken_back_counts_until_its_boot_reports_again():
    over = fence(outcome="Unknown")
    over = replace(over, status=replace(over.status, phase="Cancelled"))
    assert may_be_off(over, node())
    assert may_be_off(over, node(ready="Unknown", report="r2"))
    assert not may_be_off(over, node(report="r2"))
    assert not may_be_off(over, node(boot="b2"))


def test_it_counts_on_while_its_fence_waits_to_be_begun_once_more():
    """9100429 of `fencing.yaml`: the node was lost again before it had reported."""
    waits = fence(outcome="Unknown", round=1)
    waits = replace(waits, status=replace(waits.status, phase="Pending"))
    assert may_be_off(waits, node(ready="Unknown"))
    assert not may_be_off(waits, node(report="r2"))
    assert not may_be_off(waits, node(ready="Unknown", report="r2")), "it came back before it was lost again"
    let_in = fence(round=1)
    let_in = replace(let_in, status=replace(let_in.status, phase="Pending", proof=""))
    assert not may_be_off(let_in, node(ready="Unknown"))


@pytest.mark.parametrize("code", ["AnotherBoot", "AnotherMachine"])
def test_a_fence_whose_boot_was_seen_to_be_over_is_not_begun_again_when_the_node_is_gone(code: str):
    """100 of `fencing.yaml`: an earlier boot of a node was ordered off that had been shown in a later one."""
    over = fence(outcome="Unknown")
    over = replace(over, status=replace(over.status, phase="Cancelled", reason=code))
    assert act(over, None, LOST) is Action.SETTLED
    assert act(replace(over, status=replace(over.status, reason="NotLost")), None, LOST) is Action.REOPEN


def test_a_fence_is_not_cancelled_while_detectors_may_still_say_that_its_node_is_lost():
    """After a restart a storage is asked anew, and has to be looked at twice (27 of `fencing-by-storage`)."""
    soon = NodeDecision(Begin.NO, Reason("NotLost", "1 of 2 detectors say so"), after=8.0, left=8.0)
    waits = fence(outcome="Unknown")
    told = replace(waits.status, phase="Pending", attempts=(), reason="Storm", message="several are lost")
    kept = decide_fence(replace(waits, status=told), node(ready="Unknown"), LADDER, soon, {})
    assert (kept.action, kept.reason.code, kept.after) == (Action.WAIT, "Storm", 8.0)
    never = replace(soon, left=0.0)
    assert act(replace(waits, status=told), node(ready="Unknown"), never) is Action.CLOSE
    assert act(waits, node(ready="Unknown"), never) is Action.CLOSE
    assert act(waits, node(ready="Unknown"), soon) is not Action.CLOSE, "its ladder goes on"


@pytest.mark.parametrize("ladder", [LADDER, ()])
def test_an_order_that_is_not_wanted_any_more_and_has_no_answer_is_heard_out_first(ladder: Sequence[Rung]):
    assert act(fence(outcome="", spec={"unfence": True}), node(), ladder=ladder) is Action.HEAR_OUT
    assert act(fence(outcome="", spec={}), node(), HEALTHY, ladder=ladder) is Action.HEAR_OUT
    assert act(fence(outcome="", spec={}), node(ready="Unknown"), LOST) is Action.ORDER


def test_one_whose_outcome_is_not_known_is_heard_out_too_also_under_another_boot():
    """Its storage may shut out a node that answers, and no fence would be in force to let it in."""
    unheard = fence(outcome="Unknown", code="NoAnswer", spec={})
    assert act(unheard, node(), HEALTHY) is Action.HEAR_OUT
    assert act(unheard, node(boot="b2")) is Action.HEAR_OUT
    assert act(unheard, node(ready="Unknown"), LOST) is Action.ORDER
    assert act(fence(outcome="Unknown", spec={}), node(), HEALTHY) is Action.CLOSE
    assert act(fence(outcome="Unknown", code="Contradicted", spec={}), node(), HEALTHY) is Action.CLOSE


def test_a_node_that_was_registered_anew_in_the_same_boot_is_not_let_in():
    assert act(fence(scope="Network", released_at=THEN, verified_at=THEN), node(uid="u2")) is Action.WAIT


@pytest.mark.parametrize("ready", ["True", "False", "Unknown"])
@pytest.mark.parametrize("there", [{"uid": "u2"}, {"report": "r2"}])
def test_whatever_an_agent_says_in_a_boot_that_is_said_to_be_off_contradicts_that(ready: str, there: Any):
    assert act(fence(released_at=THEN), node(ready=ready, **there)) is Action.WITHDRAW


def test_a_report_that_was_there_when_the_answer_came_contradicts_nothing():
    assert act(fence(), node(ready="Unknown")) is Action.RELEASE


@pytest.mark.parametrize("ready", ["True", "False"])
def test_nothing_is_released_while_the_api_shows_the_node_as_answering(ready: str):
    """A mechanism with another machine's socket says "off", too; the node's own silence has to agree."""
    assert act(fence(), node(ready=ready)) is Action.WAIT


def test_a_boot_that_another_was_seen_to_follow_is_not_fenced_again_because_its_node_is_gone():
    """31000041 of `fencing-by-storage.yaml`: the Node went while orders were heard out."""
    over = fence(outcome="Unknown", spec={})
    followed = replace(over, status=replace(over.status, followed_by="b2"))
    assert act(over, None) is not Action.CLOSE
    assert act(followed, None) is Action.CLOSE


def test_a_fence_that_is_taken_back_before_its_release_releases_nothing():
    assert act(fence(spec={"unfence": True}), node()) is Action.UNFENCE


@pytest.mark.parametrize(
    ("seconds", "action"), [(59, Action.WAIT), (61, Action.VERIFY), (301, Action.UNFENCE)]
)
def test_a_fence_is_looked_at_again_also_while_what_the_node_had_is_being_released(
    seconds: float, action: Action
):
    """What is missing may be a taint that was taken off: it is set again."""
    held, there = fence(released_at=THEN), node(ready="Unknown")
    ages = {THEN: seconds}
    assert decide_fence(held, there, LADDER, None, ages, after_fence="PowerOn", left=True).action is action


@pytest.mark.parametrize("ready", ["True", "False", "Unknown"])
def test_another_boot_ends_the_fence_whether_it_is_ready_yet_or_lost_again(ready: str):
    assert act(fence(released_at=THEN), node(boot="b2", ready=ready)) is Action.CLOSE


def test_a_ladder_with_more_retries_than_attempts_are_kept_comes_to_its_end():
    attempts: list[FenceAttempt] = []
    for _ in range(100):
        step = next_step([Rung(mechanism="m", retries=1000)], attempts[-20:], 0, "f")
        if step is None:
            return
        attempts.append(FenceAttempt(mechanism="m", token=step.token, outcome="Unknown"))
    raise AssertionError("it goes on")


@pytest.mark.parametrize(
    "wrong",
    [
        LabelSelectorRequirement(key="a", operator="Near"),
        LabelSelectorRequirement(key="a", operator="In", values=()),
    ],
)
def test_a_selector_that_cannot_be_read_takes_no_other_policy_with_it(wrong: LabelSelectorRequirement):
    selector = LabelSelector(match_expressions=(wrong,))
    broken = FencePolicy(metadata=ObjectMeta(name="b"), spec=FencePolicySpec(node_selector=selector))
    whole = FencePolicy(metadata=ObjectMeta(name="w"))
    assert policies_of(node(), [broken, whole]) == [whole]

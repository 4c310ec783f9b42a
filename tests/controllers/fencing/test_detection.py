"""Whether a node is lost, and what holds its fence: detectors, storms, budgets, worth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.controllers.fencing.detection import (
    Company,
    Held,
    Loss,
    Signal,
    Stakes,
    Verdict,
    is_lost,
    not_worth,
    over_budget,
    policies_of,
    storm,
)
from mooring.kube.objects import LabelSelector, Node, ObjectMeta
from mooring.kube.objects.fencing import Budget, Detector, FencePolicy, FencePolicySpec, Quorum, Storm, Worth


def policy(**spec: object) -> FencePolicy:
    return FencePolicy(metadata=ObjectMeta(name="p"), spec=FencePolicySpec(**spec))  # type: ignore[arg-type]


def signal(verdict: Verdict, lasting: float = 60, *, type_: str = "Ready", needs: float = 0) -> Signal:
    return Signal(Detector(type=type_, for_seconds=needs), verdict, lasting, f"{type_} says {verdict}")


LOST, HEALTHY, UNKNOWN = Verdict.LOST, Verdict.HEALTHY, Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("signals", "required", "veto", "code"),
    [
        ([signal(LOST)], 1, True, "Lost"),
        ([signal(LOST), signal(UNKNOWN)], 1, True, "Lost"),
        ([signal(LOST), signal(UNKNOWN)], 2, True, "NotLost"),
        ([signal(LOST), signal(LOST)], 2, True, "Lost"),
        ([signal(LOST), signal(HEALTHY)], 1, True, "SeenHealthy"),
        ([signal(LOST), signal(HEALTHY)], 1, False, "Lost"),
        ([signal(LOST, 5, needs=10)], 1, True, "NotLost"),
        ([signal(UNKNOWN)], 1, True, "NotLost"),
        ([], 1, True, "NotLost"),
        ([], 0, True, "NotLost"),
    ],
)
def test_detectors_start_a_fence_by_quorum_and_one_that_sees_the_node_healthy_keeps_it(
    signals: list[Signal], required: int, veto: bool, code: str
):
    found = is_lost(signals, policy(quorum=Quorum(required=required, veto=veto)))
    assert (found.reason.code if isinstance(found, Held) else found.code) == code


def test_a_detector_that_needs_longer_is_looked_at_again_then():
    found = is_lost([signal(LOST, 4, needs=10)], policy())
    assert isinstance(found, Held)
    assert found.after == 6


@pytest.mark.parametrize(
    ("signals", "required", "after"),
    [
        ([signal(LOST, 4, needs=10), signal(LOST, 1, needs=10)], 1, 6),
        ([signal(LOST, 4, needs=10), signal(LOST, 1, needs=10)], 2, 9),
        ([signal(LOST), signal(UNKNOWN)], 2, 0),
        ([signal(LOST), signal(UNKNOWN)._replace(patience=7)], 2, 7),
        ([signal(LOST), signal(UNKNOWN, needs=30)._replace(patience=7)], 2, 30),
        ([signal(LOST, 4, needs=10)], 2, 0),
    ],
)
def test_a_node_that_may_be_lost_soon_is_looked_at_when_as_many_detectors_as_it_takes_may_have_said_so(
    signals: list[Signal], required: int, after: float
):
    found = is_lost(signals, policy(quorum=Quorum(required=required)))
    assert isinstance(found, Held)
    assert found.after == after


def lost(*names: str, fencing: bool = False, zone: str = "", plane: bool = False) -> tuple[Loss, ...]:
    return tuple(Loss(name, zone, plane, fencing) for name in names)


@pytest.mark.parametrize(
    ("company", "signals", "limits", "code"),
    [
        (Company(3, lost("a")), [signal(LOST)], Storm(), None),
        (Company(3, lost("a", "b")), [signal(LOST)], Storm(), "Storm"),
        (Company(3, lost("a", "b")), [signal(LOST)], Storm(nodes=0), None),
        (Company(9, lost("a", "b")), [signal(LOST)], Storm(nodes=3), None),
        (Company(3, lost("a", "b")), [signal(LOST), signal(LOST, type_="Mechanism")], Storm(), None),
        (Company(3, lost("a", "b")), [signal(LOST), signal(UNKNOWN, type_="Mechanism")], Storm(), "Storm"),
        (Company(3, (*lost("a"), *lost("b", fencing=True))), [signal(LOST)], Storm(), None),
        (Company(3, lost("a"), calm_for=10), [signal(LOST)], Storm(), "StormCooldown"),
        (Company(3, lost("a"), calm_for=100), [signal(LOST)], Storm(), None),
    ],
)
def test_many_nodes_lost_at_once_are_the_network_until_proved_otherwise(
    company: Company, signals: list[Signal], limits: Storm, code: str | None
):
    found = storm("another", signals, policy(storm=limits), company)
    assert (found.reason.code if found is not None else None) == code


def test_a_node_is_part_of_a_storm_though_an_order_of_before_may_have_struck_it():
    """61001847 of `fencing-by-storage.yaml`: its fence had been deleted, and it was lost anew."""
    company, limits = Company(5, (Loss("a", "", False, True), Loss("b", "", False, False))), Storm(nodes=2)
    for node, held in (("a", True), ("b", False)):
        assert (storm(node, [], policy(storm=limits), company) is not None) is held


PLANES = Budget(max_share="", max_control_plane=1, max_concurrent=50)


@pytest.mark.parametrize(
    ("budget", "fenced", "size", "held"),
    [
        (Budget(), 0, 3, False),
        (Budget(), 1, 3, True),
        (Budget(), 1, 5, False),
        (Budget(), 2, 5, True),
        (Budget(max_share="10%"), 0, 3, False),  # at least one
        (Budget(max_share="", max_concurrent=2), 1, 3, False),
        (Budget(max_share="", max_concurrent=2), 2, 30, True),
        (Budget(max_share=""), 99, 100, False),
        (Budget(max_share="", max_per_zone=1), 1, 100, True),
        (PLANES, 1, 100, True),
        (Budget(max_share="", max_control_plane=0), 1, 100, False),
    ],
)
def test_a_budget_counts_those_that_have_not_come_back(budget: Budget, fenced: int, size: int, held: bool):
    names = [f"n{number}" for number in range(fenced)]
    planes = budget.max_control_plane != 1 or budget == PLANES
    company = Company(size, lost(*names, fencing=True, zone="z", plane=planes))
    found = over_budget(Loss("a", "z", planes, False), policy(budget=budget), company)
    assert (found is not None) == held


@given(st.integers(1, 200), st.integers(0, 200), st.integers(0, 5), st.integers(0, 100))
def test_however_many_are_asked_for_no_more_than_the_budget_are_under_way(
    size: int, wanted: int, concurrent: int, share: int
):
    limits = policy(budget=Budget(max_concurrent=concurrent, max_share=f"{share}%"))
    fenced: list[str] = []
    for number in range(min(wanted, size)):
        company = Company(size, lost(*fenced, fencing=True))
        if over_budget(Loss(f"n{number}", "", False, False), limits, company) is None:
            fenced.append(f"n{number}")
    most = max(share * size // 100, 1)
    assert len(fenced) <= (min(concurrent, most) if concurrent else most)


def test_a_node_that_has_nothing_for_itself_is_not_fenced():
    assert not_worth(policy(), Stakes()) is not None
    assert not_worth(policy(), Stakes(exclusive=("a volume",))) is None
    assert not_worth(policy(worth=Worth(only_exclusive=False)), Stakes()) is None


def test_a_fence_waits_while_the_pods_tolerate_it_where_the_policy_honours_that():
    stakes = Stakes(exclusive=("a volume",), tolerated=30)
    found = not_worth(policy(worth=Worth(forgiveness="Honour")), stakes)
    assert found is not None
    assert (found.reason.code, found.after) == ("Tolerated", 30)
    assert not_worth(policy(), stakes) is None


@pytest.mark.parametrize(
    ("mine", "theirs", "waits", "held"),
    [(0, 10, True, True), (10, 10, True, False), (20, 10, True, False), (0, 10, False, False)],
)
def test_of_nodes_that_wait_for_the_budget_the_one_of_the_highest_priority_goes_first(
    mine: int, theirs: int, waits: bool, held: bool
):
    me, other = Loss("a", "", False, False, mine), Loss("b", "", False, False, theirs, waits)
    found = over_budget(me, policy(budget=Budget(max_concurrent=1)), Company(9, (me, other)))
    assert (found is not None) is held
    assert found is None or "b goes first" in found.reason.message


def test_a_node_of_higher_priority_takes_only_a_place_that_both_want():
    me, other = Loss("a", "z", False, False), Loss("b", "y", False, False, 10, waits=True)
    one_each = policy(budget=Budget(max_per_zone=1, max_share=""))
    assert over_budget(me, one_each, Company(9, (me, other))) is None


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_one_of_the_nodes_that_wait_for_the_budget_may_always_begin(priorities: list[int]):
    lost = tuple(Loss(f"n{at}", "", False, False, each, waits=True) for at, each in enumerate(priorities))
    limits = policy(budget=Budget(max_concurrent=1))
    free = [each for each in lost if over_budget(each, limits, Company(9, lost)) is None]
    assert {each.priority for each in free} == {max(priorities)}


def test_patience_lasts_as_long_as_no_disruption_budget_is_violated():
    worth = policy(worth=Worth(patience_seconds=60))
    found = not_worth(worth, Stakes(exclusive=("v",), silent=20, budgets_hold=True))
    assert found is not None
    assert found.after == 40
    assert not_worth(worth, Stakes(exclusive=("v",), silent=20, budgets_hold=False)) is None
    assert not_worth(worth, Stakes(exclusive=("v",), silent=90, budgets_hold=True)) is None


def test_policies_select_by_label_and_one_that_goes_does_not():
    node = Node(metadata=ObjectMeta(name="a", labels={"x": "1"}))  # type: ignore[arg-type]
    chosen = policy(node_selector=LabelSelector(match_labels={"x": "1"}))
    other = policy(node_selector=LabelSelector(match_labels={"x": "2"}))
    going = FencePolicy(metadata=ObjectMeta(name="q", deletion_timestamp="t"))
    assert policies_of(node, [chosen, other, going]) == [chosen]

"""What a budget's status says, from the pods that it covers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mooring.controllers.disruption.decide import (
    Action,
    BudgetDecision,
    Scale,
    decide,
    decide_uncounted,
    said_to_go,
    selector_of,
    unmanaged,
)
from mooring.kube.objects import (
    Condition,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodStatus,
)
from mooring.kube.times import format_time

NOW = datetime(2030, 1, 1, tzinfo=UTC)
OWNER = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="web", uid="s", controller=True)
SELECTOR = LabelSelector(match_labels={"app": "web"})


def pod(name: str, *, ready: bool = True, deleting: bool = False, owned: bool = True) -> Pod:
    metadata = ObjectMeta(
        name=name,
        namespace="default",
        labels={"app": "web"},
        owner_references=(OWNER,) if owned else (),
        deletion_timestamp=format_time(NOW) if deleting else None,
    )
    condition = Condition(type="Ready", status="True" if ready else "False")
    return Pod(metadata=metadata, status=PodStatus(phase="Running", conditions=(condition,)))


def budget(
    *,
    least: int | str | None = None,
    most: int | str | None = None,
    status: PodDisruptionBudgetStatus | None = None,
) -> PodDisruptionBudget:
    spec = PodDisruptionBudgetSpec(min_available=least, max_unavailable=most, selector=SELECTOR)
    metadata = ObjectMeta(name="b", namespace="default", uid="b", generation=1)
    return PodDisruptionBudget(metadata=metadata, spec=spec, status=status or PodDisruptionBudgetStatus())


def counts(decision: BudgetDecision) -> tuple[object, ...]:
    """Healthy pods, how many must be, how many there should be, disruptions allowed."""
    names = ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed")
    return tuple(decision.status[name] for name in names)


@pytest.mark.parametrize(
    ("least", "most", "wanted", "expected"),
    [
        (1, None, (), (3, 1, 4, 2)),
        (3, None, (), (3, 3, 4, 0)),
        (0, None, (), (3, 0, 4, 3)),
        ("50%", None, (5,), (3, 3, 5, 0)),  # percentages round up
        ("100%", None, (4,), (3, 4, 4, 0)),
        (None, 1, (4,), (3, 3, 4, 0)),
        (None, 2, (4,), (3, 2, 4, 1)),
        (None, "25%", (5,), (3, 3, 5, 0)),
        (None, "100%", (4,), (3, 0, 4, 3)),
        (None, 9, (4,), (3, 0, 4, 3)),
        (None, 1, (2, 3), (3, 4, 5, 0)),  # of two controllers
        (None, 1, (), (3, 0, 0, 0)),  # nothing is expected: nothing may be disrupted
        (None, None, (), (3, 0, 0, 0)),
    ],
)
def test_what_is_allowed_is_what_is_healthy_beyond_what_must_be(least, most, wanted, expected):
    pods = [pod("a"), pod("b"), pod("c"), pod("d", ready=False)]
    scales = [Scale(str(number), replicas) for number, replicas in enumerate(wanted)]
    assert counts(decide(budget(least=least, most=most), pods, scales, NOW, {})) == expected


def test_a_pod_that_goes_is_not_healthy():
    assert counts(decide(budget(least=0), [pod("a"), pod("b", deleting=True)], (), NOW, {})) == (1, 0, 2, 1)


def test_an_eviction_counts_until_the_pod_is_gone_for_two_minutes_at_most():
    evicted = {"a": format_time(NOW), "gone": format_time(NOW)}
    given = budget(least=1, status=PodDisruptionBudgetStatus(disrupted_pods=evicted))
    decision = decide(given, [pod("a"), pod("b")], (), NOW, {"a": 50.0, "gone": 0.0})
    assert counts(decision)[0] == 1
    assert decision.status["disruptedPods"] == {"a": evicted["a"], "gone": None}
    assert decision.again_s == 70
    late = decide(given, [pod("a"), pod("b")], (), NOW, {"a": 120.0, "gone": 70.0})
    assert counts(late)[0] == 2
    assert [each.name for each in late.overdue] == ["a"]


def test_a_status_that_is_true_is_not_written_again():
    pods = [pod("a"), pod("b")]
    first = decide(budget(least=1), pods, (), NOW, {})
    condition = Condition(type="DisruptionAllowed", status="True", reason="SufficientPods")
    status = PodDisruptionBudgetStatus(
        observed_generation=1,
        disruptions_allowed=1,
        current_healthy=2,
        desired_healthy=1,
        expected_pods=2,
        conditions=(condition,),
    )
    assert first.action is Action.UPDATE
    assert decide(budget(least=1, status=status), pods, (), NOW, {}).action is Action.KEEP


def test_the_condition_keeps_the_time_of_its_last_change():
    held = Condition(type="DisruptionAllowed", status="True", last_transition_time="2029-01-01T00:00:00Z")
    given = budget(least=1, status=PodDisruptionBudgetStatus(conditions=(held,)))
    [kept] = decide(given, [pod("a"), pod("b")], (), NOW, {}).status["conditions"]
    [changed] = decide(given, [pod("a")], (), NOW, {}).status["conditions"]
    assert (kept["status"], kept["lastTransitionTime"]) == ("True", "2029-01-01T00:00:00Z")
    assert (changed["status"], changed["lastTransitionTime"]) == ("False", format_time(NOW))
    assert (changed["reason"], changed["observedGeneration"]) == ("InsufficientPods", 1)


def test_what_cannot_be_counted_allows_nothing_and_leaves_the_generation_uncounted():
    status = PodDisruptionBudgetStatus(disruptions_allowed=2, current_healthy=3, desired_healthy=1)
    decision = decide_uncounted(budget(most=1, status=status), "found no controllers", NOW)
    assert decision.status["disruptionsAllowed"] == 0
    assert "observedGeneration" not in decision.status
    [condition] = decision.status["conditions"]
    assert (condition["reason"], condition["message"]) == ("SyncFailed", "found no controllers")


def test_pods_without_a_controller_are_named():
    assert unmanaged([pod("a")]) is None
    warning = unmanaged([pod("a"), pod("lone", owned=False)])
    assert warning is not None
    assert "pods lone are not counted" in warning.message


def test_no_selector_covers_nothing_and_an_empty_one_everything():
    spec = PodDisruptionBudgetSpec(min_available=1)
    assert not selector_of(PodDisruptionBudget(spec=spec)).matches({"app": "web"})
    every = PodDisruptionBudgetSpec(min_available=1, selector=LabelSelector())
    assert selector_of(PodDisruptionBudget(spec=every)).matches({"app": "web"})


@pytest.mark.parametrize(
    ("status", "deleting", "expected"),
    [("True", False, {"u": format_time(NOW)}), ("False", False, {}), ("True", True, {})],
)
def test_a_pod_is_said_to_go_until_it_goes(status, deleting, expected):
    condition = Condition(type="DisruptionTarget", status=status, last_transition_time=format_time(NOW))
    metadata = ObjectMeta(name="p", uid="u", deletion_timestamp=format_time(NOW) if deleting else None)
    given = Pod(metadata=metadata, status=PodStatus(phase="Running", conditions=(condition,)))
    assert said_to_go(given) == expected

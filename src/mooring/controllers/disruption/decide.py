"""How many of a budget's pods may be disrupted now. Pure.

An eviction that the API server has granted counts as a disruption until the pod is gone, for at most two
minutes: caches need not have seen it yet. What cannot be counted allows no disruption.
Rules: upstream's disruption controller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import NamedTuple

import msgspec

from mooring.kube.decision import Decision
from mooring.kube.disruption import DISRUPTION_TARGET
from mooring.kube.objects import Pod, PodDisruptionBudget
from mooring.kube.percentages import portion
from mooring.kube.readiness import ready_since
from mooring.kube.reason import Reason
from mooring.kube.selectors import LabelSelector, label_selector_of
from mooring.kube.times import format_time

DELETION_TIMEOUT_S = 120.0
"""How long after its eviction a pod must be gone or ending; else the eviction is taken as not made."""
STALE_CONDITION_S = 120.0
"""After this time without a deletion the condition DisruptionTarget of a pod is taken back."""
ALLOWED = "DisruptionAllowed"
_UNMANAGED = (
    'they have no controller, and only a budget with a whole number as ".spec.minAvailable" can count such '
    "pods"
)


class Action(Enum):
    """What to do with a budget's status."""

    UPDATE = "Update"
    KEEP = "Keep"


class Count(NamedTuple):
    """What a budget's status says. `disrupted`: evicted pods that have not gone yet -> when."""

    current: int
    desired: int
    expected: int
    disrupted: Mapping[str, str]

    @property
    def allowed(self) -> int:
        return max(self.current - self.desired, 0) if self.expected > 0 else 0


class BudgetDecision(Decision[Action], frozen=True, gc=False):
    """What to do with the status of one budget. `status`: for UPDATE. `overdue`: pods whose eviction is taken
    as not made. `again_s`: after so many seconds the count may be another one without any event."""

    status: Mapping[str, object] = {}
    overdue: tuple[Pod, ...] = ()
    again_s: float | None = None


class Scale(NamedTuple):
    """A controller of pods, and the number of pods that it wants."""

    uid: str
    replicas: int


def selector_of(budget: PodDisruptionBudget) -> LabelSelector:
    """Returns the selector of the budget's pods."""
    return label_selector_of(budget.spec.selector)


def needs_scales(budget: PodDisruptionBudget) -> bool:
    """Whether the number of pods that there should be matters."""
    return budget.spec.max_unavailable is not None or isinstance(budget.spec.min_available, str)


def decide(
    budget: PodDisruptionBudget,
    pods: Sequence[Pod],
    scales: Sequence[Scale],
    now: datetime,
    ages: Mapping[str, float],
) -> BudgetDecision:
    """Returns the status that the budget should have. `pods`: those that the budget covers. `scales`: their
    controllers, which matter if `needs_scales`. `ages`: for how many seconds it is known, for each pod that
    the status calls evicted, that it was."""
    disrupted, overdue, again = _disrupted(budget, pods, ages)
    healthy = [pod for pod in pods if pod.name not in disrupted and _healthy(pod)]
    desired, expected = _desired(budget, len(pods), sum(each.replicas for each in scales))
    count = Count(len(healthy), desired, expected, disrupted)
    code = "SufficientPods" if count.allowed > 0 else "InsufficientPods"
    message = f"{count.current} of {expected} pods are healthy, {desired} must be"
    if not _differs(budget, count, code):
        return BudgetDecision(Action.KEEP, Reason(code, message), overdue=overdue, again_s=again)
    status = _status(budget, count, Reason(code, ""), now)
    return BudgetDecision(Action.UPDATE, Reason(code, message), status, overdue, again)


def decide_uncounted(budget: PodDisruptionBudget, message: str, now: datetime) -> BudgetDecision:
    """Returns the status of a budget whose pods could not be counted: no disruption is allowed."""
    held = budget.status
    count = Count(held.current_healthy, held.desired_healthy, 0, held.disrupted_pods)
    reason = Reason("SyncFailed", message)
    if held.disruptions_allowed == 0 and _condition(budget)[1:] == ("False", *reason):
        return BudgetDecision(Action.KEEP, reason)
    status = _status(budget, count, reason, now)
    for field in ("expectedPods", "observedGeneration"):  # as they were: nothing was counted
        del status[field]
    return BudgetDecision(Action.UPDATE, reason, status)


def unmanaged(pods: Sequence[Pod]) -> Reason | None:
    """Returns what to warn of if pods have no controller."""
    names = [pod.name for pod in pods if pod.controller is None]
    return (
        Reason("UnmanagedPods", f"pods {', '.join(names[:10])} are not counted: {_UNMANAGED}")
        if names
        else None
    )


def said_to_go(pod: Pod) -> dict[str, str]:
    """Returns the pod's uid, and when its condition DisruptionTarget was set; nothing if the pod has none, or
    goes."""
    found = next((each for each in pod.status.conditions if each.type == DISRUPTION_TARGET), None)
    if found is None or found.status != "True" or pod.deleting or pod.finished:
        return {}
    return {pod.uid: found.last_transition_time or ""}


def _disrupted(
    budget: PodDisruptionBudget, pods: Sequence[Pod], ages: Mapping[str, float]
) -> tuple[dict[str, str], tuple[Pod, ...], float | None]:
    """Returns the evicted pods that have not gone yet, those that should have, and when to look again."""
    kept: dict[str, str] = {}
    overdue: list[Pod] = []
    left: list[float] = []
    for pod in pods:
        evicted = budget.status.disrupted_pods.get(pod.name)
        if evicted is None or pod.deleting:
            continue
        if (remaining := DELETION_TIMEOUT_S - ages[pod.name]) <= 0:
            overdue.append(pod)
            continue
        kept[pod.name] = evicted
        left.append(remaining)
    return kept, tuple(overdue), min(left, default=None)


def _healthy(pod: Pod) -> bool:
    return not pod.deleting and ready_since(pod) is not None


def _desired(budget: PodDisruptionBudget, covered: int, wanted: int) -> tuple[int, int]:
    """Returns how many pods must be healthy, and how many there should be."""
    least, most = budget.spec.min_available, budget.spec.max_unavailable
    if most is not None:
        return max(wanted - portion(most, wanted, up=True), 0), wanted
    if isinstance(least, str):
        return portion(least, wanted, up=True), wanted
    return (0, 0) if least is None else (least, covered)


def _condition(budget: PodDisruptionBudget) -> tuple[str, str, str, str]:
    """Returns when the condition changed, its status, reason and message."""
    held = next((each for each in budget.status.conditions if each.type == ALLOWED), None)
    return (
        ("", "", "", "")
        if held is None
        else (held.last_transition_time or "", held.status, held.reason, held.message)
    )


def _differs(budget: PodDisruptionBudget, count: Count, code: str) -> bool:
    held = budget.status
    now_held = (held.current_healthy, held.desired_healthy, held.expected_pods, held.disrupted_pods)
    return (
        now_held != count
        or held.disruptions_allowed != count.allowed
        or held.observed_generation != budget.metadata.generation
        or _condition(budget)[2] != code
    )


def _status(budget: PodDisruptionBudget, count: Count, reason: Reason, now: datetime) -> dict[str, object]:
    """Returns the whole status. In `disruptedPods` None takes an entry away: it is sent as a merge patch."""
    since, before, _, _ = _condition(budget)
    value = "True" if count.allowed > 0 else "False"
    condition = {
        "type": ALLOWED,
        "status": value,
        "reason": reason.code,
        "message": reason.message,
        "observedGeneration": budget.metadata.generation,
        "lastTransitionTime": since if before == value else format_time(now),
    }
    others = [msgspec.to_builtins(each) for each in budget.status.conditions if each.type != ALLOWED]
    return {
        "observedGeneration": budget.metadata.generation,
        "disruptionsAllowed": count.allowed,
        "currentHealthy": count.current,
        "desiredHealthy": count.desired,
        "expectedPods": count.expected,
        "disruptedPods": dict.fromkeys(budget.status.disrupted_pods) | dict(count.disrupted),
        "conditions": [*others, condition],
    }

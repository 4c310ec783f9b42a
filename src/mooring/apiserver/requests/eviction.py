"""May a pod be evicted? The rules of disruption budgets. Pure.

Upstream's disruption controller counts pods and writes how many disruptions a budget allows; the eviction
subresource spends them. Where no such controller has looked at a budget yet (`status.observedGeneration` is
missing), as in the embedded cluster, the same count is made here from the pods themselves.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Any

from mooring.apiserver.errors import Obj, Resource, TooManyRequests, Unclassified, forbidden
from mooring.apiserver.values.dotted import object_at, objects_at, strings_at, text_at, value_at
from mooring.kube.selectors import label_selector_from_object

Scale = Callable[[Obj], int | None]
"""How many pods a pod's controller wants, or None if it has no controller or none that scales."""

_TERMINAL = ("Succeeded", "Failed", "Pending")
_MAX_DISRUPTED = 2000
_RESOURCE = Resource("policy", "poddisruptionbudgets")


@dataclass(frozen=True, slots=True)
class Health:
    """How a budget stands: pods that are healthy, that must be, and disruptions still allowed."""

    current: int
    desired: int
    allowed: int


def needs_budget(pod: Obj) -> bool:
    """Whether evicting the pod disrupts anything: one that is finished, not started or going already does
    not."""
    return text_at(pod, "status.phase") not in _TERMINAL and not value_at(pod, "metadata.deletionTimestamp")


def budget_for(pod: Obj, budgets: Sequence[Obj]) -> Obj | None:
    """The one budget that covers the pod, or None. Raises Unclassified if several do (upstream's rule)."""
    namespace, labels = text_at(pod, "metadata.namespace"), strings_at(pod, "metadata.labels")
    covering = [
        budget
        for budget in budgets
        if text_at(budget, "metadata.namespace") == namespace
        and label_selector_from_object(value_at(budget, "spec.selector")).matches(labels)
    ]
    if len(covering) > 1:
        raise Unclassified(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    return covering[0] if covering else None


def spent(budget: Obj, pod: Obj, health: Health, now: str) -> Obj | None:
    """The budget after this eviction, or None if it need not be written.

    Raises TooManyRequests if the budget does not allow the eviction.
    """
    counted = value_at(budget, "status.observedGeneration") is not None
    if counted and value_at(budget, "status.observedGeneration") < value_at(budget, "metadata.generation"):
        raise _refused(
            f"The disruption budget {_name(budget)} is still being processed by the server.", retry=10
        )
    if not is_ready(pod) and _spares_unready(budget, health):
        return None
    if health.allowed < 0 or len(object_at(budget, "status.disruptedPods")) > _MAX_DISRUPTED:
        why = "it allows a negative number of disruptions, or has too many under way"
        raise forbidden(_RESOURCE, _name(budget), why)
    if health.allowed == 0:
        needed, current = health.desired, health.current
        told = f"needs {needed} healthy pods and has {current} currently"
        if current > needed:
            told = "does not allow evicting pods currently"
        raise _refused(f"The disruption budget {_name(budget)} {told}")
    return _with_disruption(budget, pod, now) if counted else None


def health(budget: Obj, pods: Sequence[Obj], scale: Scale) -> Health:
    """How a budget stands: by its status if a disruption controller keeps it, else counted from the pods it
    covers."""
    status = object_at(budget, "status")
    if status.get("observedGeneration") is not None:
        counts = (
            int(status.get(name) or 0) for name in ("currentHealthy", "desiredHealthy", "disruptionsAllowed")
        )
        return Health(*counts)
    selector = label_selector_from_object(value_at(budget, "spec.selector"))
    namespace = text_at(budget, "metadata.namespace")
    near = [pod for pod in pods if text_at(pod, "metadata.namespace") == namespace]
    covered = [pod for pod in near if selector.matches(strings_at(pod, "metadata.labels"))]
    current = sum(is_ready(pod) and not value_at(pod, "metadata.deletionTimestamp") for pod in covered)
    desired = _desired(budget, covered, scale)
    return Health(current, desired, max(0, current - desired))


def is_ready(pod: Obj) -> bool:
    return any(
        c.get("type") == "Ready" and c.get("status") == "True" for c in objects_at(pod, "status.conditions")
    )


def _desired(budget: Obj, covered: Sequence[Obj], scale: Scale) -> int:
    most, least = value_at(budget, "spec.maxUnavailable"), value_at(budget, "spec.minAvailable")
    if most is None and not isinstance(least, str):
        return int(least or 0)
    expected = _expected(covered, scale)
    return expected - _portion(most, expected) if most is not None else _portion(least, expected)


def _expected(covered: Sequence[Obj], scale: Scale) -> int:
    """The pods that there should be: each controller's scale once, and each pod without one for itself."""
    by_controller: dict[str, int] = {}
    lone = 0
    for pod in covered:
        owner = next(
            (each for each in objects_at(pod, "metadata.ownerReferences") if each.get("controller")), None
        )
        wanted = scale(pod)
        if owner is None or wanted is None:
            lone += 1
        else:
            by_controller[text_at(owner, "uid")] = wanted
    return lone + sum(by_controller.values())


def _portion(amount: Any, whole: int) -> int:
    """A number, or a percentage of `whole` rounded up."""
    if isinstance(amount, str) and amount.endswith("%"):
        share = Decimal(amount.removesuffix("%")) * whole / 100
        return int(share.to_integral_value(ROUND_CEILING))
    return int(amount or 0)


def _spares_unready(budget: Obj, health: Health) -> bool:
    if text_at(budget, "spec.unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return health.current >= health.desired > 0


def _with_disruption(budget: Obj, pod: Obj, now: str) -> Obj:
    after = deepcopy(budget)
    status = after["status"]
    status["disruptionsAllowed"] = int(status["disruptionsAllowed"]) - 1
    _note_allowed(status, now)
    status["disruptedPods"] = object_at(after, "status.disruptedPods") | {text_at(pod, "metadata.name"): now}
    return after


def _note_allowed(status: Obj, now: str) -> None:
    """Say in the conditions whether more disruptions are allowed."""
    value, reason = (
        ("True", "SufficientPods") if status["disruptionsAllowed"] > 0 else ("False", "InsufficientPods")
    )
    others = [each for each in objects_at(status, "conditions") if each.get("type") != _ALLOWED]
    before = next((each for each in objects_at(status, "conditions") if each.get("type") == _ALLOWED), None)
    when = before["lastTransitionTime"] if before and before.get("status") == value else now
    told: Obj = {
        "type": _ALLOWED,
        "status": value,
        "reason": reason,
        "message": "",
        "lastTransitionTime": when,
    }
    status["conditions"] = [*others, told | {"observedGeneration": status["observedGeneration"]}]


def _name(budget: Obj) -> str:
    return text_at(budget, "metadata.name")


_ALLOWED = "DisruptionAllowed"


def _refused(told: str, retry: int = 0) -> TooManyRequests:
    cause = {"reason": "DisruptionBudget", "message": told}
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return TooManyRequests(message, causes=[cause], retryAfterSeconds=retry or None)

"""Whether disruption budgets allow the eviction of a pod, and the budget after it. Pure.

The disruption controller counts pods and writes how many disruptions a budget allows; the eviction
subresource spends them. A budget that no controller has counted since it was changed allows nothing: the
client gets 429 with a time to wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from mooring.apiserver.errors import Obj, Resource, TooManyRequests, Unclassified, forbidden
from mooring.apiserver.values.dotted import object_at, objects_at, strings_at, text_at, value_at
from mooring.kube.selectors import label_selector_from_object

_TERMINAL = ("Succeeded", "Failed", "Pending")
_MAX_DISRUPTED = 2000
_RESOURCE = Resource("policy", "poddisruptionbudgets")


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


def spent(budget: Obj, pod: Obj, now: str) -> Obj | None:
    """The budget after this eviction, or None if it need not be written.

    Raises TooManyRequests if the budget does not allow the eviction.
    """
    if not is_ready(pod) and _spares_unready(budget):
        return None
    counted = int(value_at(budget, "status.observedGeneration") or 0)
    if counted < int(value_at(budget, "metadata.generation") or 0):
        raise _refused(
            f"The disruption budget {_name(budget)} is still being processed by the server.", retry=10
        )
    allowed = int(value_at(budget, "status.disruptionsAllowed") or 0)
    if allowed < 0:
        raise forbidden(_RESOURCE, _name(budget), "pdb disruptions allowed is negative")
    if len(object_at(budget, "status.disruptedPods")) > _MAX_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden(_RESOURCE, _name(budget), why)
    if allowed == 0:
        raise _refused(f"The disruption budget {_name(budget)} {_why_none(budget)}")
    return _with_disruption(budget, pod, now)


def _why_none(budget: Obj) -> str:
    conditions = objects_at(budget, "status.conditions")
    held: Obj = next((each for each in conditions if each.get("type") == _ALLOWED), Obj())
    reason = text_at(held, "reason")
    why = text_at(held, "message") if held.get("status") == "False" else ""
    if why and reason == "SyncFailed":
        return f"does not allow evicting pods currently because it failed sync: {why}"
    current, needed = _healthy(budget)
    if current <= needed:
        return f"needs {needed} healthy pods and has {current} currently"
    return "does not allow evicting pods currently" + (f" ({reason}): {why}" if why else "")


def _healthy(budget: Obj) -> tuple[int, int]:
    """How many pods are healthy, and how many must be."""
    status = object_at(budget, "status")
    return int(status.get("currentHealthy") or 0), int(status.get("desiredHealthy") or 0)


def is_ready(pod: Obj) -> bool:
    return any(
        c.get("type") == "Ready" and c.get("status") == "True" for c in objects_at(pod, "status.conditions")
    )


def _spares_unready(budget: Obj) -> bool:
    if text_at(budget, "spec.unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    current, needed = _healthy(budget)
    return current >= needed > 0


def _with_disruption(budget: Obj, pod: Obj, now: str) -> Obj:
    after = deepcopy(budget)
    status = after["status"]
    status["disruptionsAllowed"] = int(status["disruptionsAllowed"]) - 1
    _note_allowed(status, now)
    status["disruptedPods"] = object_at(after, "status.disruptedPods") | {text_at(pod, "metadata.name"): now}
    return after


def _note_allowed(status: Obj, now: str) -> None:
    """Says in the conditions whether more disruptions are allowed."""
    value, reason = (
        ("True", "SufficientPods") if status["disruptionsAllowed"] > 0 else ("False", "InsufficientPods")
    )
    others = [each for each in objects_at(status, "conditions") if each.get("type") != _ALLOWED]
    before = next((each for each in objects_at(status, "conditions") if each.get("type") == _ALLOWED), None)
    when = before["lastTransitionTime"] if before and before.get("status") == value else now
    condition: Obj = {
        "type": _ALLOWED,
        "status": value,
        "reason": reason,
        "message": "",
        "lastTransitionTime": when,
    }
    status["conditions"] = [*others, condition | {"observedGeneration": status["observedGeneration"]}]


def _name(budget: Obj) -> str:
    return text_at(budget, "metadata.name")


_ALLOWED = "DisruptionAllowed"


def _refused(detail: str, retry: int = 0) -> TooManyRequests:
    cause = {"reason": "DisruptionBudget", "message": detail}
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return TooManyRequests(message, causes=[cause], retryAfterSeconds=retry or None)

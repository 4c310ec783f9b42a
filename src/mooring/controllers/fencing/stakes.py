"""What waits for a node that may be lost: its volumes, its pods' identities, their tolerance, their priority,
and the disruption budgets that cover them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mooring.controllers.fencing.detection import Stakes
from mooring.controllers.fencing.keeping import is_identity
from mooring.kube.objects import Node, Pod, PodDisruptionBudget, Taint
from mooring.kube.selectors import InvalidSelector, label_selector_of
from mooring.kube.taints import matching
from mooring.volumes.claims import claims_of

UNREACHABLE = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute")


def stakes_of(
    node: Node, pods: Sequence[Pod], budgets: Iterable[PodDisruptionBudget], silent: float
) -> Stakes:
    """`pods`: those of the node. `silent`: for how long it has been silent, in seconds."""
    volumes = [*(each.name for each in node.status.volumes_attached), *node.status.volumes_in_use]
    owned = [each.key for each in pods if is_identity(each)]
    return Stakes(
        tuple(dict.fromkeys((*volumes, *owned))),
        _tolerated(pods, silent),
        silent,
        budgets_hold=not any(_is_violated(each, pods) for each in budgets),
        priority=max(
            (each.spec.priority for each in pods if is_identity(each) or claims_of(each)), default=0
        ),
    )


def _is_violated(budget: PodDisruptionBudget, pods: Iterable[Pod]) -> bool:
    """Whether it covers a pod of the node, and fewer of its pods are healthy than it asks for. One whose
    status is not of its present spec, or whose selector cannot be read, counts as violated: what it allows is
    not known."""
    if budget.spec.selector is None:
        return False
    try:
        covers = label_selector_of(budget.spec.selector).matches
    except InvalidSelector:
        return True
    if not any(each.namespace == budget.namespace and covers(each.metadata.labels) for each in pods):
        return False
    status = budget.status
    known = status.observed_generation >= budget.metadata.generation
    return not known or status.current_healthy < status.desired_healthy


def _tolerated(pods: Sequence[Pod], silent: float) -> float:
    """For how many more seconds all of the pods tolerate a node that does not answer."""
    limits: list[float] = []
    for pod in pods:
        found = matching(pod, UNREACHABLE)
        seconds = [each.toleration_seconds for each in found if each.toleration_seconds is not None]
        limits.append(float(min(seconds)) if seconds else float("inf") if found else 0.0)
    return max(min(limits, default=0.0) - silent, 0.0)

"""Whether a node is lost, and whether it may be fenced now: detectors, storms, budgets, worth. Pure.

No number of votes is evidence: they start a fence, or keep one from being started. What shows that a node is
cut off, a mechanism shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from mooring.kube.objects import Node
from mooring.kube.objects.fencing import Detector, FencePolicy
from mooring.kube.percentages import portion
from mooring.kube.reason import Reason
from mooring.kube.selectors import InvalidSelector, label_selector_of

ZONE = "topology.kubernetes.io/zone"
CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


class Verdict(StrEnum):
    """What a detector says of a node."""

    LOST = "Lost"
    HEALTHY = "Healthy"
    UNKNOWN = "Unknown"


class Signal(NamedTuple):
    """One detector's word. `lasting`: for how many seconds it has been so."""

    detector: Detector
    verdict: Verdict
    lasting: float
    message: str

    @property
    def lost(self) -> bool:
        return self.verdict is Verdict.LOST and self.lasting >= self.detector.for_seconds


class Held(NamedTuple):
    """Why a fence is not begun now; `after`: seconds until that may change by itself, 0 if only a change
    does."""

    reason: Reason
    after: float = 0.0


class Loss(NamedTuple):
    """One node of a policy that is lost, or is being fenced."""

    node: str
    zone: str
    control_plane: bool
    fencing: bool


class Company(NamedTuple):
    """The nodes of the policy. `lost`: those that the first detectors call lost, and those being fenced.
    `calm_for`: seconds since there was last a storm."""

    size: int
    lost: tuple[Loss, ...]
    calm_for: float = float("inf")


class Stakes(NamedTuple):
    """What waits for the node. `exclusive`: what it has that no other node may use meanwhile, in words.
    `tolerated`: for how many more seconds all its pods tolerate it. `silent`: for how long it has been
    silent. `budgets_hold`: no PodDisruptionBudget of its pods is violated."""

    exclusive: tuple[str, ...] = ()
    tolerated: float = 0.0
    silent: float = 0.0
    budgets_hold: bool = False


def policies_of(node: Node, policies: Iterable[FencePolicy]) -> list[FencePolicy]:
    """The policies that select the node; more than one is an overlap, and none of them counts then."""
    return [each for each in policies if not each.deleting and _selects(each, node)]


def _selects(policy: FencePolicy, node: Node) -> bool:
    """A selector that cannot be read selects nothing; the policy's status says so."""
    try:
        return label_selector_of(policy.spec.node_selector).matches(node.metadata.labels)
    except InvalidSelector:
        return False


def is_lost(signals: Sequence[Signal], policy: FencePolicy) -> Reason | Held:
    """The reason why it counts as lost, or what is missing for that."""
    lost = [each for each in signals if each.lost]
    healthy = [each for each in signals if each.verdict is Verdict.HEALTHY]
    quorum = policy.spec.quorum
    if quorum.veto and healthy:
        return Held(Reason("SeenHealthy", "; ".join(each.message for each in healthy)))
    if len(lost) < max(quorum.required, 1):
        waiting = [
            each.detector.for_seconds - each.lasting for each in signals if each.verdict is Verdict.LOST
        ]
        after = min((each for each in waiting if each > 0), default=0.0)
        said = "; ".join(each.message for each in signals) or "no detector says anything"
        words = f"{len(lost)} of {max(quorum.required, 1)} detectors say that it is lost: {said}"
        return Held(Reason("NotLost", words), after)
    return Reason("Lost", "; ".join(each.message for each in lost))


def storm(signals: Sequence[Signal], policy: FencePolicy, company: Company) -> Held | None:
    """Many nodes lost at once are the network until proved otherwise."""
    limits = policy.spec.storm
    others = sum(each.lost and each.detector.type != "Ready" for each in signals)
    if not limits.nodes or others >= max(limits.required, 1):
        return None
    names = sorted(each.node for each in company.lost if not each.fencing)
    if len(names) >= limits.nodes:
        message = (
            f"{len(names)} of {company.size} nodes were lost at once ({', '.join(names[:5])}): that is the network "
            "until a detector that does not use it says otherwise, or a person does"
        )
        return Held(Reason("Storm", message))
    left = limits.cooldown_seconds - company.calm_for
    return (
        Held(Reason("StormCooldown", "several nodes were lost at once a moment ago"), left)
        if left > 0
        else None
    )


def over_budget(node: Loss, policy: FencePolicy, company: Company) -> Held | None:
    """Whether one more fence were too many."""
    budget = policy.spec.budget
    fencing = [each for each in company.lost if each.fencing and each.node != node.node]
    limits: list[tuple[int, int, str]] = []
    if budget.max_concurrent:
        limits.append((len(fencing), budget.max_concurrent, "nodes"))
    if budget.max_share:
        most = max(portion(budget.max_share, company.size, up=False), 1)
        limits.append((len(fencing), most, f"nodes ({budget.max_share} of {company.size})"))
    if budget.max_per_zone and node.zone:
        here = sum(each.zone == node.zone for each in fencing)
        limits.append((here, budget.max_per_zone, f"nodes of zone {node.zone}"))
    if node.control_plane and budget.max_control_plane:
        planes = sum(each.control_plane for each in fencing)
        limits.append((planes, budget.max_control_plane, "nodes of the control plane"))
    for used, most, what in limits:
        if used >= most:
            names = ", ".join(sorted(each.node for each in fencing)[:5]) or "none"
            message = f"{used} of at most {most} {what} are fenced already ({names}): the policy's budget is used up"
            return Held(Reason("BudgetExhausted", message))
    return None


def not_worth(policy: FencePolicy, stakes: Stakes) -> Held | None:
    """Whether there is a reason to fence it now."""
    worth = policy.spec.worth
    if worth.only_exclusive and not stakes.exclusive:
        message = (
            "it has no volume and no pod of a StatefulSet that only it may have: nothing waits for a fence"
        )
        return Held(Reason("NothingWaits", message))
    if worth.forgiveness == "Honour" and stakes.tolerated > 0:
        message = "its pods tolerate that it does not answer, for a while yet"
        return Held(Reason("Tolerated", message), stakes.tolerated)
    left = worth.patience_seconds - stakes.silent
    if left > 0 and stakes.budgets_hold:
        message = (
            f"no disruption budget of its pods is violated: it has {worth.patience_seconds:g} s to come back"
        )
        return Held(Reason("Patience", message), left)
    return None


def loss_of(node: Node, fencing: bool) -> Loss:
    labels = node.metadata.labels
    return Loss(node.name, labels.get(ZONE, ""), any(each in labels for each in CONTROL_PLANE), fencing)

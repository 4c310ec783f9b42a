"""How far a NodeFence is, and what it has shown, as all its readers judge it. Pure."""

from __future__ import annotations

from mooring.kube.objects.fencing import FenceAttempt, NodeFence

_FENCED, _POWER = "Fenced", "Power"
"""As `mooring.fence.interface` names the outcome and the scope."""


class Phase:
    """Of a NodeFence."""

    PENDING = "Pending"
    FENCING = "Fencing"
    AWAITING_PERSON = "AwaitingPerson"
    FENCED = "Fenced"
    UNFENCED = "Unfenced"
    CANCELLED = "Cancelled"
    REFUSED = "Refused"

    OVER = (UNFENCED, CANCELLED, REFUSED)
    OPEN = (PENDING, FENCING, AWAITING_PERSON, FENCED)


def proof_of(fence: NodeFence) -> FenceAttempt | None:
    """The attempt whose evidence counts; None if there is none."""
    token = fence.status.proof
    if not token:
        return None
    found = (each for each in fence.status.attempts if each.token == token)
    return next((each for each in found if each.outcome == _FENCED), None)


def node_uid_of(fence: NodeFence) -> str:
    """Which registration of its node it is about; "" if that is not known yet."""
    return fence.status.target.node_uid if fence.status.target is not None else fence.spec.node_uid


def is_off(proof: FenceAttempt) -> bool:
    """Whether it shows that nothing of that boot runs any more, and not only where it cannot write."""
    return proof.scope == _POWER

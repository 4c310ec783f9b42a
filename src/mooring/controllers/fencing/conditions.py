"""A condition of the kinds of fencing.mooring.dev, as it is written. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.kube.objects import Condition


def condition(
    before: Iterable[Condition], kind: str, status: str, reason: str, message: str, now: str
) -> dict[str, str]:
    """It keeps the time at which its status last changed. `before`: those that stand there; `now`: as the API
    writes times."""
    held = next((each for each in before if each.type == kind), None)
    since = held.last_transition_time if held is not None and held.status == status else None
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since or now,
    }

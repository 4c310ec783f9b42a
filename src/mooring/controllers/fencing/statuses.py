"""Writes NodeFences: the status, and before an order is given that may have been given before."""

from __future__ import annotations

from typing import Any

from mooring.controllers.fencing import metrics
from mooring.controllers.fencing.detection import HEARD_BY_PEERS
from mooring.controllers.fencing.names import TAKEN_UP
from mooring.kube.client import Client
from mooring.kube.informer import Informer
from mooring.kube.objects.fencing import NodeFence
from mooring.kube.reason import Reason
from mooring.kube.times import Now, format_time
from mooring.volumes.node_fences import Phase

NOTHING_IN_FORCE = {"proof": "", "releasedAt": "", "powerOnAt": "", "lettingIn": False, "letInAt": ""}


class Statuses:
    """Of all fences. What is written is in the cache at once."""

    def __init__(self, client: Client, fences: Informer[NodeFence], now: Now) -> None:
        self._client, self._fences, self._now = client, fences, now

    async def write(self, fence: NodeFence, reason: Reason, phase: str, more: dict[str, Any]) -> NodeFence:
        """Writes the fence's status, unless that changes nothing."""
        status = {"phase": phase, "reason": reason.code, "message": reason.message, **more}
        if (
            all(getattr(fence.status, each) == status[each] for each in ("phase", "reason", "message"))
            and not more
        ):
            return fence
        if fence.status.waits_until and reason.code != fence.status.reason:
            status = {"waitsUntil": "", **status}
        status |= _conditions(fence, reason, self._now)
        written = await self._client.revise(fence, {"status": status}, subresource="status")
        self._fences.accept(written)
        metrics.counted(self._fences.items(), Phase.OPEN)
        return written

    async def take_up(self, fence: NodeFence) -> NodeFence:
        """Before the outcome of an order is changed whose answer is not known: an answer to it that is still
        to be written, by a former leader, is refused from then on (docs/protocol.md, C3: a change of nothing
        leaves late writes valid)."""
        patch = {"metadata": {"annotations": {TAKEN_UP: fence.metadata.resource_version}}}
        taken = await self._client.revise(fence, patch)
        self._fences.accept(taken)
        return taken


def _conditions(fence: NodeFence, reason: Reason, now: Now) -> dict[str, Any]:
    """Whether peers keep the fence from being begun, once they have done so."""
    held = next((each for each in fence.status.conditions if each.type == HEARD_BY_PEERS), None)
    status = "True" if reason.code == HEARD_BY_PEERS else "False"
    if held is None and status == "False":
        return {}
    same = held is not None and held.status == status
    if same and held is not None and held.message == reason.message:
        return {}
    condition = {
        "type": HEARD_BY_PEERS,
        "status": status,
        "reason": reason.code,
        "message": reason.message if status == "True" else "no peer's word keeps it from being fenced",
        "lastTransitionTime": held.last_transition_time if same and held is not None else format_time(now()),
    }
    return {"conditions": [condition]}

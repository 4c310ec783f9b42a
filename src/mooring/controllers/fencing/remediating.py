"""Does what `remediation` has decided about a request of an external health check, and tells it of its fence.

Each write can be repeated: the fence has a name that follows from the request, and the finalizer goes last.
"""

from __future__ import annotations

import contextlib
from typing import Any, assert_never

from mooring.controllers.fencing.conditions import condition
from mooring.controllers.fencing.detection import policies_of
from mooring.controllers.fencing.keys import RemediationKey
from mooring.controllers.fencing.names import new_fence
from mooring.controllers.fencing.remediation import (
    REMEDIATION_FINALIZER,
    Remedy,
    RemedyDecision,
    decide_remedy,
    node_of,
)
from mooring.kube.client import Client
from mooring.kube.errors import AlreadyExists, NotFound
from mooring.kube.informer import Informer
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import FencePolicy, FenceRemediation, NodeFence
from mooring.kube.times import Now, format_time


class Remediations:
    """Requests of external health checks, by what the caches show."""

    def __init__(
        self,
        client: Client,
        nodes: Informer[Node],
        policies: Informer[FencePolicy],
        fences: Informer[NodeFence],
        requests: Informer[FenceRemediation],
        *,
        now: Now,
    ) -> None:
        self._client, self._now = client, now
        self._nodes, self._policies, self._fences, self._requests = nodes, policies, fences, requests

    def about(self, node: str) -> list[RemediationKey]:
        """The requests about the node."""
        return [key_of(each) for each in self._requests.items() if node_of(each) == node]

    async def reconcile(self, key: RemediationKey) -> None:
        """Looks at one request."""
        request = self._requests.get(key.name)
        if request is None:
            return
        name = node_of(request)
        node = self._nodes.get(name)
        fences = [each for each in self._fences.items() if each.spec.node_name == name]
        policies = policies_of(node, self._policies.items()) if node is not None else []
        await self._carry_out(request, node, decide_remedy(request, node, fences, policies))

    async def _carry_out(
        self, request: FenceRemediation, node: Node | None, decision: RemedyDecision
    ) -> None:
        match decision.action:
            case Remedy.HOLD:
                await self._hold(request, held=True)
            case Remedy.ASK:
                assert node is not None
                await self._ask(request, node, decision)
                await self._tell(request, decision)
            case Remedy.TAKE_BACK:
                await self._take_back(decision.fence)
                await self._tell(request, decision)
            case Remedy.LET_GO:
                await self._hold(request, held=False)
            case Remedy.TELL:
                await self._tell(request, decision)
            case _:
                assert_never(decision.action)

    async def _ask(self, request: FenceRemediation, node: Node, decision: RemedyDecision) -> None:
        by = f"FenceRemediation {request.namespace}/{request.name}"
        spec = {
            "nodeName": node.name,
            "nodeUID": node.uid,
            "bootID": node.status.node_info.boot_id,
            "requestedBy": by,
            "reason": request.spec.reason or f"{by} asks for it",
        }
        with contextlib.suppress(AlreadyExists):
            self._fences.accept(await self._client.create(NodeFence, new_fence(decision.fence, spec)))

    async def _take_back(self, name: str) -> None:
        fence = self._fences.get(name)
        if fence is not None:
            with contextlib.suppress(NotFound):
                taken = await self._client.revise(fence, {"spec": {"unfence": True}}, any_version=True)
                self._fences.accept(taken)

    async def _hold(self, request: FenceRemediation, *, held: bool) -> None:
        others = [each for each in request.metadata.finalizers if each != REMEDIATION_FINALIZER]
        finalizers = [*others, REMEDIATION_FINALIZER] if held else others
        with contextlib.suppress(NotFound):
            written = await self._client.revise(request, {"metadata": {"finalizers": finalizers or None}})
            self._requests.accept(written)

    async def _tell(self, request: FenceRemediation, decision: RemedyDecision) -> None:
        conditions = told(request, decision, format_time(self._now()))
        fence = decision.fence or request.status.fence
        if conditions is None and fence == request.status.fence:
            return
        status: dict[str, Any] = {"fence": fence} | ({"conditions": conditions} if conditions else {})
        with contextlib.suppress(NotFound):
            self._requests.accept(
                await self._client.revise(request, {"status": status}, subresource="status"), tell=False
            )


def key_of(request: FenceRemediation) -> RemediationKey:
    return RemediationKey(request.key)


def told(request: FenceRemediation, decision: RemedyDecision, now: str) -> list[dict[str, str]] | None:
    """The conditions that say the decision; None if they stand there. A condition keeps the time at which its
    status last changed."""
    processing = "True" if decision.succeeded == "Unknown" else "False"
    wanted = [
        condition(request.status.conditions, kind, status, *decision.reason, now)
        for kind, status in (("Processing", processing), ("Succeeded", decision.succeeded))
    ]
    stand = [
        {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
        for each in request.status.conditions
    ]
    bare = [{name: value for name, value in each.items() if name != "lastTransitionTime"} for each in wanted]
    return None if stand == bare else wanted

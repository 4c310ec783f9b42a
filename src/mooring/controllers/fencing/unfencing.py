"""Lets a node in again, or switches it on: what `letting_in` and `in_force` have decided is looked at live,
written down, and ordered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mooring.controllers.fencing import ordering, releasing, volume_fences
from mooring.controllers.fencing.letting_in import is_told, is_wanted, what_is_left
from mooring.controllers.fencing.same_boot import is_same_boot
from mooring.controllers.fencing.statuses import NOTHING_IN_FORCE, Statuses
from mooring.fence.interface import Answer, Mechanism, Outcome, Scope, State
from mooring.kube.client import Client
from mooring.kube.errors import conflict
from mooring.kube.events import Recorder
from mooring.kube.informer import Informer
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import FenceAttempt, FenceMechanism, FenceTarget, NodeFence
from mooring.kube.reason import Reason
from mooring.kube.times import Now, format_micro_time
from mooring.volumes.node_fences import Phase, proof_of

UNFENCE_AGAIN_S = 15.0


class Unfencing:
    """`look_again` wants a fence decided again after so many seconds."""

    def __init__(
        self,
        client: Client,
        kinds: Mapping[str, Mechanism],
        nodes: Informer[Node],
        mechanisms: Informer[FenceMechanism],
        statuses: Statuses,
        recorder: Recorder,
        look_again: Callable[[str, float], None],
        now: Now,
    ) -> None:
        self._client = client
        self._kinds = kinds
        self._nodes = nodes
        self._mechanisms = mechanisms
        self._statuses = statuses
        self._recorder = recorder
        self._look_again = look_again
        self._now = now

    async def lifted(
        self, fence: NodeFence, proof: FenceAttempt, said: str, looked: Mapping[str, Any]
    ) -> bool:
        """The storage lets the node in: what was released is taken back, and it is shut out again."""
        lifted = Reason("FenceLifted", f"{proof.mechanism} says that it lets the node in: {said}")
        await volume_fences.lifted(self._client, fence, proof, lifted, self._recorder)
        await releasing.withdraw(self._client, fence, self._nodes.accept)
        await self._statuses.write(fence, lifted, Phase.FENCING, {**looked, **NOTHING_IN_FORCE})
        self._recorder.event(fence, "Warning", *lifted)
        return True

    async def look_for_rest(self, fence: NodeFence, reason: Reason) -> bool:
        """Whether nothing of the old attachments is left: in the API, then at the storage, both read after
        the fence has stopped releasing anything."""
        proof, target = proof_of(fence), fence.status.target
        assert proof is not None and target is not None
        records = {each.name for each in await releasing.records_of(self._client, target)}
        node = await self._client.find(Node, target.node_name)
        if node is not None:
            self._nodes.accept(node)
        if node is None or not is_same_boot(node, target):
            return False  # the cache was late: another boot lets it in, or it is gone
        held = what_is_left(target, proof, node, records)
        if held is not None:
            await self._statuses.write(fence, held.reason, Phase.FENCED, {"lettingIn": False})
            self._look_again(fence.name, held.after)
            return False
        by = proof.mechanism
        record = await self._mechanisms.read_live(by)
        found = await ordering.sessions(
            ordering.prepare(self._client, self._kinds, record, by, target, proof.token)
        )
        if found.state is State.OPEN:
            return await self.lifted(fence, proof, found.message, {})
        if found.state is not State.SHUT:
            said = Reason(
                "SessionsUnknown", f"{proof.mechanism} does not say who is connected: {found.message}"
            )
            self._look_again(fence.name, UNFENCE_AGAIN_S)
            await self._statuses.write(fence, said, Phase.FENCED, {})
            return False
        await self._statuses.write(fence, reason, Phase.FENCED, {"letInAt": format_micro_time(self._now())})
        return True

    async def records(self, fence: NodeFence, node: Node | None) -> set[str] | None:
        """The VolumeAttachments of a node that answers, and may be let in in the same boot; else None."""
        proof, target = proof_of(fence), fence.status.target
        if proof is None or target is None or node is None or node.ready != "True":
            return None
        if not is_wanted(fence):
            return None
        record = self._mechanisms.get(proof.mechanism)
        mechanism = self._kinds.get(record.spec.type) if record is not None else None
        if not is_told(proof, mechanism):
            return None
        return {each.name for each in await releasing.records_of(self._client, target)}

    async def unfence(self, fence: NodeFence, reason: Reason) -> bool:
        proof, target = proof_of(fence), fence.status.target
        assert proof is not None and target is not None
        failed = await self._order(
            fence, proof.mechanism, proof.token, lambda: self._check_still_so(fence, proof, target)
        )
        if failed is not None:
            self._look_again(fence.name, UNFENCE_AGAIN_S)
            await self._statuses.write(fence, failed, Phase.FENCED, {})
            return False
        await self._statuses.write(fence, reason, Phase.FENCED, {"powerOnAt": format_micro_time(self._now())})
        return True

    async def let_in(self, fence: NodeFence, mechanism: str, token: str) -> bool:
        """Orders a mechanism to let a node in that no fence in force shuts out."""
        await self._statuses.take_up(fence)
        return await self._order(fence, mechanism, token) is None

    async def _order(
        self,
        fence: NodeFence,
        mechanism: str,
        token: str,
        check: Callable[[], Awaitable[None]] | None = None,
    ) -> Reason | None:
        """Why it was not done, which is told; None if it was. `check` is made immediately before."""
        target = fence.status.target
        assert target is not None
        record = await self._mechanisms.read_live(mechanism)
        try:
            given = await ordering.prepare(self._client, self._kinds, record, mechanism, target, token)
            if check is not None:
                await check()
            self._client.check_leading()
            answer = await ordering.unfence(given)
        except ordering.NotUsable as error:
            answer = Answer(Outcome.NOT_FENCED, "NotUsable", str(error))
        if answer.outcome is Outcome.UNFENCED:
            return None
        failed = Reason("NotUnfenced", f"{mechanism}: {answer.message}")
        self._recorder.once(fence, "Warning", failed)
        return failed

    async def _check_still_so(self, fence: NodeFence, proof: FenceAttempt, target: FenceTarget) -> None:
        """Conflict unless the fence is as it was decided upon, and, where that matters, another boot shows,
        or it was shown that nothing is left of what this one had."""
        live = await self._client.get(NodeFence, fence.name)
        node = await self._client.find(Node, target.node_name)
        old = node is None or node.status.node_info.boot_id in ("", target.boot_id)
        old = old and not live.status.let_in_at
        if live.status.proof != proof.token or (proof.scope != Scope.POWER and old):
            raise conflict(f"NodeFence {fence.name} is another by now")

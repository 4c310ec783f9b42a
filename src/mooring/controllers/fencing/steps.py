"""Carries out what a NodeFence does next. Orders, and what becomes of one that is given up, are elsewhere
(`orders`, `hearing_out`, `unfencing`)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, assert_never

import msgspec

from mooring.controllers.fencing import gone, metrics, releasing, removing, volume_fences
from mooring.controllers.fencing.checking import target_of
from mooring.controllers.fencing.decisions import Action, FenceDecision
from mooring.controllers.fencing.detection import HEARD_BY_PEERS
from mooring.controllers.fencing.hearing_out import HearingOut
from mooring.controllers.fencing.ladder import CONTRADICTED
from mooring.controllers.fencing.names import FINALIZER
from mooring.controllers.fencing.orders import Orders
from mooring.controllers.fencing.same_boot import is_same_boot
from mooring.controllers.fencing.statuses import NOTHING_IN_FORCE, Statuses
from mooring.controllers.fencing.unfencing import Unfencing
from mooring.controllers.fencing.waits import is_as_written, kept_because, moment_in
from mooring.fence.interface import Mechanism, Outcome, Scope, State
from mooring.kube.client import Client
from mooring.kube.errors import ApiError, NotFound, is_refusal
from mooring.kube.events import Recorder
from mooring.kube.informer import Informer
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import FenceAttempt, FenceMechanism, FencePolicy, FenceTarget, NodeFence
from mooring.kube.reason import Reason
from mooring.kube.times import Now, format_micro_time, format_time
from mooring.volumes.node_fences import Phase, proof_of
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.statements import last_report

KEPT_S = 10.0
"""So often is it looked whether a record has to be kept still."""


class Steps:
    """The hands of the controller. `look_again` wants a fence decided again after so many seconds."""

    def __init__(
        self,
        client: Client,
        kinds: Mapping[str, Mechanism],
        plugins: PluginManager,
        nodes: Informer[Node],
        mechanisms: Informer[FenceMechanism],
        fences: Informer[NodeFence],
        recorder: Recorder,
        look_again: Callable[[str, float], None],
        *,
        now: Now,
        log: Any,
    ) -> None:
        self.client = client
        self._look_again = look_again
        self._mechanisms = mechanisms
        self._fences = fences
        self.recorder = recorder
        self.now = now
        self.log = log
        self._nodes = nodes
        self._statuses = Statuses(client, fences, now)
        self.orders = Orders(
            client, kinds, plugins, nodes, mechanisms, self._statuses, recorder, now=now, log=log
        )
        self.unfencing = Unfencing(
            client, kinds, nodes, mechanisms, self._statuses, recorder, look_again, now
        )
        self._hearing_out = HearingOut(client, self.orders, self.unfencing, look_again)

    async def carry_out(
        self, fence: NodeFence, node: Node | None, policy: FencePolicy | None, decision: FenceDecision
    ) -> bool:
        reason, phase = decision.reason, decision.phase
        match decision.action:
            case Action.SETTLED:
                return False
            case Action.FREEZE:
                return await self._freeze(fence, node, policy, reason)
            case Action.ORDER:
                assert decision.step is not None
                await self.orders.give(fence, decision.step, node)
                return True
            case Action.HEAR_OUT:
                assert decision.step is not None
                fence = await self._follows(fence, node, decision)
                return await self._hearing_out.hear_out(fence, decision.step, is_asked=decision.after > 0)
            case Action.RELEASE:
                return await self._release(fence, policy, reason)
            case Action.WITHDRAW:
                return await self._withdraw(fence, reason)
            case Action.REOPEN:
                fence = await self._held(fence)
                anew = {"round": fence.status.round + 1, "roundEndedAt": "", **NOTHING_IN_FORCE}
                await self._statuses.write(fence, reason, phase, anew)
                return True
            case Action.VERIFY:
                return await self._verify(fence, policy, reason)
            case Action.STOP_RELEASING:
                await self._statuses.write(fence, reason, phase, {"lettingIn": True})
                return True
            case Action.LOOK_FOR_REST:
                return await self.unfencing.look_for_rest(fence, reason)
            case Action.UNFENCE:
                return await self.unfencing.unfence(fence, reason)
            case Action.CLOSE:
                return await self._close(fence, reason, phase)
            case Action.END_ROUND:
                await self._statuses.write(
                    fence, reason, phase, {"roundEndedAt": format_micro_time(self.now())}
                )
                return True
            case Action.KEEP:
                self._keep(fence)
                return False
            case Action.LET_GO:
                return await self._let_go(fence)
            case Action.WAIT:
                if reason.code == "AnotherMachine":
                    self.recorder.once(fence, "Warning", reason)
                await self._statuses.write(fence, reason, phase, self._waits(fence, decision))
                if reason.code == HEARD_BY_PEERS and node is not None:
                    self.recorder.once(node, "Warning", reason)
                return False
            case _:
                assert_never(decision.action)

    def _waits(self, fence: NodeFence, decision: FenceDecision) -> dict[str, Any]:
        """Until when it waits, for people: written when that has moved."""
        until = moment_in(decision.left, self.now())
        if is_as_written(fence.status.waits_until, until):
            return {}
        return {"waitsUntil": format_time(until) if until is not None else ""}

    async def _freeze(
        self, fence: NodeFence, node: Node | None, policy: FencePolicy | None, reason: Reason
    ) -> bool:
        """Writes down whom the fence is about, after a finalizer: from now on its deletion is a request."""
        fence = await self._held(fence)
        frozen = {"target": msgspec.to_builtins(self._target(fence, node))}
        covers = policy.name if policy is not None else gone.policy_then(fence, self._mechanisms.items())
        named = {"policy": covers} if covers else {}
        await self._statuses.write(fence, reason, Phase.PENDING, {**frozen, **named})
        return True

    async def _follows(self, fence: NodeFence, node: Node | None, decision: FenceDecision) -> NodeFence:
        """The fence with another boot that was seen: an order may be heard out for minutes, and the Node be
        gone by then."""
        assert fence.status.target is not None
        if node is None or fence.status.followed_by or is_same_boot(node, fence.status.target):
            return fence
        seen = {"followedBy": node.status.node_info.boot_id or node.uid}
        return await self._statuses.write(fence, decision.reason, decision.phase, seen)

    async def _held(self, fence: NodeFence) -> NodeFence:
        """The fence with its finalizer."""
        if FINALIZER in fence.metadata.finalizers:
            return fence
        body = {"metadata": {"finalizers": [*fence.metadata.finalizers, FINALIZER]}}
        return await self.client.revise(fence, body)

    def _target(self, fence: NodeFence, node: Node | None) -> FenceTarget:
        if node is None:
            return gone.target_then(fence, self._mechanisms.items())
        boot = (node.name, node.uid, node.status.node_info.boot_id)
        said = {
            record.name: {**each.identity, "state": each.state, "generation": str(record.metadata.generation)}
            for record in self._mechanisms.items()
            for each in record.status.nodes
            if record.status.observed_generation == record.metadata.generation
            and (each.name, each.node_uid, each.boot_id) == boot
        }
        return target_of(node, said)

    async def _release(self, fence: NodeFence, policy: FencePolicy | None, reason: Reason) -> bool:
        proof = proof_of(fence)
        assert proof is not None
        count = await self._give_free(fence, policy, proof)
        self.log.warning("released", fence=fence.name, volumes=count, reason=reason.message)
        released = {"releasedAt": format_micro_time(self.now()), **_by(policy)}
        await self._statuses.write(fence, reason, Phase.FENCED, released)
        metrics.reached(fence, "released", self.now())
        return True

    async def _give_free(self, fence: NodeFence, policy: FencePolicy | None, proof: FenceAttempt) -> int:
        """Releases the volumes, and removes the pods; how many volumes were released now. What is refused of
        one volume keeps no pod: those of the others' wait for theirs."""
        try:
            count = await releasing.release(self.client, fence, proof, self.now, self._nodes.accept)
        except ApiError as error:
            if is_refusal(error):  # else there may be nothing to release any more
                await self._remove_pods(fence, policy, proof)
            raise
        await self._remove_pods(fence, policy, proof)
        return count

    async def _remove_pods(self, fence: NodeFence, policy: FencePolicy | None, proof: FenceAttempt) -> None:
        """Of a fence of scope Power, which names no volumes, the out-of-service taint does it."""
        target = fence.status.target
        if proof.scope != Scope.STORAGE or policy is None or not policy.spec.storage_releases_pods:
            return
        assert target is not None
        shut = await volume_fences.shut(self.client, fence, proof)
        pods = await removing.remove(self.client, target, shut, self.recorder, self.now)
        if pods:
            self.log.warning("pods removed", fence=fence.name, policy=policy.name, pods=pods)

    async def _withdraw(self, fence: NodeFence, reason: Reason) -> bool:
        """Takes back what was released on a word that has turned out to be wrong, by a live read of the
        Node."""
        proof, target = proof_of(fence), fence.status.target
        assert proof is not None and target is not None
        node = await self.client.find(Node, target.node_name)
        if node is not None:
            self._nodes.accept(node)
        if node is None or (node.uid == target.node_uid and last_report(node) == proof.report):
            return False  # the cache was late
        await releasing.withdraw(self.client, fence, self._nodes.accept)
        attempts: list[Any] = msgspec.to_builtins(fence.status.attempts)
        for each in attempts:
            if each.get("token") == fence.status.proof:
                each |= {"outcome": str(Outcome.UNKNOWN), "reason": CONTRADICTED, "message": reason.message}
        doubted = dict.fromkeys((*fence.status.contradicted, proof.mechanism))
        ended = {
            **NOTHING_IN_FORCE,
            "roundEndedAt": format_micro_time(self.now()),
            "attempts": attempts,
            "contradicted": list(doubted),
        }
        await self._statuses.write(fence, reason, Phase.AWAITING_PERSON, ended)
        self.recorder.event(fence, "Warning", *reason)
        return True

    async def _verify(self, fence: NodeFence, policy: FencePolicy | None, reason: Reason) -> bool:
        """Looks whether it still holds, and releases what has come since."""
        proof, target = proof_of(fence), fence.status.target
        assert proof is not None and target is not None
        look = (await self.orders.looks([proof.mechanism], target, proof.token))[proof.mechanism]
        looked = {"verifiedAt": format_micro_time(self.now()), **_by(policy)}
        is_open = look.state is State.OPEN or await volume_fences.was_lifted(self.client, fence, proof)
        if is_open and proof.scope != Scope.POWER:
            return await self.unfencing.lifted(fence, proof, look.message, looked)
        if look.state is not State.SHUT:
            metrics.not_verified()
            self.recorder.once(
                fence, "Warning", Reason("FenceNotVerified", f"{proof.mechanism}: {look.message}")
            )
        else:
            await self._give_free(fence, policy, proof)
            if proof.scope == Scope.POWER and fence.status.power_on_at:
                looked["powerOnAt"] = ""  # it was switched on, and is off: it is switched on again
        await self._statuses.write(fence, reason, Phase.FENCED, looked)
        return True

    async def _close(self, fence: NodeFence, reason: Reason, phase: str) -> bool:
        if reason.code == "AnotherMachine":
            self.recorder.once(fence, "Warning", reason)
        if fence.status.attempts:  # a release may have begun, and its end not have been written
            if reason.code == "NodeGone":
                await releasing.welcome(self.client, fence.spec.node_name, self._nodes.accept)
            else:
                # it was about a boot that is over
                await releasing.withdraw(self.client, fence, self._nodes.accept)
            await volume_fences.closed(self.client, fence, reason)
        await self._statuses.write(fence, reason, phase, {})
        return True

    def _keep(self, fence: NodeFence) -> None:
        self._look_again(fence.name, KEPT_S)
        if fence.deleting:
            self.recorder.once(fence, "Normal", Reason("MayStrikeStill", kept_because(fence)))

    async def _let_go(self, fence: NodeFence) -> bool:
        left = [each for each in fence.metadata.finalizers if each != FINALIZER]
        with contextlib.suppress(NotFound):
            freed = await self.client.revise(fence, {"metadata": {"finalizers": left or None}})
            self._fences.accept(freed)
        return False


def _by(policy: FencePolicy | None) -> dict[str, Any]:
    """By which rule a fence of the storage was looked at."""
    return {"releasesPods": policy is not None and policy.spec.storage_releases_pods}

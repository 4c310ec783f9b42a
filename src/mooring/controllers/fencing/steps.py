"""Carries out what a NodeFence does next: the only place where a mechanism is ordered to do something.

Each order is written into the fence's status before it is given, and its answer after; the Node is read live
between the two. A crash at any point leaves an order without an answer, which is given again under the same
token, or, where it is not wanted any more, looked at.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, assert_never

import msgspec

from mooring.controllers.fencing import gone, metrics, ordering, releasing, removing, volume_fences
from mooring.controllers.fencing.checking import target_of
from mooring.controllers.fencing.covering import covered
from mooring.controllers.fencing.decisions import Action, FenceDecision
from mooring.controllers.fencing.detection import HEARD_BY_PEERS
from mooring.controllers.fencing.ladder import CONTRADICTED, NOT_HEARD, Step, is_waited_for, judge
from mooring.controllers.fencing.names import FINALIZER
from mooring.controllers.fencing.same_boot import is_same_boot
from mooring.controllers.fencing.silence import LEASES
from mooring.controllers.fencing.statuses import NOTHING_IN_FORCE, Statuses
from mooring.controllers.fencing.unfencing import UNFENCE_AGAIN_S, Unfencing
from mooring.controllers.fencing.waits import is_as_written
from mooring.fence.interface import Answer, Look, Mechanism, Outcome, Scope, State
from mooring.kube.client import Client
from mooring.kube.errors import Conflict, NotFound
from mooring.kube.events import Recorder
from mooring.kube.informer import Informer
from mooring.kube.objects import Lease, Node, PersistentVolume
from mooring.kube.objects.fencing import FenceAttempt, FenceMechanism, FencePolicy, FenceTarget, NodeFence
from mooring.kube.reason import Reason
from mooring.kube.times import Now, format_micro_time, format_time
from mooring.volumes.attachment_lock import was_taken_from
from mooring.volumes.node_fences import Phase, proof_of
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.statements import last_report

MOST_ATTEMPTS = 20
"""So many are kept in a fence's status."""


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
        self._kinds = kinds
        self._plugins = plugins
        self._nodes = nodes
        self._mechanisms = mechanisms
        self._fences = fences
        self.recorder = recorder
        self._look_again = look_again
        self.now = now
        self.log = log
        self._statuses = Statuses(client, fences, now)
        self.unfencing = Unfencing(
            client, kinds, nodes, mechanisms, self._statuses, recorder, look_again, now
        )

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
                return await self._order(fence, decision.step)
            case Action.HEAR_OUT:
                assert decision.step is not None
                return await self._hear_out(fence, decision.step)
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
            case Action.WAIT | Action.CANCEL | Action.REFUSE:
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
        known = 0 < decision.left < math.inf  # pods may tolerate a node for ever
        until = self.now() + timedelta(seconds=decision.left) if known else None
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

    async def intend(self, fence: NodeFence, decision: FenceDecision) -> NodeFence:
        """Writes the order down, before it is given. One that is given again is written already."""
        step = decision.step
        assert step is not None
        if step.again:
            return fence
        now, record = self.now(), self._mechanisms.get(step.mechanism)
        ends = timedelta(seconds=ordering.longest(record)) if record is not None else timedelta()
        attempt = FenceAttempt(
            round=step.round,
            rung=step.rung,
            mechanism=step.mechanism,
            token=step.token,
            ordered_at=format_micro_time(now),
            waits_until=format_time(now + ends),
        )
        kept = (*fence.status.attempts, attempt)[-MOST_ATTEMPTS:]
        begun = {"attempts": msgspec.to_builtins(kept), "round": step.round, "roundEndedAt": ""}
        return await self._statuses.write(fence, decision.reason, Phase.FENCING, begun)

    async def _order(self, fence: NodeFence, step: Step) -> bool:
        """Reads the Node live, gives the order that was written down, judges and writes the answer."""
        target, began = fence.status.target, asyncio.get_running_loop().time()
        assert target is not None
        node = await self.client.find(Node, target.node_name)
        if node is not None and not is_same_boot(node, target):
            self._nodes.accept(node)
            return True
        record = self._mechanisms.get(step.mechanism)
        volumes: dict[str, str] = {}
        try:
            given = await ordering.prepare(
                self.client, self._kinds, record, step.mechanism, target, step.token
            )
        except ordering.NotUsable as error:
            answer, looks, scope = Answer(Outcome.NOT_FENCED, "NotUsable", str(error)), dict[str, Look](), ""
        else:
            volumes = await covered(self.client, self._plugins, given, target)
            await volume_fences.intend(self.client, fence, target, step.mechanism, step.token, volumes)
            self.client.check_leading()
            answer, scope = await ordering.fence(given), given.mechanism.scope
            looks = (
                await self._looks(step.confirm_with, target, step.token)
                if answer.outcome is Outcome.FENCED
                else {}
            )
        judged = judge(
            answer,
            looks,
            wanted=len(step.confirm_with),
            seen_open=_seen_open(target, record, step.mechanism),
            doubted=step.mechanism in fence.status.contradicted,
        )
        after = await self.client.find(Node, target.node_name)
        if after is not None:
            self._nodes.accept(after)
        ended = {
            "outcome": str(judged.outcome),
            "reason": judged.reason.code,
            "message": judged.reason.message,
            "answeredAt": format_micro_time(self.now()),
            "before": str(answer.before),
            "scope": str(scope),
            "evidence": dict(answer.evidence),
            "volumes": volumes,
            "confirmations": {name: f"{look.state}: {look.message}" for name, look in looks.items()},
            **await self._signs_of(after),
            "absent": node is None,
        }
        await self._answered(fence, step.token, ended, judged.outcome is Outcome.FENCED)
        metrics.ordered(step.mechanism, judged.outcome, asyncio.get_running_loop().time() - began)
        if judged.outcome is Outcome.FENCED:
            metrics.reached(fence, "fenced", self.now())
        event = "Normal" if judged.outcome is Outcome.FENCED else "Warning"
        if node is not None:
            self.recorder.event(
                node, event, f"Fence{judged.outcome}", f"{step.mechanism}: {judged.reason.message}"
            )
        self.log.warning("fence order answered", fence=fence.name, mechanism=step.mechanism, **ended)
        return True

    async def _hear_out(self, fence: NodeFence, step: Step) -> bool:
        """Looks whether an order has struck that is given up; a second source is believed that says it has
        not, as the mechanism may be about another machine. What it has shut out is let in, under another
        boot, or where nothing can have been released on this fence. Else it is given again, which changes
        nothing, for its answer: the fence is in force, and is lifted by its rules. Of what a mechanism does
        not tell for long, it stays unknown."""
        target = fence.status.target
        assert target is not None
        attempt = next(each for each in fence.status.attempts if each.token == step.token)
        node = await self.client.find(Node, target.node_name)
        same, is_power = (
            node is None or is_same_boot(node, target),
            self._scope(step.mechanism) == Scope.POWER,
        )
        looks = await self._looks([step.mechanism, *step.confirm_with], target, step.token)
        states = {name: each.state for name, each in looks.items()}
        said = "; ".join(each.message for each in looks.values())
        may_strike_the_next = is_power and not same
        if State.OPEN in states.values() or may_strike_the_next or not is_waited_for(attempt, self.now()):
            return await self._not_heard(fence, step, said, node)
        self._look_again(fence.name, UNFENCE_AGAIN_S)
        if states[step.mechanism] is not State.SHUT:
            return False
        if is_power or (same and await self._may_be_elsewhere(fence, target)):
            await self._order(fence, step)
        elif await self.unfencing.let_in(fence, step.mechanism, step.token):
            return await self._not_heard(fence, step, "it had struck, and the node is let in", node)
        return False

    async def _may_be_elsewhere(self, fence: NodeFence, target: FenceTarget) -> bool:
        """Whether another node may have what this boot had: by this fence, which was in force once, or as it
        was taken from there by force, on whatever word. What the boot has not written yet, it would write
        when it is let in."""
        attempts = fence.status.attempts
        if any(each.outcome == Outcome.FENCED or each.reason == CONTRADICTED for each in attempts):
            return True
        volumes = (await self.client.list(PersistentVolume)).items
        return any(was_taken_from(each, target.node_name, target.boot_id) for each in volumes)

    async def _not_heard(self, fence: NodeFence, step: Step, found: str, node: Node | None) -> bool:
        """It may strike late: the outcome is never that it has not."""
        said = Reason(NOT_HEARD, f"its answer was not heard; looked at since: {found}")
        ended = {
            "outcome": str(Outcome.UNKNOWN),
            "reason": said.code,
            "message": said.message,
            "answeredAt": format_micro_time(self.now()),
            **await self._signs_of(node),
        }
        await self._answered(fence, step.token, ended, proved=False)
        return True

    async def _signs_of(self, node: Node | None) -> dict[str, str]:
        """The last that the API shows of its agent's life: what comes later shows that it lives on."""
        if node is None:
            return {"report": "", "renewed": ""}
        lease = await self.client.find(Lease, node.name, LEASES)
        renewed = lease.spec.renew_time if lease is not None else None
        return {"report": last_report(node), "renewed": renewed or ""}

    def _scope(self, name: str) -> str:
        record = self._mechanisms.get(name)
        mechanism = self._kinds.get(record.spec.type) if record is not None else None
        return str(mechanism.scope) if mechanism is not None else ""

    async def _looks(self, names: Sequence[str], target: FenceTarget, token: str) -> dict[str, Look]:
        """What mechanisms say of the target now, as sources."""

        async def asked(name: str) -> Look:
            record = self._mechanisms.get(name)
            return await ordering.look(
                ordering.prepare(self.client, self._kinds, record, name, target, token)
            )

        looks = await asyncio.gather(*(asked(each) for each in names))
        return dict(zip(names, looks, strict=True))

    async def _answered(self, fence: NodeFence, token: str, ended: dict[str, Any], proved: bool) -> None:
        """Writes the answer into the order's attempt, whatever users have changed meanwhile."""
        for _ in range(5):
            attempts: list[Any] = msgspec.to_builtins(fence.status.attempts)
            for each in attempts:
                if each.get("token") == token:
                    each.update(ended)
            more = {
                "attempts": attempts,
                **({"proof": token, "verifiedAt": ended["answeredAt"]} if proved else {}),
            }
            reason = Reason(ended["reason"], ended["message"])
            try:
                await self._statuses.write(fence, reason, Phase.FENCED if proved else Phase.FENCING, more)
                return
            except Conflict:
                fence = await self.client.get(NodeFence, fence.name)
                if fence.status.phase in Phase.OVER or _is_answered(fence, token):
                    return  # by another leader, meanwhile
        raise Conflict(
            f"NodeFence {fence.name} is written by another all the time", status=409, reason="Conflict"
        )

    async def _release(self, fence: NodeFence, policy: FencePolicy | None, reason: Reason) -> bool:
        proof = proof_of(fence)
        assert proof is not None
        count = await releasing.release(self.client, fence, proof, self.now, self._nodes.accept)
        self.log.warning("released", fence=fence.name, volumes=count, reason=reason.message)
        await self._remove_pods(fence, policy, proof)
        released = {"releasedAt": format_micro_time(self.now()), **_by(policy)}
        await self._statuses.write(fence, reason, Phase.FENCED, released)
        metrics.reached(fence, "released", self.now())
        return True

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
        look = (await self._looks([proof.mechanism], target, proof.token))[proof.mechanism]
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
            await releasing.release(self.client, fence, proof, self.now, self._nodes.accept)
            await self._remove_pods(fence, policy, proof)
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
        written = await self._statuses.write(fence, reason, phase, {})
        if FINALIZER in written.metadata.finalizers:
            left = [each for each in written.metadata.finalizers if each != FINALIZER]
            try:
                freed = await self.client.revise(written, {"metadata": {"finalizers": left or None}})
            except NotFound:
                return False
            self._fences.accept(freed)
        return False


def _by(policy: FencePolicy | None) -> dict[str, Any]:
    """By which rule a fence of the storage was looked at."""
    return {"releasesPods": policy is not None and policy.spec.storage_releases_pods}


def _seen_open(target: FenceTarget, record: FenceMechanism | None, mechanism: str) -> bool:
    """Whether the mechanism, as it is described now, had seen the machine on in this boot."""
    said = target.identities.get(mechanism, {})
    now = str(record.metadata.generation) if record is not None else ""
    return said.get("state") == State.OPEN and said.get("generation") == now


def _is_answered(fence: NodeFence, token: str) -> bool:
    return any(each.token == token and each.outcome for each in fence.status.attempts)

"""The only place where a mechanism is ordered to cut a node off.

Each order is written into the fence's status before it is given, and its answer after; the Node is read live
between the two. A crash at any point leaves an order without an answer, which is given again under the same
token, or, where it is not wanted any more, heard out (`hearing_out`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from mooring.controllers.fencing import metrics, ordering, volume_fences
from mooring.controllers.fencing.covering import covered
from mooring.controllers.fencing.decisions import FenceDecision
from mooring.controllers.fencing.ladder import Judged, Step, judge, kept
from mooring.controllers.fencing.same_boot import is_same_boot
from mooring.controllers.fencing.silence import LEASES
from mooring.controllers.fencing.statuses import Statuses
from mooring.fence.interface import Answer, Look, Mechanism, Outcome, State
from mooring.kube.client import Client
from mooring.kube.errors import Conflict, conflict
from mooring.kube.events import Recorder
from mooring.kube.informer import Informer
from mooring.kube.objects import Lease, Node
from mooring.kube.objects.fencing import FenceAttempt, FenceMechanism, FenceTarget, NodeFence
from mooring.kube.reason import Reason
from mooring.kube.times import Now, format_micro_time, format_time
from mooring.this_boot import Elapsed
from mooring.volumes.node_fences import Phase
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.statements import last_report


class Heard(NamedTuple):
    """What a mechanism has answered, by which scope, about which volumes (name: where it is served), and what
    second sources say."""

    answer: Answer
    scope: str = ""
    volumes: Mapping[str, str] = {}
    looks: Mapping[str, Look] = {}


TOO_OLD_S = 10.0
"""Seconds after which the Node is read once more before an order is given."""


class Orders:
    def __init__(
        self,
        client: Client,
        kinds: Mapping[str, Mechanism],
        plugins: PluginManager,
        nodes: Informer[Node],
        mechanisms: Informer[FenceMechanism],
        statuses: Statuses,
        recorder: Recorder,
        *,
        now: Now,
        log: Any,
    ) -> None:
        self._client = client
        self._kinds = kinds
        self._plugins = plugins
        self._nodes = nodes
        self._mechanisms = mechanisms
        self._statuses = statuses
        self._recorder = recorder
        self._now = now
        self._log = log

    async def intend(self, fence: NodeFence, decision: FenceDecision) -> NodeFence:
        """Writes the order down, before it is given. One that is given again is written already."""
        step = decision.step
        assert step is not None
        if step.again:
            return fence
        now, record = self._now(), self._mechanisms.get(step.mechanism)
        ends = timedelta(seconds=ordering.longest(record)) if record is not None else timedelta()
        attempt = FenceAttempt(
            round=step.round,
            rung=step.rung,
            mechanism=step.mechanism,
            token=step.token,
            ordered_at=format_micro_time(now),
            waits_until=format_time(now + ends),
        )
        attempts = msgspec.to_builtins(kept((*fence.status.attempts, attempt)))
        begun = {"attempts": attempts, "round": step.round, "roundEndedAt": ""}
        return await self._statuses.write(fence, decision.reason, Phase.FENCING, begun)

    async def give(self, fence: NodeFence, step: Step, known: Node | None) -> None:
        """Reads the Node live, gives the order that was written down, judges and writes the answer. None is
        given about another boot than runs there now, or about a node that answers and did not when that was
        decided (`known`): that is decided anew."""
        target, began = fence.status.target, Elapsed()
        assert target is not None
        node = await self._client.find(Node, target.node_name)
        if not self._may_be_ordered(node, target, known):
            return
        if step.again:
            fence = await self._statuses.take_up(fence)
        heard = await self._heard(fence, target, step, lambda: self._look_again(target, known, began))
        judged = judge(
            heard.answer,
            heard.looks,
            wanted=len(step.confirm_with),
            seen_open=_seen_open(target, self._mechanisms.get(step.mechanism), step.mechanism),
            doubted=step.mechanism in fence.status.contradicted,
            again=step.again,
        )
        after = await self._client.find(Node, target.node_name)
        if after is not None:
            self._nodes.accept(after)
        ended = {
            **self._judged(judged),
            **_told(heard),
            **await self._signs_of(after),
            "absent": node is None,
        }
        await self._answered(fence, step.token, ended)
        metrics.ordered(step.mechanism, judged.outcome, began.seconds)
        if judged.outcome is Outcome.FENCED:
            metrics.reached(fence, "fenced", self._now())
        if node is not None:
            event = "Normal" if judged.outcome is Outcome.FENCED else "Warning"
            said = f"{step.mechanism}: {judged.reason.message}"
            self._recorder.event(node, event, f"Fence{judged.outcome}", said)
        self._log.warning("fence order answered", fence=fence.name, mechanism=step.mechanism, **ended)

    async def looks(self, names: Sequence[str], target: FenceTarget, token: str) -> dict[str, Look]:
        """What mechanisms say of the target now, as sources."""

        async def asked(name: str) -> Look:
            record = await self._mechanisms.read_live(name)
            return await ordering.look(
                ordering.prepare(self._client, self._kinds, record, name, target, token)
            )

        looks = await asyncio.gather(*(asked(each) for each in names))
        return dict(zip(names, looks, strict=True))

    async def unknown(self, fence: NodeFence, step: Step, reason: Reason, node: Node | None) -> None:
        """Writes that what has become of the order is not known, and will not be: it may strike late."""
        ended = {**self._judged(Judged(Outcome.UNKNOWN, reason)), **await self._signs_of(node)}
        await self._answered(fence, step.token, ended)

    def scope_of(self, name: str) -> str:
        """Of the mechanism of that name; "" if it is not there, or of a kind that is not."""
        record = self._mechanisms.get(name)
        mechanism = self._kinds.get(record.spec.type) if record is not None else None
        return str(mechanism.scope) if mechanism is not None else ""

    def _may_be_ordered(self, node: Node | None, target: FenceTarget, known: Node | None) -> bool:
        """Whether it is, live, as it was decided upon; if not, the cache is told."""
        same = node is None or (is_same_boot(node, target) and _answers_as_known(node, known))
        if node is not None and not same:
            self._nodes.accept(node)
        return same

    async def _look_again(self, target: FenceTarget, known: Node | None, began: Elapsed) -> None:
        """Raises Conflict if the Node is not any more as it was decided upon, where that was looked at long
        ago: answers were slow, or the process stood still."""
        if began.seconds <= TOO_OLD_S:
            return
        if not self._may_be_ordered(await self._client.find(Node, target.node_name), target, known):
            raise conflict(f"node {target.node_name} is not as it was when its order was written down")

    async def _heard(
        self, fence: NodeFence, target: FenceTarget, step: Step, look_again: Callable[[], Awaitable[None]]
    ) -> Heard:
        name, token = step.mechanism, step.token
        record = await self._mechanisms.read_live(name)
        try:
            given = await ordering.prepare(self._client, self._kinds, record, name, target, token)
        except ordering.NotUsable as error:
            return Heard(Answer(Outcome.NOT_FENCED, "NotUsable", str(error)))
        volumes = await covered(self._client, self._plugins, given, target)
        await volume_fences.intend(self._client, fence, target, name, token, volumes)
        await look_again()
        self._client.check_leading()
        answer = await ordering.fence(given)
        cut_off = answer.outcome is Outcome.FENCED
        looks = await self.looks(step.confirm_with, target, token) if cut_off else {}
        return Heard(answer, str(given.mechanism.scope), volumes, looks)

    def _judged(self, judged: Judged) -> dict[str, Any]:
        return {
            "outcome": str(judged.outcome),
            "reason": judged.reason.code,
            "message": judged.reason.message,
            "answeredAt": format_micro_time(self._now()),
        }

    async def _signs_of(self, node: Node | None) -> dict[str, str]:
        """The last that the API shows of its agent's life: what comes later shows that it lives on."""
        if node is None:
            return {"report": "", "renewed": ""}
        lease = await self._client.find(Lease, node.name, LEASES)
        renewed = lease.spec.renew_time if lease is not None else None
        return {"report": last_report(node), "renewed": renewed or ""}

    async def _answered(self, fence: NodeFence, token: str, ended: Mapping[str, Any]) -> None:
        """Writes the answer into the order's attempt, whatever users have changed meanwhile."""
        proved = ended["outcome"] == Outcome.FENCED
        for _ in range(5):
            attempts: list[Any] = msgspec.to_builtins(fence.status.attempts)
            for each in attempts:
                if each.get("token") == token:
                    each.update(ended)
            proof = {"proof": token, "verifiedAt": ended["answeredAt"]} if proved else {}
            reason, phase = (
                Reason(ended["reason"], ended["message"]),
                Phase.FENCED if proved else Phase.FENCING,
            )
            try:
                await self._statuses.write(fence, reason, phase, {"attempts": attempts, **proof})
                return
            except Conflict:
                fence = await self._client.get(NodeFence, fence.name)
                if fence.status.phase in Phase.OVER or _is_answered(fence, token):
                    return  # by another leader, meanwhile
        raise conflict(f"NodeFence {fence.name} is written by another all the time")


def _answers_as_known(node: Node, known: Node | None) -> bool:
    return node.ready != "True" or (known is not None and known.ready == "True")


def _told(heard: Heard) -> dict[str, Any]:
    """As it is written into the order's attempt."""
    return {
        "before": str(heard.answer.before),
        "scope": heard.scope,
        "evidence": dict(heard.answer.evidence),
        "volumes": dict(heard.volumes),
        "confirmations": {name: f"{look.state}: {look.message}" for name, look in heard.looks.items()},
    }


def _seen_open(target: FenceTarget, record: FenceMechanism | None, mechanism: str) -> bool:
    """Whether the mechanism, as it is described now, had seen the machine on in this boot."""
    said = target.identities.get(mechanism, {})
    now = str(record.metadata.generation) if record is not None else ""
    return said.get("state") == State.OPEN and said.get("generation") == now


def _is_answered(fence: NodeFence, token: str) -> bool:
    return any(each.token == token and each.outcome for each in fence.status.attempts)

"""The fencing controller: cuts lost nodes off, and releases what they had once that is shown.

Keys are nodes (is one to be fenced?), NodeFences (what does one do next?), FenceMechanisms and FencePolicies
(what is wrong with them?). Everything that a fence has done is in its status, written before and after each
order; after a crash at any point the next leader goes on from there, and repeats an order whose answer it
does not know.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from random import Random
from typing import assert_never

from msgspec.structs import replace

from mooring.controllers.fencing.asking import is_asked
from mooring.controllers.fencing.checking import checked
from mooring.controllers.fencing.decide import decide_fence, has_begun, may_be_reopened
from mooring.controllers.fencing.decisions import Action, FenceDecision, NodeDecision
from mooring.controllers.fencing.detection import SOON_S, Company, policies_of
from mooring.controllers.fencing.gone import decide_absent
from mooring.controllers.fencing.holding import read_what_is_left
from mooring.controllers.fencing.host_agent import HostAgent
from mooring.controllers.fencing.keys import FenceKey, Key, MechanismKey, PolicyKey, RemediationKey
from mooring.controllers.fencing.ladder import times_of
from mooring.controllers.fencing.nodes import Nodes
from mooring.controllers.fencing.observing import Observer
from mooring.controllers.fencing.peer_words import words_on
from mooring.controllers.fencing.policies import judged_policy
from mooring.controllers.fencing.polls import Polls
from mooring.controllers.fencing.remediating import Remediations, key_of
from mooring.controllers.fencing.silence import LATE_S, LEASES, Silence
from mooring.controllers.fencing.spoken_word import without_void_word
from mooring.controllers.fencing.steps import Steps
from mooring.fence.interface import Mechanism
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.first_seen import FirstSeen
from mooring.kube.keys import NodeKey
from mooring.kube.objects import Lease, Node
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, FenceRemediation, NodeFence
from mooring.kube.times import Now
from mooring.volumes.node_fences import Phase, node_uid_of, proof_of
from mooring.volumes.peers import STATEMENTS
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.statements import last_report


class FencingController(Controller[Key]):
    """`mechanisms`: by the type that a FenceMechanism names, beside `host-agent`. `plugins` say where volumes
    are served."""

    name = "fencing-controller"

    def __init__(
        self,
        client: Client,
        mechanisms: Mapping[str, Mechanism],
        plugins: PluginManager,
        *,
        now: Now,
        random: Random,
    ) -> None:
        super().__init__(client, now=now, random=random)
        self._nodes = self.watch(Node, self._of_node, matters=_of_concern)
        self._policies = self.watch(FencePolicy, self._all_keys)
        self._mechanisms = self.watch(FenceMechanism, self._of_mechanism, matters=lambda each: each.spec)
        self._fences = self.watch(NodeFence, self._of_fence, matters=_what_is_to_be_done)
        requests = self.watch(FenceRemediation, lambda each: [key_of(each)], matters=_what_is_asked)
        leases = self.watch(Lease, keep=_renewal, gather=LATE_S)
        leases.add_handler(self._stated)
        self._nodes.add_handler(self._reported)
        silence = Silence(leases, returned=self._look_at_waiting)
        self._polls = Polls(random)
        host_agent = HostAgent(client, silence.observed)
        self._kinds = {**mechanisms, host_agent.kind: host_agent}
        caches = self._nodes, self._policies, self._mechanisms, self._fences
        self._observer = Observer(client, self._kinds, *caches, silence, self._polls, tell=self._look_at)
        self._looks = Nodes(
            client,
            self._observer,
            self._polls,
            *caches,
            self.recorder,
            mark=self.queue.add,
            look_again=self.look_again,
            log=self.log,
        )
        self._steps = Steps(
            client,
            self._kinds,
            plugins,
            self._nodes,
            self._mechanisms,
            self._fences,
            self.recorder,
            lambda fence, seconds: self.look_again(FenceKey(fence), seconds),
            now=now,
            log=self.log,
        )
        self._remediations = Remediations(
            client, self._nodes, self._policies, self._fences, requests, now=now
        )
        self._known = FirstSeen[FenceKey, str]()
        """The times that fences say."""
        self._beginning = asyncio.Lock()

    # --- what a change touches

    def _of_node(self, node: Node) -> list[Key]:
        own = [FenceKey(each.name) for each in self._fences.items() if each.spec.node_name == node.name]
        mechanisms = [MechanismKey(each.name) for each in self._mechanisms.items()]
        asked = mechanisms if node.ready == "True" else []
        policies = [PolicyKey(each.name) for each in self._policies.items()]
        remediations = self._remediations.about(node.name)
        return [NodeKey(node.name), *own, *self._waiting(), *asked, *policies, *remediations]

    def _of_fence(self, fence: NodeFence) -> list[Key]:
        node = fence.spec.node_name
        return [FenceKey(fence.name), NodeKey(node), *self._waiting(), *self._remediations.about(node)]

    def _look_at(self, nodes: set[str]) -> None:
        for each in sorted(nodes):
            self.queue.add(NodeKey(each))

    def _reported(self, old: Node | None, new: Node | None) -> None:
        """A node that an order may still have struck, though its fence is over, counts in no budget any
        more."""
        if old is None or new is None or last_report(old) == last_report(new):
            return
        over = [
            each
            for each in self._fences.items()
            if each.spec.node_name == new.name and each.status.phase in Phase.OVER
        ]
        for each in over:
            self.queue.add(FenceKey(each.name))
        if over:
            self._look_at_waiting()

    def _stated(self, old: Lease | None, new: Lease | None) -> None:
        """What a node states about its peers, by its Lease."""
        if new is None or new.namespace != LEASES or not (words := words_on(new)):
            return
        here = asyncio.get_running_loop().time()
        about = self._polls.stated(new.name, words, here)
        self._look_at(about)
        for each in self._fences.items():
            waits = each.status.phase not in Phase.OVER and not has_begun(each)
            if waits and each.spec.node_name in about:
                self.queue.add(FenceKey(each.name))

    def _waiting(self) -> list[Key]:
        """What may be held because of other nodes and fences."""
        lost = [NodeKey(each.name) for each in self._nodes.items() if each.ready == "Unknown"]
        pending = [FenceKey(each.name) for each in self._fences.items() if not has_begun(each)]
        return [*lost, *pending]

    def _look_at_waiting(self) -> None:
        for key in self._waiting():
            self.queue.add(key)

    def _of_mechanism(self, mechanism: FenceMechanism) -> list[Key]:
        gone = [NodeKey(each.name) for each in mechanism.status.nodes if self._nodes.get(each.name) is None]
        policies = [PolicyKey(each.name) for each in self._policies.items()]
        return [MechanismKey(mechanism.name), *policies, *gone]

    def _all_keys(self, policy: FencePolicy) -> list[Key]:
        mine = [FenceKey(each.name) for each in self._fences.items() if each.status.policy == policy.name]
        return [PolicyKey(policy.name), *mine, *(NodeKey(each.name) for each in self._nodes.items())]

    async def reconcile(self, key: Key) -> None:
        """Looks at one node, fence, mechanism or policy."""
        match key:
            case NodeKey():
                await self._looks.look(key.name)
            case FenceKey():
                while await self._step(key):
                    pass
            case MechanismKey():
                await self._check(key)
            case PolicyKey():
                await self._judge_policy(self._policies.get(key.name))
            case RemediationKey():
                await self._remediations.reconcile(key)
            case _:
                assert_never(key)

    # --- fences

    async def _step(self, key: FenceKey) -> bool:
        """Takes a fence one step further. Returns whether the next one may be taken at once.

        One fence begins after another, so that each counts the others in its budget, and one of the same node
        is refused."""
        fence = self._fences.get(key.name)
        if fence is None:
            self._known.ages(key, {})
            return False
        async with self._beginning if not has_begun(fence) else contextlib.nullcontext():
            node = self._nodes.get(fence.spec.node_name)
            if node is not None:
                fence = await without_void_word(self.client, fence)
            policy = self._policy(fence, node)
            decision = await self._decision(fence, node, policy)
            if decision.action is Action.ORDER:
                if policy is not None:  # its pause, or another ladder, counts from when it is written
                    await self._policies.confirm(policy)
                fence = await self._steps.orders.intend(fence, decision)
            elif decision.action is Action.FREEZE:  # of two fences of one node, the second sees the first
                return await self._steps.carry_out(fence, node, policy, decision)
        if decision.after > 0:
            self.look_again(key, max(decision.after, SOON_S))
        return await self._steps.carry_out(fence, node, policy, decision)

    async def _decision(
        self, fence: NodeFence, node: Node | None, policy: FencePolicy | None
    ) -> FenceDecision:
        left: list[str] = []
        begin, status, target = None, fence.status, fence.status.target
        absent = node is None and status.phase not in (Phase.UNFENCED, Phase.REFUSED)
        returns = policy is not None and policy.spec.after == "PowerOn" and proof_of(fence) is not None
        if absent or (
            returns and target is not None and status.phase == Phase.FENCED and not status.power_on_at
        ):
            left = await read_what_is_left(self.client, fence.spec.node_name, node_uid_of(fence))
        if absent:
            begin = self._about_absent(fence, policy, left)
        is_over = status.phase in Phase.OVER
        is_open = may_be_reopened(fence, status.phase) if is_over else proof_of(fence) is None
        if node is not None and is_open and not fence.spec.override:
            asked = bool(fence.spec.requested_by)
            begin = await (self._observer.about_request(node) if asked else self._observer.decision(node))
        return decide_fence(
            fence,
            node,
            policy.spec.ladder if policy is not None else (),
            begin,
            self._known.ages(FenceKey(fence.name), dict.fromkeys(times_of(fence), "")),
            after_fence=policy.spec.after if policy is not None else "Leave",
            releases_pods=policy is not None and policy.spec.storage_releases_pods,
            rival=self._rival(fence),
            left=bool(left),
            records=await self._steps.unfencing.records(fence, node),
            may_strike=is_over and self._observer.may_be_off(fence),
        )

    def _about_absent(
        self, fence: NodeFence, policy: FencePolicy | None, left: list[str]
    ) -> NodeDecision | None:
        company = self._observer.company(policy) if policy is not None else Company(0, ())
        return decide_absent(fence, policy, company, left, self._looks.absent_for(fence.spec.node_name))

    def _rival(self, fence: NodeFence) -> str:
        """Another fence of the same node that is not over."""
        others = (each for each in self._fences.items() if each.spec.node_name == fence.spec.node_name)
        frozen = (each for each in others if each.uid != fence.uid and each.status.target is not None)
        return next((each.name for each in frozen if each.status.phase not in Phase.OVER), "")

    def _policy(self, fence: NodeFence, node: Node | None) -> FencePolicy | None:
        noted = self._policies.get(fence.status.policy) if fence.status.policy else None
        if noted is not None or node is None:
            return noted
        found = policies_of(node, self._policies.items())
        return found[0] if len(found) == 1 else None

    # --- mechanisms and policies

    async def _judge_policy(self, policy: FencePolicy | None) -> None:
        if policy is None or policy.deleting:
            return
        status = judged_policy(
            policy, self._policies.items(), self._mechanisms.items(), self._nodes.items(), self.now
        )
        if status is not None:
            written = await self.client.revise(policy, {"status": status}, subresource="status")
            self._policies.accept(written, tell=False)

    async def _check(self, key: MechanismKey) -> None:
        record = self._mechanisms.get(key.name)
        if record is not None and not record.deleting:
            after = await checked(
                self.client,
                self._kinds,
                record,
                self._nodes.items(),
                self._policies.items(),
                self._mechanisms.accept,
                self.now,
            )
            self.look_again(key, after)
            for policy in self._policies.items():  # what a mechanism shows, its check has told
                self.queue.add(PolicyKey(policy.name))


def _of_concern(node: Node) -> object:
    info = node.status.node_info
    meta = node.metadata
    shown = [(each.type, each.status) for each in node.status.conditions]  # detectors go by any of them
    seen = shown, node.uid, info.boot_id, node.spec.taints, node.deleting
    return *seen, meta.labels, meta.finalizers, is_asked(node)


def _what_is_to_be_done(fence: NodeFence) -> object:
    status = fence.status
    return fence.spec, fence.deleting, status.phase, status.reason, fence.metadata.finalizers


def _what_is_asked(request: FenceRemediation) -> object:
    meta = request.metadata
    return meta.annotations, meta.finalizers, request.spec, request.deleting


def _renewal(lease: Lease) -> Lease:
    said = lease.metadata.annotations.get(STATEMENTS)
    kept = {STATEMENTS: said} if said is not None else {}
    return replace(lease, metadata=replace(lease.metadata, labels={}, annotations=kept, owner_references=()))

"""What is seen of a node that may be lost: the detectors' words, the company it is lost in, what waits for
it.

It reads caches; live, it reads the pods of a node that does not answer, and asks mechanisms. It writes
nothing: what peers are to be asked, it only says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from mooring.controllers.fencing.checking import look_at, sessions_of
from mooring.controllers.fencing.deciding_nodes import decide_node, decide_request
from mooring.controllers.fencing.decisions import Begin, NodeDecision
from mooring.controllers.fencing.detection import (
    BUDGET_EXHAUSTED,
    NOTHING_WAITS,
    SHORTEST_S,
    STORAGE,
    Company,
    Loss,
    Poll,
    Signal,
    Stakes,
    Verdict,
    loss_of,
    policies_of,
)
from mooring.controllers.fencing.lasting import Lasting
from mooring.controllers.fencing.peer_words import read_words
from mooring.controllers.fencing.polls import Polls
from mooring.controllers.fencing.silence import Silence
from mooring.controllers.fencing.stakes import stakes_of
from mooring.controllers.fencing.storage_view import LONGEST_S, LOOK_S, Seen, signal_of, taken
from mooring.controllers.fencing.struck import explains, in_progress, is_lost_again, may_be_off
from mooring.fence.interface import Mechanism, State
from mooring.kube.client import Client
from mooring.kube.informer import Informer
from mooring.kube.objects import Node, Pod, PodDisruptionBudget
from mooring.kube.objects.fencing import Detector, FenceMechanism, FencePolicy, NodeFence, PeerRules
from mooring.volumes.node_fences import Phase


class Observer:
    """Decides about nodes. It remembers when there was last a storm: after a restart, that is a time ago."""

    def __init__(
        self,
        client: Client,
        kinds: Mapping[str, Mechanism],
        nodes: Informer[Node],
        policies: Informer[FencePolicy],
        mechanisms: Informer[FenceMechanism],
        fences: Informer[NodeFence],
        silence: Silence,
        polls: Polls,
        *,
        tell: Callable[[set[str]], None],
    ) -> None:
        """`tell` is called with the nodes that are to be asked other things than before."""
        self._client = client
        self._kinds = kinds
        self._nodes = nodes
        self._policies = policies
        self._mechanisms = mechanisms
        self._fences = fences
        self._silence = silence
        self._polls = polls
        self._tell = tell
        self._lasting = Lasting()
        self._storm_at: dict[str, float] = {}
        """Policy -> when (the loop's time) there was last a storm."""
        self._priority: dict[str, int] = {}
        """Node that is lost -> the priority of what waits for it."""
        self._in_line: set[str] = set()
        """Nodes that are held by nothing but the budget."""
        self._seen: dict[tuple[str, str], tuple[str, Seen]] = {}
        """Mechanism and node -> the boot, and what the storage has counted in it."""

    async def decision(self, node: Node) -> NodeDecision:
        """Whether the node is to be fenced now."""
        policies = policies_of(node, self._policies.items())
        if len(policies) != 1:
            self._leave_line(node.name)
            self._tell(self._polls.forget(node.name))
            return decide_node(node, policies, [], Company(0, ()), Stakes())
        policy = policies[0]
        signals = [await self._signal(node, each) for each in policy.spec.detectors]
        return _looked_at_again(await self._decided(node, policy, signals), node, policy)

    async def _decided(self, node: Node, policy: FencePolicy, signals: Sequence[Signal]) -> NodeDecision:
        policies = [policy]
        if not any(each.lost for each in signals):
            self._leave_line(node.name)
            decision = decide_node(node, policies, signals, Company(0, ()), Stakes())
            return self._asked_early(node, policy, signals, decision)
        stakes = await self._stakes(node, policy)
        company = self.company(policy)
        decision = self._stand_in_line(node, decide_node(node, policies, signals, company, stakes))
        return await self._with_peers(
            node, policy, decision, lambda poll: decide_node(node, policies, signals, company, stakes, poll)
        )

    async def about_request(self, node: Node) -> NodeDecision:
        """Whether a fence that another's detector has asked for may be begun now."""
        policies = policies_of(node, self._policies.items())
        if len(policies) != 1:
            return decide_request(node, policies, [], Company(0, ()))
        signals = [await self._signal(node, each) for each in policies[0].spec.detectors]
        await self._stakes(node, policies[0])
        company = self.company(policies[0])
        decision = self._stand_in_line(node, decide_request(node, policies, signals, company))
        decision = await self._with_peers(
            node, policies[0], decision, lambda poll: decide_request(node, policies, signals, company, poll)
        )
        return _looked_at_again(decision, node, policies[0])

    async def _with_peers(
        self, node: Node, policy: FencePolicy, decision: NodeDecision, decide: Callable[[Poll], NodeDecision]
    ) -> NodeDecision:
        """The decision with what peers say. Before a fence is begun the Leases of those of whom nothing is
        known are read live: the cache may not have their last word. Only then are they asked again."""
        said = self._polls.about(node, asyncio.get_running_loop().time())
        if decision.action is Begin.FENCE and decide(said).action is Begin.FENCE:
            await read_words(self._client, self._polls, self._polls.unheard(node))
        poll = self._poll(node, policy, wanted=decision.action is Begin.FENCE, is_lost=True)
        return _asked_again(decide(poll), policy) if poll is not None else decision

    def _asked_early(
        self, node: Node, policy: FencePolicy, signals: Sequence[Signal], decision: NodeDecision
    ) -> NodeDecision:
        """While it is not lost for long enough yet, its peers are asked already. What they have said is
        remembered as long as a detector calls it lost, though others do not, or may not come to that."""
        doubted = any(each.verdict is Verdict.LOST for each in signals)
        poll = self._poll(node, policy, wanted=doubted and decision.after > 0, is_lost=doubted)
        return decision if poll is None else _asked_again(decision, policy)

    def _poll(self, node: Node, policy: FencePolicy, *, wanted: bool, is_lost: bool) -> Poll | None:
        """What peers say of the node; None if nothing is asked. They are asked as long as nothing else keeps
        it from being fenced, and no fence of it has begun; what they have said of one that is lost is not
        forgotten meanwhile."""
        rules, here = policy.spec.peers, asyncio.get_running_loop().time()
        mine = [each for each in self._fences.items() if each.spec.node_name == node.name]
        begun = any(in_progress(each) for each in mine)
        if rules is not None and not wanted and not begun and any(_is_request(each) for each in mine):
            return None  # they are asked for its sake, whatever the detectors say
        if rules is None or not wanted or begun:
            leave = self._polls.rest if is_lost and rules is not None and not begun else self._polls.forget
            self._tell(leave(node.name))
            return None
        self._tell(self._polls.ask(node, self._nodes.items(), here, _every(rules)))
        return self._polls.about(node, here)

    async def _signal(self, node: Node, detector: Detector) -> Signal:
        if detector.type == "Mechanism":
            return await self._word_of(node, detector)
        if detector.type == STORAGE:
            return await self._counted(node, detector)
        type_ = detector.condition if detector.type == "Condition" else "Ready"
        found = next((each for each in node.status.conditions if each.type == type_), None)
        status = found.status if found is not None else "Unknown"
        at = found.last_transition_time if found is not None else None
        since = self._lasting.of(node, type_, found)
        if detector.type == "Condition":
            verdict = Verdict.LOST if found is not None and status == detector.status else Verdict.UNKNOWN
        else:
            verdict = {"True": Verdict.HEALTHY, "Unknown": Verdict.LOST}.get(status, Verdict.UNKNOWN)
        return Signal(
            detector, verdict, since, f"{type_} of node {node.name} is {status} since {at or 'it was made'}"
        )

    async def _word_of(self, node: Node, detector: Detector) -> Signal:
        """A mechanism is asked only about a node that does not answer: that it is off means that it is lost;
        that it is on means nothing, as a machine that hangs is on."""
        record = self._mechanisms.get(detector.mechanism)
        if record is None or node.ready == "True":
            what = "is not there" if record is None else "is not asked about a node that answers"
            return Signal(detector, Verdict.UNKNOWN, 0, f"mechanism {detector.mechanism} {what}")
        look = await look_at(self._client, self._kinds, record, node)
        verdict = Verdict.LOST if look.state is State.SHUT else Verdict.UNKNOWN
        return Signal(detector, verdict, detector.for_seconds, f"{detector.mechanism}: {look.message}")

    async def _counted(self, node: Node, detector: Detector) -> Signal:
        """A storage is asked only about a node that does not answer."""
        record, key = self._mechanisms.get(detector.mechanism), (detector.mechanism, node.name)
        if record is None or node.ready != "Unknown":
            self._seen.pop(key, None)
            what = "is not there" if record is None else "is not asked about a node that answers"
            return Signal(detector, Verdict.UNKNOWN, 0, f"mechanism {detector.mechanism} {what}")
        loop, boot = asyncio.get_running_loop(), f"{node.uid}/{node.status.node_info.boot_id}"
        seen = self._seen_in(key, boot)
        if seen is None or loop.time() - seen.looked >= LOOK_S:
            said = await sessions_of(self._client, self._kinds, record, node, LONGEST_S)
            seen = taken(self._seen_in(key, boot), said, loop.time())  # another look may have ended meanwhile
            self._seen[key] = boot, seen
        return signal_of(detector, seen, loop.time())

    def _seen_in(self, key: tuple[str, str], boot: str) -> Seen | None:
        held, seen = self._seen.get(key, ("", None))
        return seen if held == boot else None

    def _silent(self, node: Node) -> float:
        """For how many seconds: by its Lease, and by its condition where it has none."""
        ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
        unknown = self._lasting.of(node, "Ready", ready) if node.ready == "Unknown" else 0.0
        return max(self._silence.of(node.name), unknown)

    def forget(self, name: str) -> None:
        """Its Node is gone. What its peers were asked is another matter."""
        self._leave_line(name)
        self._lasting.forget(name)
        self._seen = {key: seen for key, seen in self._seen.items() if key[1] != name}

    def company(self, policy: FencePolicy) -> Company:
        nodes = [each for each in self._nodes.items() if policies_of(each, [policy])]
        fences = self._fences.items()
        explained = {each.spec.node_name for each in fences if explains(each, *self._shown(each))}
        again = {each.spec.node_name for each in fences if is_lost_again(each, self._shown(each)[0])}
        fencing = explained | again
        suspects = {each.name for each in self._silence.suspects(nodes)}
        lost = [
            self._loss_of(each, fencing=each.name in fencing, unexplained=each.name not in explained)
            for each in nodes
            if each.name in suspects | fencing
        ]
        gone = {
            each.spec.node_name: in_progress(each)
            for each in self._fences.items()
            if each.status.phase not in Phase.OVER
            and each.status.policy == policy.name
            and self._nodes.get(each.spec.node_name) is None
        }
        known = (*lost, *(Loss(each, "", False, gone[each]) for each in sorted(gone)))
        here = asyncio.get_running_loop().time()
        if policy.spec.storm.nodes and sum(each.may_be_cut_off for each in known) >= policy.spec.storm.nodes:
            self._storm_at[policy.name] = here
        calm = here - self._storm_at[policy.name] if policy.name in self._storm_at else float("inf")
        return Company(len(nodes), known, calm)

    def may_be_off(self, fence: NodeFence) -> bool:
        """As `struck` has it."""
        return may_be_off(fence, *self._shown(fence))

    def _shown(self, fence: NodeFence) -> tuple[Node | None, str]:
        """Its node, and the time of that one's last renewal."""
        name = fence.spec.node_name
        return self._nodes.get(name), self._silence.observed(name).renewed

    def _loss_of(self, node: Node, *, fencing: bool, unexplained: bool) -> Loss:
        priority, waits = self._priority.get(node.name, 0), node.name in self._in_line
        return loss_of(node, fencing)._replace(priority=priority, waits=waits, unexplained=unexplained)

    def _stand_in_line(self, node: Node, decision: NodeDecision) -> NodeDecision:
        """Remembers whether the node waits for the budget alone; after a restart that is found anew."""
        if decision.reason.code == BUDGET_EXHAUSTED:
            self._in_line.add(node.name)
        else:
            self._in_line.discard(node.name)
        return decision

    def _leave_line(self, name: str) -> None:
        self._in_line.discard(name)
        self._priority.pop(name, None)

    async def _stakes(self, node: Node, policy: FencePolicy) -> Stakes:
        """Disruption budgets are read where the policy goes by them."""
        pods = (await self._client.list(Pod, field_selector=f"spec.nodeName={node.name}")).items
        patient = policy.spec.worth.patience_seconds > 0
        budgets = (await self._client.list(PodDisruptionBudget)).items if patient else ()
        stakes = stakes_of(node, pods, budgets, self._silent(node))
        self._priority[node.name] = stakes.priority
        return stakes


def _is_request(fence: NodeFence) -> bool:
    """Whether another's detector has asked for it, and it is not over."""
    return bool(fence.spec.requested_by) and fence.status.phase not in Phase.OVER


def _every(rules: PeerRules) -> float:
    """After so many seconds peers are asked again."""
    return max(rules.expires_seconds, SHORTEST_S) / 2


def _asked_again(decision: NodeDecision, policy: FencePolicy) -> NodeDecision:
    """The decision, taken anew when peers are to be asked again, as long as it is none to fence."""
    if policy.spec.peers is None or decision.action is Begin.FENCE:
        return decision
    every = _every(policy.spec.peers)
    return replace(decision, after=min(decision.after, every) if decision.after > 0 else every)


def _looked_at_again(decision: NodeDecision, node: Node, policy: FencePolicy) -> NodeDecision:
    """The decision, taken anew when its storage, the budget, or what waits for it is to be looked at again,
    as long as it is none to fence."""
    by_storage = any(each.type == STORAGE for each in policy.spec.detectors) and node.ready == "Unknown"
    # A node may count in the budget until it has gone on renewing; an attach that was under way may end late.
    held = decision.reason.code in (BUDGET_EXHAUSTED, NOTHING_WAITS)
    if not (by_storage or held) or decision.action is Begin.FENCE:
        return decision
    return replace(decision, after=min(decision.after, LOOK_S) if decision.after > 0 else LOOK_S)

"""What is done about one node: its deletion is held, what its annotation asks for is taken up, its agent is
asked about its peers, and its fence is made.

A fence is made before what asked for it goes, and once: a crash in between asks for nothing anew. What
becomes of a fence is decided elsewhere (`decide`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, assert_never

from mooring.controllers.fencing.asking import asked_fence, is_asked
from mooring.controllers.fencing.decisions import Begin, NodeDecision
from mooring.controllers.fencing.detection import SOON_S, policies_of
from mooring.controllers.fencing.gone import last_known
from mooring.controllers.fencing.holding import LOOK_S, cordon, hold, read_what_is_left
from mooring.controllers.fencing.keeping import Keep, decide_deletion, next_step
from mooring.controllers.fencing.keys import FenceKey, Key
from mooring.controllers.fencing.names import NODE_FINALIZER, REQUEST, fence_name, free_name, new_fence
from mooring.controllers.fencing.observing import Observer
from mooring.controllers.fencing.polls import Polls
from mooring.kube.batches import one_by_one
from mooring.kube.client import Client
from mooring.kube.errors import AlreadyExists
from mooring.kube.events import Recorder
from mooring.kube.informer import Informer
from mooring.kube.keys import NodeKey
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, NodeFence
from mooring.kube.reason import Reason
from mooring.volumes.node_fences import Phase
from mooring.volumes.peers import QUESTIONS, encoded


class Nodes:
    """`mark` wants a key looked at, `look_again` after so many seconds."""

    def __init__(
        self,
        client: Client,
        observer: Observer,
        polls: Polls,
        nodes: Informer[Node],
        policies: Informer[FencePolicy],
        mechanisms: Informer[FenceMechanism],
        fences: Informer[NodeFence],
        recorder: Recorder,
        *,
        mark: Callable[[Key], None],
        look_again: Callable[[Key, float], None],
        log: Any,
    ) -> None:
        self._client = client
        self._observer = observer
        self._polls = polls
        self._nodes = nodes
        self._policies = policies
        self._mechanisms = mechanisms
        self._fences = fences
        self._recorder = recorder
        self._mark = mark
        self._look_again = look_again
        self._log = log
        self._absent_since: dict[str, float] = {}
        """Node -> since when (the loop's time) this process has seen none of that name."""
        nodes.add_handler(self._seen)

    def _seen(self, old: Node | None, new: Node | None) -> None:
        """One that is there, if only between two looks, may go anew."""
        if new is not None:
            self._absent_since.pop(new.name, None)

    async def look(self, name: str) -> None:
        """Does what is to be done about the node of that name."""
        node = self._nodes.get(name)
        if node is None:
            for each in sorted(self._polls.forget(name)):
                self._mark(NodeKey(each))
            self._observer.forget(name)
            if not any(each.spec.node_name == name for each in self._fences.items()):
                self._absent_since.pop(name, None)  # no fence waits for one any more
            await self._look_at_absent(name)
            return
        parts = (self._keep, self._take_up_request, self._ask, self._judge)
        await one_by_one(parts, lambda part: self._do(part, name))

    async def _do(self, part: Callable[[Node], Awaitable[None]], name: str) -> None:
        """One part of the work, by the Node as it is known by then. What is refused of one (that its deletion
        is held, say) keeps none of the others: a lost node would never be fenced."""
        if (node := self._nodes.get(name)) is not None:
            await part(node)

    async def _judge(self, node: Node) -> None:
        """Makes its fence if it is lost."""
        decision = await self._observer.decision(node)
        if decision.after > 0:
            self._look_again(NodeKey(node.name), max(decision.after, SOON_S))
        match decision.action:
            case Begin.NO:
                pass
            case Begin.HOLD | Begin.FENCE:
                await self._begin(node, decision)
            case _:
                assert_never(decision.action)

    async def _look_at_absent(self, name: str) -> None:
        """Makes the fence of a node that a policy covered and that has something still, although its Node is
        gone. By what is left of it, as the first thing that is known: others wait for that fence."""
        said = last_known(name, self._mechanisms.items())
        if said is None or not said.policy or self._is_fenced(name):
            return
        left = await read_what_is_left(self._client, name, said.node_uid)
        if left and await self._client.find(Node, name) is None:
            reason = Reason("NodeDeleted", f"Node {name} is gone, and {left[0]} is left there")
            await self._make(name, said.node_uid, said.boot_id, reason)

    async def _take_up_request(self, known: Node) -> None:
        """Makes the fence that the Node's annotation asks for, live, unless one is under way, and takes the
        annotation off. Raises AlreadyExists if the cache is late."""
        node = await self._client.find(Node, known.name) if is_asked(known) else None
        if node is None or node.uid != known.uid:
            return
        self._nodes.accept(node)
        if not is_asked(node):
            return
        if not self._is_fenced(node.name):
            body = asked_fence(node, {each.name for each in self._fences.items()})
            try:
                made = await self._client.create(NodeFence, body)
            except AlreadyExists:  # made before, by a request without an answer: it is decided anew
                self._fences.accept(await self._client.get(NodeFence, body["metadata"]["name"]))
                raise
            self._fences.accept(made)
            self._log.warning("fence asked for", node=node.name, fence=made.name, reason=made.spec.reason)
        self._nodes.accept(await self._client.revise(node, {"metadata": {"annotations": {REQUEST: None}}}))

    async def _ask(self, node: Node) -> None:
        """Writes on the Node what its agent is asked about its peers, unless that stands there."""
        questions = encoded(self._polls.questions_for(node.name))
        if node.metadata.annotations.get(QUESTIONS, "") != questions:
            asked = {"metadata": {"annotations": {QUESTIONS: questions or None}}}
            self._nodes.accept(await self._client.revise(node, asked))
        self._polls.stand(node.name, asyncio.get_running_loop().time())

    async def _keep(self, node: Node) -> None:
        """Holds the Node's deletion, or lets it go."""
        covered = bool(policies_of(node, self._policies.items()))
        held = NODE_FINALIZER in node.metadata.finalizers
        asked = node.deleting and covered and held
        left = await read_what_is_left(self._client, node.name, node.uid) if asked else ()
        decision = decide_deletion(node, left, covered=covered)
        match decision.action:
            case Keep.NOTHING:
                pass
            case Keep.HOLD | Keep.LET_GO:
                kept = await hold(self._client, node, held=decision.action is Keep.HOLD)
                if kept is not None:
                    self._nodes.accept(kept)
            case Keep.WAIT:
                said = Reason(decision.reason.code, f"{decision.reason.message}: {next_step(node)}")
                if self._recorder.once(node, "Warning", said, matter="deletion"):
                    self._log.warning("node deletion waits", node=node.name, reason=said.message)
                self._look_again(NodeKey(node.name), LOOK_S)
                if not node.spec.unschedulable and (closed := await cordon(self._client, node)) is not None:
                    self._nodes.accept(closed)
            case _:
                assert_never(decision.action)

    async def _begin(self, node: Node, decision: NodeDecision) -> None:
        """Makes the fence of a node that is lost. One that is held is made, too: it says what it waits
        for."""
        if await self._make(node.name, node.uid, node.status.node_info.boot_id, decision.reason):
            self._recorder.event(node, "Warning", f"Fence{decision.reason.code}", decision.reason.message)

    async def _make(self, node: str, uid: str, boot_id: str, reason: Reason) -> bool:
        """Whether the fence was made now."""
        name = free_name(fence_name(node, uid, boot_id), self._is_going)
        held = self._fences.get(name)
        if held is not None:
            self._mark(FenceKey(name))  # it may be one that was cancelled
        if held is not None or self._is_fenced(node):
            return False
        spec = {"nodeName": node, "nodeUID": uid, "bootID": boot_id, "reason": reason.message}
        with contextlib.suppress(AlreadyExists):
            made = await self._client.create(NodeFence, new_fence(name, spec))
            self._fences.accept(made)
            self._log.warning("node lost", node=node, fence=name, reason=reason.message)
            return True
        return False

    def _is_going(self, name: str) -> bool:
        """Whether it is the name of a fence that was taken back by its deletion."""
        held = self._fences.get(name)
        return held is not None and held.deleting and held.status.phase in Phase.OVER

    def absent_for(self, name: str) -> float:
        """For how many seconds (of the loop) this process has seen no Node of that name."""
        here = asyncio.get_running_loop().time()
        return here - self._absent_since.setdefault(name, here)

    def _is_fenced(self, node: str) -> bool:
        """Whether a fence of the node is under way, as a person may have asked for one."""
        mine = (each for each in self._fences.items() if each.spec.node_name == node)
        return any(each.status.phase not in Phase.OVER for each in mine)

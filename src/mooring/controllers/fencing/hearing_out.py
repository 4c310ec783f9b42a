"""Hears an order out that is given up before its answer was known: what it has shut out would stay so without
a record.

Guarantee: such an order ends as one that is in force, and is lifted by its rules, as one that was taken back,
or as unknown; never as one that has not struck.
"""

from __future__ import annotations

from collections.abc import Callable

from mooring.controllers.fencing.ladder import CONTRADICTED, NOT_HEARD, Step
from mooring.controllers.fencing.orders import Orders
from mooring.controllers.fencing.same_boot import may_run_still
from mooring.controllers.fencing.unfencing import UNFENCE_AGAIN_S, Unfencing
from mooring.fence.interface import Outcome, Scope, State
from mooring.kube.client import Client
from mooring.kube.objects import Node, PersistentVolume
from mooring.kube.objects.fencing import FenceTarget, NodeFence
from mooring.kube.reason import Reason
from mooring.volumes.attachment_lock import was_taken_from


class HearingOut:
    """`look_again` wants a fence decided again after so many seconds."""

    def __init__(
        self,
        client: Client,
        orders: Orders,
        unfencing: Unfencing,
        look_again: Callable[[str, float], None],
    ) -> None:
        self._client = client
        self._orders = orders
        self._unfencing = unfencing
        self._look_again = look_again

    async def hear_out(self, fence: NodeFence, step: Step, *, is_asked: bool) -> bool:
        """Looks whether the order has struck; a second source is believed that says it has not, as the
        mechanism may be about another machine. What it has shut out is let in, under another boot, or where
        nothing can have been released on this fence, however long ago it was ordered. Else it is given again,
        which changes nothing, for its answer: the fence is in force. Of what a mechanism does not tell for
        long, so that it is not asked any more (`is_asked`), it stays unknown. Returns whether that was
        written now."""
        target = fence.status.target
        assert target is not None
        node = await self._client.find(Node, target.node_name)
        same = may_run_still(fence, target, node)
        is_power = self._orders.scope_of(step.mechanism) == Scope.POWER
        looks = await self._orders.looks([step.mechanism, *step.confirm_with], target, step.token)
        states = {name: each.state for name, each in looks.items()}
        may_strike_the_next = is_power and not same
        is_shut = states[step.mechanism] is State.SHUT
        lets_in = is_shut and not is_power and not (same and await self._may_be_elsewhere(fence, target))
        if State.OPEN in states.values() or may_strike_the_next or not (is_asked or lets_in):
            return await self._not_heard(
                fence, step, "; ".join(each.message for each in looks.values()), node
            )
        self._look_again(fence.name, UNFENCE_AGAIN_S)
        if lets_in and await self._unfencing.let_in(fence, step.mechanism, step.token):
            return await self._not_heard(fence, step, "it had struck, and the node is let in", node)
        if is_shut and not lets_in:
            await self._orders.give(fence, step, node)
        return False

    async def _not_heard(self, fence: NodeFence, step: Step, found: str, node: Node | None) -> bool:
        said = Reason(NOT_HEARD, f"its answer was not heard; looked at since: {found}")
        await self._orders.unknown(fence, step, said, node)
        return True

    async def _may_be_elsewhere(self, fence: NodeFence, target: FenceTarget) -> bool:
        """Whether another node may have what this boot had: by this fence, which was in force once, or as it
        was taken from there by force, on whatever word. What the boot has not written yet, it would write
        when it is let in."""
        attempts = fence.status.attempts
        if any(each.outcome == Outcome.FENCED or each.reason == CONTRADICTED for each in attempts):
            return True
        volumes = (await self._client.list(PersistentVolume)).items
        return any(was_taken_from(each, target.node_name, target.boot_id) for each in volumes)

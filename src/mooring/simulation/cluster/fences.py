"""What goes wrong with the devices of a simulated cluster's fences, and what users do about fences.

A machine that the storage has shut out is let in after a new boot only, and it does not restart by itself.
Users restart it when they want the node back; and once all is healed an operator looks after those that are
left, also after those that no fence tells of (an order that took effect when it was given up, or on the wrong
machine), and wants those back that a fence has left switched off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from mooring.controllers.fencing.names import REQUEST, is_of_a_fence
from mooring.fence.interface import Scope
from mooring.kube.errors import KubeError
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import NodeFence
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.cluster.scenario import PlanStep
from mooring.simulation.engine.randomness import stream
from mooring.simulation.engine.trace import Event
from mooring.simulation.parts.fence_device import UNTRUTHFUL, Manner
from mooring.volumes.names import FENCE_EVIDENCE
from mooring.volumes.node_fences import Phase, proof_of

ATTACHMENTS, FENCES = "volumeattachments.storage.k8s.io", "nodefences.fencing.mooring.dev"
LOOK_S, OFF_S = 20.0, 5.0
"""How often an operator looks after machines that are shut out, and for how long one is off in a restart."""
UNTAINTS_S, UNTAINTS_EVERY_S = 150.0, 0.05
"""For how long a tool takes taints off, and how soon."""
APART_S = 180.0
"""After one source was wrong about a node, and before another is."""
FAULTS: dict[str, Manner] = {
    "fence-late": Manner.LATE,
    "fence-lost": Manner.LOST,
    "fence-unanswered": Manner.UNANSWERED,
    "fence-twice": Manner.TWICE,
    "fence-nothing": Manner.NOTHING,
    "fence-lies": Manner.LIES,
    "fence-stale": Manner.STALE,
    "fence-swapped": Manner.SWAPPED,
    "fence-recounts": Manner.RECOUNTS,
}


def shows(event: Event, node: str, *, on_record: bool) -> bool:
    """Whether it is written just now that a fence has cut the node off: of the fence, or (`on_record`) as
    evidence on a VolumeAttachment."""
    body = msgspec.json.decode(event.fields["_body"])
    if on_record:
        evidence = body["metadata"].get("annotations", {}).get(FENCE_EVIDENCE)
        return event.fields["resource"] == ATTACHMENTS and bool(evidence) and body["spec"]["nodeName"] == node
    if event.fields["resource"] != FENCES or body["spec"]["nodeName"] != node:
        return False
    status = body.get("status", {})
    return bool(status.get("proof")) and not status.get("releasedAt")


class FenceFaults:
    """What goes wrong with devices. One small function for each kind would say the same eight times."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._wrong_until: dict[str, tuple[str, float]] = {}  # node -> device, and until when it is wrong

    async def strike(self, step: PlanStep) -> None:
        """A device of the node (how: which) behaves so for a while."""
        manner, node, now = FAULTS[step.what], step.on, asyncio.get_running_loop().time()
        devices = self._cluster.devices
        device = devices[[*devices][step.how % len(devices)]]
        if manner in UNTRUTHFUL and not self._may_be_wrong(node, device.kind, now + step.value):
            return
        mine = device.manners[node] = (manner, max(step.value, 1.0))
        await asyncio.sleep(step.value)
        if device.manners.get(node) is mine:
            del device.manners[node]

    def _may_be_wrong(self, node: str, device: str, until: float) -> bool:
        """No other source is wrong about the node then. A device whose cables are another's is wrong about
        that, too."""
        for each in self._cluster.scenario.node_names:
            other, over = self._wrong_until.get(each, ("", 0.0))
            if other not in ("", device) and over + APART_S > asyncio.get_running_loop().time():
                return False
        self._wrong_until[node] = device, max(until, self._wrong_until.get(node, ("", 0.0))[1])
        return True

    def heal(self) -> None:
        for device in self._cluster.devices.values():
            device.manners.clear()


UNDER_WAY = (Phase.FENCING, Phase.FENCED)
"""A fence that has ordered something, and is none for a person, may mean its node to be off."""


class FencingUsers:
    """What users do about fences."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster, self._api, self._made = cluster, cluster.api, 0

    async def fence_node(self, step: PlanStep) -> None:
        """A user asks for a fence of the node as it is; half of them by its annotation."""
        self._cluster.trace("user", "plan.fence-asked", node=step.on)
        if stream(self._cluster.seed, f"fence asked for at {step.at}").random() < 0.5:
            body = {"metadata": {"annotations": {REQUEST: "asked for"}}}
            await self._cluster.as_user(lambda: self._api.patch(Node, step.on, body))
            return
        self._made += 1
        name = f"by-hand-{self._made}"
        spec = {"nodeName": step.on, "requestedBy": "user", "reason": "asked for"}
        body = {"metadata": {"name": name}, "spec": spec}
        await self._cluster.as_user(lambda: self._api.create(NodeFence, body))

    async def delete_fence(self, step: PlanStep) -> None:
        """A user deletes all fences of the node; what has begun has a finalizer."""

        async def delete() -> None:
            for each in await self._of(step.on):
                await self._api.delete(NodeFence, each.name)

        await self._cluster.as_user(delete)

    async def unfence(self, step: PlanStep) -> None:
        """A user wants the node back."""

        async def ask() -> None:
            for each in await self._of(step.on):
                await self._api.patch(NodeFence, each.name, {"spec": {"unfence": True}})

        await self._cluster.as_user(ask)
        if self._shut_out(step.on):
            await self._restart(step.on)

    async def untaint(self, step: PlanStep) -> None:
        """A user's tool that owns the node's taints takes those of fences off whenever they are there, for a
        while, and not once all is healed."""

        async def take_off() -> None:
            node = await self._api.get(Node, step.on)
            others = [each for each in node.spec.taints if not is_of_a_fence(each)]
            if len(others) < len(node.spec.taints):
                await self._api.revise(node, {"spec": {"taints": msgspec.to_builtins(others) or None}})

        until = min(asyncio.get_running_loop().time() + UNTAINTS_S, self._cluster.scenario.heal_s)
        while asyncio.get_running_loop().time() < until:
            await self._cluster.as_user(take_off)
            await asyncio.sleep(UNTAINTS_EVERY_S)

    async def look_after(self) -> None:
        """Wants nodes back that are fenced, restarts machines that are shut out, and lets in those of which
        no fence tells. For ever."""
        restarted: dict[str, int] = {}
        while True:
            await asyncio.sleep(LOOK_S)
            for node in sorted(self._cluster.machines.keys() - self._cluster.powered - self._cluster.lost):
                await self._wanted_back(node)
            for node in filter(self._shut_out, self._cluster.scenario.node_names):
                await self._looked_after(node, restarted)

    async def _wanted_back(self, node: str) -> None:
        under_way = False
        try:
            for each in await self._of(node):
                if each.status.released_at and not each.spec.unfence and each.status.phase == Phase.FENCED:
                    await self._api.patch(NodeFence, each.name, {"spec": {"unfence": True}})
                under_way = under_way or (bool(each.status.attempts) and each.status.phase in UNDER_WAY)
        except KubeError:
            return  # it is looked at again
        if not under_way and self._is_healed():
            self._cluster.power_on(node)  # a person has gone there, and has found it off

    def _is_healed(self) -> bool:
        return asyncio.get_running_loop().time() >= self._cluster.scenario.heal_s

    async def _looked_after(self, node: str, restarted: dict[str, int]) -> None:
        try:
            fences = await self._of(node)
        except KubeError:
            return
        cluster = self._cluster
        is_open = [each for each in fences if each.status.attempts and each.status.phase in Phase.OPEN]
        if self._is_healed():
            await self._cluster.as_user(lambda: self._taken_back(node, is_open))
        if any((proof := proof_of(each)) is None or proof.scope == Scope.POWER for each in is_open):
            return  # it is not known yet what comes of it, or its machine is off
        boot = cluster.machines[node].boots
        if restarted.get(node) != boot:
            await self._restart(node)
            restarted[node] = cluster.machines[node].boots
        elif not is_open:
            targets = cluster.array.targets
            targets.let_in(node, targets.shut_out_of(node))

    async def _taken_back(self, node: str, fences: Sequence[NodeFence]) -> None:
        """As the reason of a fence says that waits for a person, about a node that answers."""
        for each in fences:
            if each.status.phase != Phase.AWAITING_PERSON or each.spec.unfence:
                continue
            found = await self._api.find(Node, node)
            if found is not None and found.ready == "True":
                await self._api.patch(NodeFence, each.name, {"spec": {"unfence": True}})

    def _shut_out(self, node: str) -> bool:
        """Whether the storage shuts out a machine that can be restarted."""
        return node not in self._cluster.lost and bool(self._cluster.array.targets.shut_out_of(node))

    async def _restart(self, node: str) -> None:
        self._cluster.power_off(node)
        await asyncio.sleep(OFF_S)
        self._cluster.power_on(node)

    async def _of(self, node: str) -> Sequence[NodeFence]:
        return [each for each in (await self._api.list(NodeFence)).items if each.spec.node_name == node]

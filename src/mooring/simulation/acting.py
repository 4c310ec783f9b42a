"""Carries out the steps of a plan on a world, and heals it afterwards. One small function for each kind of step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mooring.kube.objects import Node, Pod, StatefulSet
from mooring.simulation.loop import Actor
from mooring.simulation.plan import Plan, Step
from mooring.simulation.world import Part, World
from mooring.volumes.errors import VolumeError
from mooring.volumes.out_of_service import TAINT

DECLARE_AFTER_S = 60.0
"""A user who declares a machine out of service does so when it has been off for this time."""


class Acting:
    """Plays plans on one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._leaders: list[Actor] = []  # of those who have a successor
        self._frozen: list[Actor] = []

    async def play(self, plan: Plan) -> None:
        """Begins each step at its time, and does not wait for its end."""
        for step in plan:
            await asyncio.sleep(max(step.at - asyncio.get_running_loop().time(), 0))
            self.world.trace("plan", "plan.step", what=step.what, on=step.on, value=step.value, how=step.how)
            act: Callable[[Step], Awaitable[None]] = getattr(self, "_" + step.what.replace("-", "_"))
            self.world.user.start(self._heard(act(step)))

    async def _heard(self, work: Awaitable[None]) -> None:
        await work

    async def create_sets(self) -> None:
        for name, replicas in self.world.scenario.sets.items():
            await self.world.as_user(lambda name=name, replicas=replicas: self._create_set(name, replicas))

    async def heal(self) -> None:
        """No fault is in force any more, all machines are on, users have taken back what they set aside."""
        world = self.world
        for actor in (*self._leaders, *self._frozen):
            actor.halted = True
        array = world.array
        array.failure, array.unanswered = None, lambda: False
        array.attach_s = array.attach_reply_s = array.detach_s = 0.0
        array.unmount_s.clear()
        if world.network.server is None:
            world.server.start()
        for part in world.parts():
            part.link.clear()
            if part.actor is not None and part.actor in self._frozen:
                part.kill()
        for name in world.machines:
            world.machines[name].runtime.stop_s = 0.0
            world.power_on(name)
        for part in world.parts():
            part.start()
            assert part.actor is not None
            part.actor.skew = 0.0
            part.crash_at(1 << 60)
        for name in world.machines:
            await self._uncordon(Step(0, "uncordon", name))
            await world.as_user(lambda name=name: self._declare(name, False))
        world.trace("plan", "plan.healed")

    def _part(self, name: str) -> Part:
        return self.world.processes.get(name) or self.world.nodes[name]

    def _may_start(self, name: str) -> bool:
        return name in self.world.processes or name in self.world.powered

    def _restart(self, name: str) -> None:
        if self._may_start(name):
            self._part(name).start()

    # --- faults

    async def _kill(self, step: Step) -> None:
        self._part(step.on).kill()
        await asyncio.sleep(step.value)
        self._restart(step.on)

    async def _crash(self, step: Step) -> None:
        part = self._part(step.on)
        part.crash_at(step.how)
        await asyncio.sleep(step.value + 15)
        self._restart(step.on)

    async def _freeze(self, step: Step) -> None:
        part = self._part(step.on)
        actor = part.actor
        if actor is None or actor.halted:
            return
        actor.halted = True
        self._frozen.append(actor)
        await asyncio.sleep(step.value)
        if part.actor is actor:
            actor.resume()
            self._frozen.remove(actor)

    async def _two_leaders(self, step: Step) -> None:
        part = self._part(step.on)
        old = part.abandon()
        if old is None:
            return
        self._leaders.append(old)
        part.start()
        await asyncio.sleep(step.value)
        if asyncio.get_running_loop().time() < self.world.scenario.heal_s:
            old.resume()
            await asyncio.sleep(20)
            old.halted = True

    async def _power_off(self, step: Step) -> None:
        self.world.power_off(step.on)
        declared = step.how == 1 and step.value > DECLARE_AFTER_S
        if declared:
            await asyncio.sleep(DECLARE_AFTER_S)
            if step.on in self.world.powered:
                return
            await self.world.as_user(lambda: self._declare_if_off(step.on))
        await asyncio.sleep(max(step.value - DECLARE_AFTER_S, 0) if declared else step.value)
        self.world.power_on(step.on)
        if declared:
            await asyncio.sleep(10)
            await self.world.as_user(lambda: self._declare(step.on, False))

    async def _kill_server(self, step: Step) -> None:
        self.world.kill_server()
        await asyncio.sleep(step.value)
        self.world.server.start()

    async def _cut(self, step: Step) -> None:
        await self._weather(step, lambda part: part.link.cut())

    async def _cut_requests(self, step: Step) -> None:
        await self._weather(step, lambda part: part.link.cut(replies=False))

    async def _cut_replies(self, step: Step) -> None:
        await self._weather(step, lambda part: part.link.cut(requests=False))

    async def _storm(self, step: Step) -> None:
        def begin(part: Part) -> None:
            weather = part.link.weather
            weather.lost = weather.unanswered = weather.late = weather.repeated = 0.1

        await self._weather(step, begin)

    async def _watch_lag(self, step: Step) -> None:
        def begin(part: Part) -> None:
            part.link.weather.watch_lag = 1.0 + step.how * 3

        await self._weather(step, begin)

    async def _weather(self, step: Step, begin: Callable[[Part], None]) -> None:
        part = self._part(step.on)
        begin(part)
        await asyncio.sleep(step.value)
        part.link.clear()

    async def _skew(self, step: Step) -> None:
        actor = self._part(step.on).actor
        if actor is not None:
            actor.skew = step.value

    async def _slow_unmount(self, step: Step) -> None:
        self.world.array.unmount_s[step.on] = step.value

    async def _slow_stop(self, step: Step) -> None:
        self.world.machines[step.on].runtime.stop_s = step.value

    async def _slow_array(self, step: Step) -> None:
        array = self.world.array
        array.attach_s, array.attach_reply_s, array.detach_s = step.value, step.value * (step.how % 3), step.value
        await asyncio.sleep(60 + step.value)
        array.attach_s = array.attach_reply_s = array.detach_s = 0.0

    async def _array_fails(self, step: Step) -> None:
        self.world.array.failure = VolumeError("the array is out of order")
        await asyncio.sleep(step.value)
        self.world.array.failure = None

    async def _array_unanswered(self, step: Step) -> None:
        self.world.array.unanswered = lambda: True
        await asyncio.sleep(step.value)
        self.world.array.unanswered = lambda: False

    # --- users

    async def _create_set(self, name: str, replicas: int) -> None:
        await self.world.api.create(StatefulSet, {"metadata": {"name": name}, "spec": set_spec(name, replicas)}, NS)

    async def _scale(self, step: Step) -> None:
        async def scale() -> None:
            await self.world.api.patch(StatefulSet, step.on, {"spec": {"replicas": int(step.value)}}, NS)

        await self.world.as_user(scale)

    async def _delete_pod(self, step: Step) -> None:
        await self.world.as_user(lambda: self.world.api.delete(Pod, f"{step.on}-{step.how}", NS))

    async def _force_delete_pod(self, step: Step) -> None:
        async def delete() -> None:
            pod = await self.world.api.get(Pod, f"{step.on}-{step.how}", NS)
            self.world.trace("user", "plan.forced", pod=pod.name, uid=pod.uid)
            await self.world.api.delete(Pod, pod.name, NS, uid=pod.uid, grace_period_seconds=0)

        await self.world.as_user(delete)

    async def _delete_set(self, step: Step) -> None:
        """And create it anew a minute later."""
        await self.world.as_user(lambda: self.world.api.delete(StatefulSet, step.on, NS))
        await asyncio.sleep(60)
        replicas = self.world.scenario.sets[step.on]
        await self.world.as_user(lambda: self._create_set(step.on, replicas))

    async def _drain(self, step: Step) -> None:
        async def drain() -> None:
            await self.world.api.patch(Node, step.on, {"spec": {"unschedulable": True}})
            for pod in (await self.world.api.list(Pod, field_selector=f"spec.nodeName={step.on}")).items:
                await self.world.api.delete(Pod, pod.name, pod.namespace, uid=pod.uid)

        await self.world.as_user(drain)

    async def _uncordon(self, step: Step) -> None:
        await self.world.as_user(lambda: self.world.api.patch(Node, step.on, {"spec": {"unschedulable": None}}))

    async def _declare_if_off(self, node: str) -> None:
        if node not in self.world.powered:
            await self._declare(node, True)

    async def _declare(self, node: str, out: bool) -> None:
        found = await self.world.api.get(Node, node)
        others = [{"key": t.key, "effect": t.effect, "value": t.value} for t in found.spec.taints if t.key != TAINT]
        if not out and len(others) == len(found.spec.taints):
            return
        taint = [{"key": TAINT, "value": "nodeshutdown", "effect": "NoExecute"}] if out else []
        self.world.trace("user", "plan.declared", node=node, out=out)
        await self.world.api.revise(found, {"spec": {"taints": [*others, *taint]}})


NS = "default"


def set_spec(name: str, replicas: int) -> dict[str, Any]:
    """A StatefulSet whose pods have a disk each, and are evicted soon from a node that does not answer."""
    labels = {"app": name}
    unready = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
        for key in ("unreachable", "not-ready")
    ]
    mount = {"name": "data", "mountPath": "/data"}
    container = {"name": "main", "image": "app", "command": ["run"], "volumeMounts": [mount]}
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "disk",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    pod = {"containers": [container], "terminationGracePeriodSeconds": 10, "tolerations": unready}
    return {
        "replicas": replicas,
        "serviceName": name,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
        "volumeClaimTemplates": [claim],
    }

"""Plays the faults of a plan on a cluster, from outside, and heals each.

Guarantees: what a fault has done is taken back before the next one begins, also where it failed in its
middle; a fault that cannot be played here is reported with the reason, and is never counted.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
from tests.machines.stateful.plan import Fault, Step

from mooring.apiserver.data_directory import STORE
from mooring.cluster.layout import ClusterError
from mooring.cluster.processes import Running
from mooring.cluster.stage import Disappointed, Stage
from mooring.kube.errors import KubeError
from mooring.kube.objects import ConfigMap, Node, Pod
from mooring.volumes.out_of_service import TAINT

WELL_S = 120.0
"""So long may it take after a fault until all nodes are Ready."""


class NotHere(Exception):
    """A fault cannot be played on this cluster; the message says why."""


class Nemesis:
    """Knows the cluster's nodes, and the pods' label `app`."""

    def __init__(self, stage: Stage, app: str, say: Callable[[str], None]) -> None:
        self.played: Counter[str] = Counter()
        self.left_out: dict[str, str] = {}
        self._stage = stage
        self._app = app
        self._say = say
        self._nodes: list[str] = []
        self._heal = AsyncExitStack()

    async def look_around(self, faults: tuple[Fault, ...]) -> list[Fault]:
        """Returns the faults that these machines can have; the others are in `left_out`, with the reason."""
        self._nodes = sorted(node.name for node in (await self._stage.client.list(Node)).items)
        for fault in faults:
            if fault.cut:
                status, said = await self._stage.command("node", "cut", self._nodes[0], "--from", fault.cut)
                if status:
                    self.left_out[fault.name] = said.splitlines()[-1]
                else:
                    await self._order("heal", self._nodes[0])
        return [fault for fault in faults if fault.name not in self.left_out]

    async def play(self, step: Step) -> None:
        """One fault, from its beginning until all nodes are well again."""
        await asyncio.sleep(step.pause)
        node = self._nodes[step.node % len(self._nodes)]
        beside = f", and {step.beside.about} meanwhile" if step.beside else ""
        self._say(f"{step.fault.about} ({node}, {step.lasts:.1f} s){beside}")
        method: Callable[[Step, str], Awaitable[None]] = getattr(self, step.fault.name)
        try:
            async with AsyncExitStack() as self._heal:
                await asyncio.gather(method(step, node), self._beside(step, node))
            self.played[step.fault.name] += 1
        except NotHere as error:
            self.left_out[step.fault.name] = str(error)
            self._say(f"  left out: {error}")
        await self.until_well()

    async def _beside(self, step: Step, node: str) -> None:
        if step.beside is not None:
            await asyncio.sleep(step.lasts / 2)
            with suppress(NotHere, Disappointed):
                await getattr(self, step.beside.name)(step, node)
                self.played[step.beside.name] += 1

    async def until_well(self) -> None:
        """Waits until all nodes are Ready. Raises Disappointed."""
        count = len(self._nodes)
        await self._stage.until(
            "all nodes are Ready", lambda: self._stage.ready_nodes(count), patience=WELL_S
        )

    # between a node and the API server, and between nodes

    async def cut_from_api(self, step: Step, node: str) -> None:
        await self._cut(step, node)

    async def cut_from_peers(self, step: Step, node: str) -> None:
        await self._cut(step, node)

    async def cut_from_all(self, step: Step, node: str) -> None:
        await self._cut(step, node)

    async def _cut(self, step: Step, node: str) -> None:
        self._heal.push_async_callback(self._order, "heal", node)
        await self._order("cut", node, "--from", step.fault.cut)
        await asyncio.sleep(step.lasts)

    async def stop_api_server(self, step: Step, node: str) -> None:
        await self._stop(self._part("apiserver"), step.lasts)

    async def kill_api_server(self, step: Step, node: str) -> None:
        self._part("apiserver").send(signal.SIGKILL)

    # between the API server and its store

    async def lock_store(self, step: Step, node: str) -> None:
        path = (self._stage.layout.apiserver / STORE).absolute()
        store = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=5)
        self._heal.callback(store.close)
        try:
            store.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise NotHere(f"the store's lock was not to be had: {error}") from error
        await asyncio.sleep(step.lasts)
        store.execute("ROLLBACK")

    async def kill_api_server_while_it_writes(self, step: Step, node: str) -> None:
        async def write(number: int) -> None:
            with suppress(KubeError):
                body = {"metadata": {"name": f"burst-{number}"}, "data": {"text": "x" * 1000}}
                await self._stage.client.create(ConfigMap, body, "default")
                await self._stage.client.delete(ConfigMap, f"burst-{number}", "default")

        burst = [asyncio.create_task(write(each)) for each in range(30)]
        await asyncio.sleep(0.05 + step.pod / 1e4)
        self._part("apiserver").send(signal.SIGKILL)
        await asyncio.gather(*burst)

    # controllers

    async def kill_controllers(self, step: Step, node: str) -> None:
        self._part("controllers").send(signal.SIGKILL)

    async def stop_controllers(self, step: Step, node: str) -> None:
        await asyncio.gather(self._stop(self._part("controllers"), step.lasts), self.delete_pod(step, node))

    async def double_controllers(self, step: Step, node: str) -> None:
        command = (
            Path(f"/proc/{self._part('controllers').pid}/cmdline").read_bytes().decode().split("\0")[:-1]
        )
        with (self._stage.layout.logs / "second-controllers.log").open("ab") as log:
            second = await asyncio.create_subprocess_exec(
                *command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._heal.push_async_callback(second.wait)
        self._heal.callback(second.kill)
        await asyncio.sleep(step.lasts / 2)
        await self.delete_pod(step, node)
        await asyncio.sleep(step.lasts / 2)
        if second.returncode is not None:
            raise Disappointed(f"the second controllers ended with status {second.returncode}")

    # agents

    async def kill_agent(self, step: Step, node: str) -> None:
        if self._stage.own_kernel(node):
            await self._signal_inside(node, "KILL")
            return
        self._agent(node).send(signal.SIGKILL)

    async def stop_agent(self, step: Step, node: str) -> None:
        if self._stage.own_kernel(node):
            self._heal.push_async_callback(self._signal_inside, node, "CONT")
            await self._signal_inside(node, "STOP")
            await asyncio.sleep(step.lasts)
            return
        await self._stop(self._agent(node), step.lasts)

    async def _signal_inside(self, node: str, signal_name: str) -> None:
        """To the agent of a machine with a kernel of its own, at its console."""
        script = f"pkill -{signal_name} -f 'mooring.cli.main agent --name {node}'"
        with suppress(ClusterError):  # it is off
            await self._stage.run_in(node, script)

    # machines

    async def lose_power(self, step: Step, node: str) -> None:
        self._heal.push_async_callback(self._boot, node)
        await self._order("kill", node)
        await asyncio.sleep(step.lasts)

    async def lose_all_power(self, step: Step, node: str) -> None:
        for each in self._nodes:
            self._heal.push_async_callback(self._boot, each)
        await asyncio.gather(*(self._order("kill", each) for each in self._nodes))
        await asyncio.sleep(step.lasts)

    async def lose_machine(self, step: Step, node: str) -> None:
        self._heal.push_async_callback(self._boot, node)
        await self._order("kill", node)
        await self._stage.until("it may be confirmed dead", lambda: self._confirmed_dead(node))
        self._heal.push_async_callback(self._welcome, node)
        self._heal.push_async_callback(self._boot, node)
        await asyncio.sleep(step.lasts)

    async def _confirmed_dead(self, node: str) -> bool:
        return (await self._stage.command("node", "confirm-dead", node))[0] == 0

    async def _welcome(self, node: str) -> None:
        await self.until_well()
        await self._stage.until("its taint is taken away", lambda: self._without_taint(node))

    async def _without_taint(self, name: str) -> bool:
        node = await self._stage.client.get(Node, name)
        taints: list[Any] = msgspec.to_builtins([each for each in node.spec.taints if each.key != TAINT])
        await self._stage.client.revise(node, {"spec": {"taints": taints or None}})
        return True

    async def _boot(self, node: str) -> None:
        status, said = await self._stage.command("node", "start", node)
        if status and "is on" not in said:
            raise Disappointed(f"{node} does not boot: {said}")

    # users

    async def drain(self, step: Step, node: str) -> None:
        self._heal.push_async_callback(self._uncordon, node)
        with suppress(KubeError, Disappointed):  # a pod that cannot move now is asked for once
            await self._stage.drain(node)
        await asyncio.sleep(step.lasts)

    async def _uncordon(self, node: str) -> None:
        async def uncordoned() -> bool:
            await self._stage.cordon(node, False)
            return True

        await self._stage.until("it is uncordoned", uncordoned)

    async def delete_pod(self, step: Step, node: str) -> None:
        await self._delete(step, None)

    async def force_delete_pod(self, step: Step, node: str) -> None:
        await self._delete(step, 0)

    async def _delete(self, step: Step, grace: int | None) -> None:
        with suppress(KubeError):
            pods = (await self._stage.client.list(Pod, "default", label_selector=f"app={self._app}")).items
            if pods:
                pod = pods[step.pod % len(pods)]
                await self._stage.client.delete(
                    Pod, pod.name, "default", uid=pod.uid, grace_period_seconds=grace
                )

    # how

    async def _order(self, *words: str) -> None:
        status, said = await self._stage.command("node", *words)
        if status:
            raise Disappointed(f"mooring node {' '.join(words)}: {said}")

    def _part(self, name: str) -> Running:
        running = self._stage.part(name)
        if running is None:
            raise NotHere(f"{name} does not run at this moment")
        return running

    def _agent(self, node: str) -> Running:
        init = self._stage.machine(node)
        children = init.children() if init else []
        agents = [each for each in children if b"agent" in Path(f"/proc/{each.pid}/cmdline").read_bytes()]
        if not agents:
            raise NotHere(f"no agent of {node} is among this host's processes")
        return agents[0]

    async def _stop(self, running: Running, seconds: float) -> None:
        self._heal.callback(running.send, signal.SIGCONT)
        os.kill(running.pid, signal.SIGSTOP)
        await asyncio.sleep(seconds)
        running.send(signal.SIGCONT)

"""The proposal's fifteen steps, with a fault at each: a node is cut from the API server at that step, or the
controllers, or the agents of both nodes, are killed again and again, for longer than a node may be silent. In
the end no two nodes have written at once, nothing that was confirmed is lost, and all goes on by itself when
the fault is over.

`test_exclusive_volumes` plays the steps without faults. Here no device fences: nothing but the lock and the
nodes' own word moves a volume. Two faults are played in each run, all of them in a soak (`PLAN`).
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from standing_cluster import standing
from tests.machines.iscsi import ONE, TWO, need_iscsi, volume
from tests.machines.machines import inside
from tests.machines.pods import gone, pod

from mooring.cluster import control
from mooring.cluster.stage import Disappointed, Stage
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment
from mooring.volumes.attachment_lock import lock_of

pytestmark = [pytest.mark.root, pytest.mark.soak]

SOAK = "MOORING_SOAK" in os.environ
HELD_S = 12.0
"""So long a fault lasts: a node is lost after eight seconds."""
AGENT = "pgrep -f '[a]gent .*--name {}' | head -n 1"
"""Finds the agent of a node, and not the shell that looks."""
WRITES = """
trap 'sleep 2; exit 0' TERM
touch /data/records
echo "found $(wc -l < /data/records)"
while true; do
  n=$(($(wc -l < /data/records) + 1))
  echo "$n $POD" >> /data/records
  sync -d /data/records
  echo "wrote $n"
  sleep 0.2
done
"""


@pytest.fixture(scope="session", autouse=True)
def _installed() -> None:
    need_iscsi()


@pytest.fixture
async def stage(data_dir: Path) -> AsyncIterator[Stage]:
    flags = ("--machines", "uml=2", "--port", "0", "--node-monitor-grace-period", "8")
    async with standing(data_dir, *flags, nodes=2) as stage:
        yield stage


@dataclass
class Round:
    """One walk through the steps on a disk of its own. `at`: the step of the fault, which `begin` plays and
    ends after `HELD_S`. `late`: the second node's agent looks only when the volume is granted to it."""

    stage: Stage
    server: dict[str, Any]
    lun: int
    at: int
    begin: Callable[[], Awaitable[None]]
    late: bool = False
    fault: asyncio.Future[None] | None = None
    seen: list[str] = field(default_factory=list[str])
    first: Pod | None = None
    confirmed: int = 0
    over: bool = False

    @property
    def name(self) -> str:
        return f"{self.server['name']}-{self.lun}"

    async def step(self, number: int) -> None:
        """The step is reached."""
        if number == self.at:
            self.fault = asyncio.ensure_future(self.begin())
            await asyncio.sleep(0.2)

    async def walk(self) -> None:
        """All fifteen steps. Raises AssertionError, Disappointed."""
        watching = asyncio.get_running_loop().create_task(self._watch())
        try:
            await self._walk()
        finally:
            self.over = True
            await watching
            if self.fault is not None:
                await self.fault

    async def _walk(self) -> None:
        stage, name = self.stage, self.name
        one, two = f"{name}-one", f"{name}-two"
        await self.step(1)
        await volume(stage, name, self.server, self.lun)
        await self.step(2)
        await self._until("the claim is bound", self._bound)
        await self.step(3)
        await self._pod(one, ONE)
        await self.step(4)
        await self._until("the first pod is scheduled", lambda: self._placed(one))
        await self.step(5)
        await asyncio.sleep(0.3)
        await self.step(6)
        await self._until("the volume is granted to the first node", lambda: self._granted(ONE))
        await self.step(7)
        await self._runs(one)
        await self._until("the first pod writes", lambda: self._wrote(one, ONE, 5))
        await self.step(8)
        self.first = live = await stage.client.get(Pod, one, "default")
        await stage.client.delete(Pod, one, "default")
        await self.step(9)
        if self.late:
            await inside(stage, f"kill -STOP $({AGENT.format(TWO)})", TWO)
        await self._pod(two, TWO)
        await self.step(10)
        if self.at in (9, 10, 11) or self.late:
            await asyncio.sleep(1.0)
        else:
            await self._until("the second pod is scheduled", lambda: self._placed(two))
        await self.step(11)
        await self._until("the first node has unmounted", self._unmounted)
        await self.step(12)
        await self._until("the first pod is gone", lambda: self._is_gone(one, live.uid))
        await self.step(13)
        if self.late:
            await self._until("the volume is granted to the second node", lambda: self._granted(TWO))
            assert not await self._has(TWO)
            await inside(stage, f"kill -CONT $({AGENT.format(TWO)})", TWO)
        await self.step(14)
        await self._until("the volume is granted to the second node", lambda: self._granted(TWO))
        await self.step(15)
        await self._runs(two)
        await self._until("the second pod writes", lambda: self._wrote(two, TWO, 5))
        await self._whole(one, two)

    async def _whole(self, one: str, two: str) -> None:
        """What is on the disk, read on the node that has it: one record after the other, first of the one
        pod, then of the other, and all that was confirmed."""
        if self.fault is not None:
            await self.fault
        live = await self.stage.client.get(Pod, two, "default")
        where = (
            f"{self.stage.layout.node(TWO)}/pods/{live.uid}/volumes/kubernetes.io~iscsi/{self.name}/records"
        )
        lines = [each.split() for each in (await inside(self.stage, f"cat '{where}'", TWO)).splitlines()]
        assert [int(number) for number, _ in lines] == list(range(1, len(lines) + 1)), "a record is lost"
        writers = [writer for _, writer in lines]
        first = writers.count(one)
        assert writers == [one] * first + [two] * (len(lines) - first), "two have written at once"
        assert first >= max(5, self.confirmed), f"{self.confirmed} were confirmed, {first} are there"
        assert len(lines) > first
        lock = lock_of(await self.stage.client.get(PersistentVolume, self.name))
        assert (lock.node, lock.pod) == (TWO, f"default/{two}")
        assert not self.seen, self.seen
        await gone(self.stage, two)

    # --- looked at all the time

    async def _watch(self) -> None:
        """Never two attachments that say so, nor two machines that have the disk."""
        while not self.over:
            with suppress(Exception):  # the API server is asked again
                found = (await self.stage.client.list(VolumeAttachment)).items
                holders = [
                    each.spec.node_name
                    for each in found
                    if each.spec.source.persistent_volume_name == self.name and each.status.attached
                ]
                if len(holders) > 1:
                    self.seen.append(f"attached to {holders}")
            with suppress(Exception):
                if self.first is not None:
                    self.confirmed = max(self.confirmed, await self._last(ONE, self.first))
                if all([await self._has(ONE), await self._has(TWO)]):
                    self.seen.append("both machines have the disk")
            await asyncio.sleep(1.0)

    async def _has(self, node: str) -> bool:
        """Whether the machine has the disk: of one that is not there any more, no directory is left."""
        script = f"ls -d /sys/class/iscsi_session/*/device/target*/*:*:*:{self.lun} 2> /dev/null; true"
        return bool(await inside(self.stage, script, node))

    async def _unmounted(self) -> bool:
        return not await self._has(ONE)

    # --- what the API says

    async def _until(self, what: str, holds: Callable[[], Awaitable[Any]]) -> None:
        try:
            await self.stage.until(f"{self.name}, fault at step {self.at}: {what}", holds, patience=120)
        except Disappointed:
            self.seen and print(self.seen)
            raise

    async def _pod(self, name: str, node: str) -> None:
        await pod(self.stage, name, node, f"POD={name}\n{WRITES}", grace_s=15, data=self.name)

    async def _bound(self) -> bool:
        return (
            await self.stage.client.get(PersistentVolumeClaim, self.name, "default")
        ).status.phase == "Bound"

    async def _placed(self, name: str) -> str:
        return (await self.stage.client.get(Pod, name, "default")).spec.node_name

    async def _granted(self, node: str) -> bool:
        found = (await self.stage.client.list(VolumeAttachment)).items
        mine = [each for each in found if each.spec.source.persistent_volume_name == self.name]
        return [(each.spec.node_name, each.status.attached) for each in mine] == [(node, True)]

    async def _runs(self, name: str) -> None:
        async def runs() -> bool:
            return (await self.stage.client.get(Pod, name, "default")).status.phase == "Running"

        await self._until(f"{name} runs", runs)

    async def _is_gone(self, name: str, uid: str) -> bool:
        live = await self.stage.client.find(Pod, name, "default")
        return live is None or live.uid != uid

    async def _wrote(self, name: str, node: str, count: int) -> bool:
        live = await self.stage.client.get(Pod, name, "default")
        return (await self._lines(node, live)).count("wrote ") >= count

    async def _last(self, node: str, live: Pod) -> int:
        lines = (await self._lines(node, live)).splitlines()
        return max((int(each.rsplit(" ", 1)[1]) for each in lines if "wrote " in each), default=0)

    async def _lines(self, node: str, live: Pod) -> str:
        return await self.stage.logs(node, live.uid, "main") or ""


async def insist(stage: Stage, *words: str) -> None:
    """Orders it of a node until it is done: of a machine that is slow to answer it must be asked again."""

    async def done() -> bool:
        return (await stage.command("node", *words))[0] == 0

    await stage.until(f"node {' '.join(words)}", done, patience=120)


def cut(stage: Stage, node: str) -> Callable[[], Awaitable[None]]:
    """The node hears nothing of the API server, nor that of it; the storage it reaches."""

    async def begin() -> None:
        await insist(stage, "cut", node, "--from", "api")
        await asyncio.sleep(HELD_S)
        await insist(stage, "heal", node)

    return begin


def controllers_killed(stage: Stage) -> Callable[[], Awaitable[None]]:
    """Whenever the controllers are back, they are killed again."""

    async def kill() -> None:
        with suppress(Disappointed, ProcessLookupError):
            stage.kill_part("controllers")

    return partial(_again_and_again, kill)


def agents_killed(stage: Stage) -> Callable[[], Awaitable[None]]:
    """Whenever the agents of both nodes are back, they are killed again."""

    async def kill() -> None:
        for node in (ONE, TWO):
            await stage.run_in(node, f"kill -9 $({AGENT.format(node)})")

    return partial(_again_and_again, kill)


async def _again_and_again(kill: Callable[[], Awaitable[None]]) -> None:
    for _ in range(int(HELD_S / 1.5)):
        await kill()
        await asyncio.sleep(1.5)


async def served(stage: Stage, disks: int) -> list[tuple[dict[str, Any], int]]:
    """So many disks, each as a server and a LUN of it; both machines can log in."""
    status, answer = await stage.command("storage", "iscsi", "disk", "--size", "64Mi", "--disks", str(disks))
    assert status == 0, answer
    (server,) = json.loads(await control.say(stage.layout.control, "storage-list", ""))
    for node in (ONE, TWO):
        await inside(stage, server["commands"]["prepare"], node)
    return [(server, lun) for lun in range(1, disks + 1)]


@dataclass(frozen=True)
class Fault:
    """What is broken, by its name in `FAULTS`, at which step; `late`: the second node's agent looks late."""

    what: str
    step: int
    late: bool = False

    async def played(self, stage: Stage, disk: tuple[dict[str, Any], int]) -> None:
        """One walk through the steps with it. Raises AssertionError, Disappointed."""
        await Round(stage, *disk, self.step, FAULTS[self.what](stage), self.late).walk()
        print(f"{self}: well", flush=True)


ONE_CUT, TWO_CUT = "first node cut off", "second node cut off"
CONTROLLERS, AGENTS = "controllers killed", "agents killed"
FAULTS: dict[str, Callable[[Stage], Callable[[], Awaitable[None]]]] = {
    ONE_CUT: partial(cut, node=ONE),
    TWO_CUT: partial(cut, node=TWO),
    CONTROLLERS: controllers_killed,
    AGENTS: agents_killed,
}
STEPS = range(1, 16)
SECOND = range(10, 16)
"""Steps that are the second node's, too."""
LATE = range(9, 16)
"""Steps at which a fault is played while the second node's agent looks late. That is stopped, and nothing
else is done to it."""
PLAN = {
    ONE_CUT: [Fault(ONE_CUT, step) for step in STEPS],
    TWO_CUT: [Fault(TWO_CUT, step) for step in SECOND],
    CONTROLLERS: [Fault(CONTROLLERS, step) for step in STEPS],
    AGENTS: [Fault(AGENTS, step) for step in STEPS],
    f"{ONE_CUT}, second late": [Fault(ONE_CUT, step, late=True) for step in LATE],
    f"{CONTROLLERS}, second late": [Fault(CONTROLLERS, step, late=True) for step in LATE],
}
AT_ONCE = 4
"""Faults that one cluster sees, one after the other."""


@pytest.mark.timeout(600)
async def test_a_node_that_is_cut_off_while_it_lets_go_and_controllers_that_are_killed_then(
    stage: Stage,
) -> None:
    faults = Fault(ONE_CUT, 11), Fault(CONTROLLERS, 12, late=True)
    for disk, fault in zip(await served(stage, len(faults)), faults, strict=True):
        await fault.played(stage, disk)


def parts() -> Iterator[Any]:
    """The plan, each part for a cluster of its own."""
    for name, faults in PLAN.items():
        for first in range(0, len(faults), AT_ONCE):
            some = faults[first : first + AT_ONCE]
            yield pytest.param(some, id=f"{name} at {some[0].step}-{some[-1].step}".replace(" ", "-"))


@pytest.mark.skipif(not SOAK, reason="minutes: `make soak` plays it")
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("faults", list(parts()))
async def test_a_fault_at_each_step_in_both_orders_of_the_nodes(
    stage: Stage, faults: Sequence[Fault]
) -> None:
    for disk, fault in zip(await served(stage, len(faults)), faults, strict=True):
        await fault.played(stage, disk)

"""What a simulated disk array does when it is not well: its faults, as steps of a plan."""

from __future__ import annotations

import asyncio

from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.cluster.scenario import PlanStep
from mooring.simulation.engine.randomness import stream
from mooring.volumes.errors import VolumeError

PUT_OFF = 0.67
"""The share of requests that are put off."""
OVERTAKEN_S = 25.0
"""Less than a request to the array is valid, and more than it takes to take a Lease over."""


class ArrayFaults:
    """Plays faults on the array of one cluster; each method is a kind of step."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._array = cluster.array

    def heal(self) -> None:
        """The array is as it was at first."""
        array = self._array
        array.failure, array.unanswered = None, lambda: False
        array.take_its_time()
        array.overtaken_s = 0.0
        array.at_work.set()
        array.unmount_s.clear()
        array.quota, array.full = None, False
        array.denies.clear()
        array.mount_failure.clear()
        array.set_up_failure.clear()
        array.mount_s.clear()
        array.puts_off = lambda: 0.0

    async def slow_mount(self, step: PlanStep) -> None:
        """Mounts, and what gives them to pods, take long on that node."""
        self._array.mount_s[step.on] = step.value

    async def array_puts_off(self, step: PlanStep) -> None:
        """Two of three requests are answered with an error, and carried out later: as long as they are
        valid."""
        chance = stream(self._cluster.seed, f"array-puts-off {step.at}")
        longest = min(self._array.validity_s, step.value)
        self._array.puts_off = lambda: chance.random() * longest + 0.001 if chance.random() < PUT_OFF else 0.0
        await asyncio.sleep(60 + step.value)
        self._array.puts_off = lambda: 0.0

    async def slow_unmount(self, step: PlanStep) -> None:
        self._array.unmount_s[step.on] = step.value

    async def slow_array(self, step: PlanStep) -> None:
        array, seconds = self._array, step.value
        array.attach_s, array.attach_reply_s, array.detach_s = seconds, seconds * (step.how % 3), seconds
        await asyncio.sleep(60 + step.value)
        array.take_its_time()

    async def array_stalls(self, step: PlanStep) -> None:
        """The storage takes requests, and carries out none of them until later."""
        self._array.at_work.clear()
        await asyncio.sleep(step.value)
        self._array.at_work.set()

    async def array_overtakes(self, step: PlanStep) -> None:
        """Every other detach takes nearly as long as it is valid."""
        self._array.overtaken_s = OVERTAKEN_S
        await asyncio.sleep(step.value)
        self._array.overtaken_s = 0.0

    async def array_takes_away(self, step: PlanStep) -> None:
        """A machine loses power, and the storage takes the disks away that it had."""
        self._cluster.power_off(step.on)
        self._array.take_away(step.on)
        await asyncio.sleep(step.value)
        self._cluster.power_on(step.on)

    async def array_fails(self, step: PlanStep) -> None:
        self._array.failure = VolumeError("the array is out of order")
        await asyncio.sleep(step.value)
        self._array.failure = None

    async def array_full(self, step: PlanStep) -> None:
        """The storage has no room for another disk, and says so."""
        self._array.full = True
        await asyncio.sleep(step.value)
        self._array.full = False

    async def array_unanswered(self, step: PlanStep) -> None:
        self._array.unanswered = lambda: True
        await asyncio.sleep(step.value)
        self._array.unanswered = lambda: False

    async def quota(self, step: PlanStep) -> None:
        """The storage attaches no more than one disk to a node."""
        self._array.quota = 1
        await asyncio.sleep(step.value)
        self._array.quota = None

    async def array_lies(self, step: PlanStep) -> None:
        """Asked whether a disk is attached to that node, the storage says no."""
        self._array.denies.add(step.on)
        await asyncio.sleep(60 + step.value)
        self._array.denies.discard(step.on)

    async def mount_fails(self, step: PlanStep) -> None:
        """A mount on that node takes effect and fails, or (`how` is odd) what gives it to a pod."""
        failing = self._array.set_up_failure if step.how % 2 else self._array.mount_failure
        failing[step.on] = VolumeError("the mount took too long")
        await asyncio.sleep(step.value)
        failing.pop(step.on, None)

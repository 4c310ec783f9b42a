"""A machine that is real processes in a real cgroup: each writes a heartbeat, so that a test sees whether it
runs without asking anything that could be wrong."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mooring.cluster.machines.cgroup import Cgroup, of
from mooring.cluster.machines.interface import Cut, Power, Quality

BEAT_S = 0.02
PROGRAM = """
beat() { while :; do echo >> "$1"; sleep 0.02; done; }
(setsid sh -c 'while :; do echo >> "$0"; sleep 0.02; done' "$1.helper" &)
trap 'kill 0; exit' TERM
beat "$1"
"""


class HeartbeatMachine:
    """What the power switch needs of a machine. It has a helper that leaves its session and its parent."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.beats = directory / f"{name}.beats"
        self.boots = 0
        self.pressed = 0
        self.links = RememberedLinks()
        group = of(directory, name)
        assert group is not None, "needs cgroup v2"
        self._group: Cgroup = group
        self._process: asyncio.subprocess.Process | None = None

    @property
    def power(self) -> Power:
        return Power.ON if self._group.populated() else Power.OFF

    async def start(self) -> None:
        if self.power is Power.ON:
            return
        self.boots += 1
        self._group.make()
        command = self._group.entering(["/bin/sh", "-c", PROGRAM, "machine", str(self.beats)])
        self._process = await asyncio.create_subprocess_exec(*command, start_new_session=True)
        while self.power is Power.OFF:  # noqa: ASYNC110 - nothing tells it
            await asyncio.sleep(0.005)

    async def stop(self) -> bool:
        self.pressed += 1
        await self.lose_power()
        return True

    async def lose_power(self) -> None:
        await asyncio.to_thread(self._group.kill)
        if self._process is not None:
            await self._process.wait()
            self._process = None

    async def destroy(self) -> None:
        await self.lose_power()
        self._group.remove()

    async def writes(self) -> bool:
        """Whether anything of it goes on writing: looked at for many heartbeats."""
        before = self._written()
        await asyncio.sleep(20 * BEAT_S)
        return self._written() != before

    def _written(self) -> list[int]:
        files = (self.beats, self.beats.with_name(f"{self.beats.name}.helper"))
        return [file.stat().st_size if file.exists() else 0 for file in files]


class RememberedLinks:
    """A cable that remembers what was done to it."""

    def __init__(self) -> None:
        self.cuts: list[Cut] = []

    async def cut(self, cut: Cut) -> None:
        self.cuts.append(cut)

    async def heal(self) -> None:
        self.cuts.clear()

    async def worsen(self, quality: Quality) -> None: ...

    async def state(self) -> list[str]:
        return [f"cut from {cut.far} ({cut.direction})" for cut in self.cuts]

"""Devices that fail, wait or are busy as a test wants, and write down what was asked of them."""

from __future__ import annotations

import asyncio

from mooring.cloud.errors import VolumeBusy
from mooring.cloud.interface import Devices


class PlayedDevices(Devices):
    """`asked` has every call in order; calls in `failing` (method names) fail; `open` has the volumes in
    use."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.failing: set[str] = set()
        self.open: set[str] = set()
        self.gate = asyncio.Event()
        self.gate.set()

    async def _ask(self, method: str, *of: str) -> None:
        self.asked.append((method, *of))
        await self.gate.wait()
        if method in self.failing:
            raise OSError(f"{method} failed")

    async def create(self, volume_id: str, size: int, source: str = "") -> None:
        await self._ask("create", volume_id, str(size), source)

    async def delete(self, volume_id: str) -> None:
        await self._ask("delete", volume_id)

    async def resize(self, volume_id: str, size: int) -> None:
        await self._ask("resize", volume_id, str(size))

    async def attach(self, volume_id: str, instance_id: str, device: str) -> None:
        await self._ask("attach", volume_id, instance_id, device)

    async def detach(self, volume_id: str, instance_id: str, force: bool = False) -> None:
        await self._ask("detach", volume_id, instance_id, *(["force"] if force else []))
        if volume_id in self.open and not force:
            raise VolumeBusy(volume_id, ["mounted at /mnt"])

    async def snapshot(self, volume_id: str, snapshot_id: str) -> None:
        await self._ask("snapshot", volume_id, snapshot_id)

    async def delete_snapshot(self, snapshot_id: str) -> None:
        await self._ask("delete_snapshot", snapshot_id)

"""The nodes that the array's driver serves, and how many disks each may have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from mooring.csi.errors import Code, CsiError
from mooring.mounts.blocking import blocking
from mooring.volumes.plugins.disk_array import DiskArray
from mooring.volumes.plugins.disk_files import write_durably


class Nodes:
    """The registered nodes. A node registers before it answers NodeGetInfo, in the array's directory, because
    controller and nodes share nothing else."""

    def __init__(self, root: Path, array: DiskArray) -> None:
        self._directory = root / "csi-nodes"
        self._array = array
        self._attaching: set[tuple[str, str]] = set()
        self._deciding = asyncio.Lock()

    async def register(self, node: str, limit: int) -> None:
        """Registers the node; idempotent. `limit` is the number of disks that it may have; 0: no limit."""
        self._directory.mkdir(parents=True, exist_ok=True)
        await blocking(write_durably, self._directory / node, str(limit).encode())

    @asynccontextmanager
    async def room_for(self, disk: str, node: str) -> AsyncGenerator[None]:
        """The disk may be attached to the node while this is entered. Raises CsiError: NOT_FOUND for a node
        that has never registered, RESOURCE_EXHAUSTED for one that has as many disks as it may have."""
        limit = await blocking(self._limit, node)
        async with self._deciding:
            # Copied before the array is read, so that an attach that ends meanwhile is in one of the two.
            others = set(self._attaching)
            others |= {
                (other, on)
                for other, nodes in (await blocking(self._array.attachments)).items()
                for on in nodes
            }
            count = sum(on == node and other != disk for other, on in others)
            if 0 < limit <= count:
                raise CsiError(
                    Code.RESOURCE_EXHAUSTED, f"node {node} has {count} disks, as many as it may have"
                )
            self._attaching.add((disk, node))
        try:
            yield
        finally:
            self._attaching.discard((disk, node))

    def _limit(self, node: str) -> int:
        path = self._directory / node
        try:
            return int(path.read_text() if path.parent == self._directory else "")
        except (OSError, ValueError):
            raise CsiError(
                Code.NOT_FOUND, f"no node {node}: does this driver's node service run there?"
            ) from None

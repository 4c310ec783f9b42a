"""What is true of this cluster's machines and volumes, for the page that `mooring up --page` serves.

Looked up where it is (`truth`, `machines/looking`), in threads: power by the kernel's word, which node has a
volume by the storage's, and where it is mounted by the machine's own mount table.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping
from itertools import cycle

from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.machines import looking
from mooring.cluster.machines.node_machine import NodeMachine
from mooring.cluster.truth import ArrayTruth, CloudTruth, Truth
from mooring.mounts.blocking import blocking
from mooring.mounts.interface import Mount
from mooring.page.truth import Looks, Seen
from mooring.volumes.plugins.disk_array import DiskArray

ASK_S = 0.5
"""Between two questions for what is wrong with a machine."""
LOOK_S = 3.0
"""So long may an answer take: a machine may be frozen."""


class TrueState(Looks):
    """Looks at the cluster of a layout. A volume of which its storage here knows nothing is left out."""

    def __init__(
        self, layout: Layout, array: DiskArray, machines: Mapping[str, NodeMachine], *, cloud: bool
    ) -> None:
        self._layout, self._array, self._machines = layout, array, machines
        self._cloud = CloudTruth(layout) if cloud else None
        self._learned = False
        self._turn = cycle(machines)
        self._troubles: dict[str, str] = {}
        self._asked = 0.0

    async def look(self, handles: Mapping[str, str]) -> Seen:
        """Raises OSError."""
        if self._cloud is not None and not self._learned:
            await self._cloud.learn()
            self._learned = True
        await self._ask_one()
        return await blocking(self._look, handles)

    async def _ask_one(self) -> None:
        """What is wrong with a machine and its links is asked of one after the other: it runs programs."""
        now = asyncio.get_running_loop().time()
        if now - self._asked < ASK_S or not self._machines:
            return
        self._asked = now
        node = next(self._turn)
        with contextlib.suppress(TimeoutError, ClusterError):
            async with asyncio.timeout(LOOK_S):
                self._troubles[node] = ", ".join(await self._machines[node].troubles())

    def _look(self, handles: Mapping[str, str]) -> Seen:
        tables = {node: looking.mount_table(self._layout, node) for node in self._machines}
        power = {node: "on" if looking.has_power(self._layout, node) else "off" for node in self._machines}
        array = ArrayTruth(self._layout, self._array)
        held = self._array.attachments()
        volumes = {
            name: _places(array, handle, held[handle], tables)
            for name, handle in handles.items()
            if handle in held
        }
        if (cloud := self._cloud) is not None:
            ours = {name: each for name, each in handles.items() if os.path.exists(cloud.medium(each))}
            volumes |= {
                name: _places(cloud, each, cloud.holders(each), tables) for name, each in ours.items()
            }
        return Seen(power, volumes, {node: words for node, words in self._troubles.items() if words})


def _places(
    truth: Truth, handle: str, nodes: tuple[str, ...], tables: Mapping[str, tuple[Mount, ...] | None]
) -> dict[str, str]:
    """By node: attached, or mounted."""
    return {
        node: "mounted" if _mounted(truth, handle, node, tables.get(node)) else "attached" for node in nodes
    }


def _mounted(truth: Truth, handle: str, node: str, table: tuple[Mount, ...] | None) -> bool:
    try:
        return any(truth.is_of(mount, handle, node) for mount in table or ())
    except OSError:
        return False  # the device has just been detached

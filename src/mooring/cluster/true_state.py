"""What is true of this cluster's machines and volumes, for the page that `mooring up --page` serves.

Looked up where it is (`truth`, `machines/looking`), in threads: power by the kernel's word, which node has a
volume by the storage's, and where it is mounted by the machine's own mount table.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from mooring.cluster.layout import Layout
from mooring.cluster.machines import looking
from mooring.cluster.truth import ArrayTruth, CloudTruth, Truth
from mooring.mounts.blocking import blocking
from mooring.mounts.interface import Mount
from mooring.page.truth import Looks, Seen
from mooring.volumes.plugins.disk_array import DiskArray


class TrueState(Looks):
    """Looks at the cluster of a layout. A volume of which its storage here knows nothing is left out."""

    def __init__(self, layout: Layout, array: DiskArray, nodes: list[str], *, cloud: bool) -> None:
        self._layout, self._array, self._nodes = layout, array, nodes
        self._cloud = CloudTruth(layout) if cloud else None
        self._learned = False

    async def look(self, handles: Mapping[str, str]) -> Seen:
        """Raises OSError."""
        if self._cloud is not None and not self._learned:
            await self._cloud.learn()
            self._learned = True
        return await blocking(self._look, handles)

    def _look(self, handles: Mapping[str, str]) -> Seen:
        tables = {node: looking.mount_table(self._layout, node) for node in self._nodes}
        power = {node: "on" if looking.has_power(self._layout, node) else "off" for node in self._nodes}
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
        return Seen(power, volumes)


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

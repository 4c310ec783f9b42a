"""What the API shows of this node's CSI drivers: its CSINode, and the topology among its Node's labels.

Pure functions say what is to be written; `CSINodeWriter` writes, each time upon what it has just read. The
rules are the kubelet's: an entry of a CSINode cannot change, so that a driver with another node id is taken
out first; a label that another writer has set to another value is an error, since volumes would go to the
wrong place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from mooring.csi.proto import csi_pb2 as csi
from mooring.kube.client import Client
from mooring.kube.errors import AlreadyExists, Conflict, NotFound
from mooring.kube.objects import CSINode, CSINodeDriver, Node, VolumeNodeResources
from mooring.volumes.errors import VolumeError

AGAIN_S = 0.1
MOST = 2**31 - 1
"""The largest limit that a CSINode has room for; drivers say more where they mean "no limit"."""


def entry_of(driver: str, info: csi.NodeGetInfoResponse) -> CSINodeDriver:
    """The driver's entry in the CSINode. Raises VolumeError for an answer without a node id."""
    if not info.node_id:
        raise VolumeError(f"driver {driver} gave no node_id: NodeGetInfo must say how it calls this node")
    most = min(info.max_volumes_per_node, MOST)
    limit = VolumeNodeResources(count=most) if most > 0 else None
    keys = tuple(sorted(info.accessible_topology.segments))
    return CSINodeDriver(name=driver, node_id=info.node_id, topology_keys=keys, allocatable=limit)


def with_entry(node: CSINode, entry: CSINodeDriver) -> tuple[tuple[CSINodeDriver, ...], bool]:
    """The entries with this one; and whether another one of its name must be taken out first."""
    others = tuple(each for each in node.spec.drivers if each.name != entry.name)
    held = next((each for each in node.spec.drivers if each.name == entry.name), None)
    return (*others, entry), held is not None and held != entry


def missing_labels(node: Node, segments: Mapping[str, str], driver: str) -> dict[str, str]:
    """The topology that is not among the Node's labels yet. Raises VolumeError if it says something else
    there."""
    labels = node.metadata.labels
    for key, value in sorted(segments.items()):
        if labels.get(key, value) != value:
            raise VolumeError(
                f"driver {driver} says that node {node.name} is in {key}={value}, but the Node is labelled "
                f"{key}={labels[key]}: correct one of them"
            )
    return {key: value for key, value in sorted(segments.items()) if key not in labels}


class CSINodeWriter:
    """Keeps the CSINode of one node."""

    def __init__(self, client: Client, node_name: str) -> None:
        self._client = client
        self._node_name = node_name
        self.written: Callable[[Node], None] = lambda _: None
        """Called with the Node when it was written, so that no other part of the agent goes on with an older
        one."""
        self._writing = asyncio.Lock()

    async def add(self, driver: str, info: csi.NodeGetInfoResponse) -> str:
        """Returns the uid of the Node whose CSINode has the driver now. Raises VolumeError if the driver's
        answer cannot be, KubeError if it cannot be written."""
        entry = entry_of(driver, info)
        async with self._writing:
            node = await self._client.get(Node, self._node_name)
            missing = missing_labels(node, info.accessible_topology.segments, driver)
            if missing:
                labels = {"metadata": {"labels": missing}}
                self.written(await self._client.revise(node, labels, any_version=True))
            await self._repeated(lambda: self._put(node, entry))
            return node.uid

    async def remove(self, driver: str) -> None:
        """The driver is not on this node any more."""
        async with self._writing:
            await self._repeated(lambda: self._take_out(driver))

    async def _repeated(self, write: Callable[[], Awaitable[None]]) -> None:
        """Tries again until no other writer was first."""
        while True:
            try:
                return await write()
            except (AlreadyExists, Conflict, NotFound):
                await asyncio.sleep(AGAIN_S)

    async def _take_out(self, driver: str) -> None:
        found = await self._client.find(CSINode, self._node_name)
        if found is not None and any(each.name == driver for each in found.spec.drivers):
            await self._write(found, tuple(each for each in found.spec.drivers if each.name != driver))

    async def _put(self, node: Node, entry: CSINodeDriver) -> None:
        found = await self._client.find(CSINode, self._node_name)
        if found is None:
            await self._create(node, entry)
            return
        if all(owner.uid != node.uid for owner in found.metadata.owner_references):
            found = await self._take_over(found, node)
        drivers, replaces = with_entry(found, entry)
        if replaces:
            found = await self._write(found, drivers[:-1])
        if entry not in found.spec.drivers:
            await self._write(found, drivers)

    async def _create(self, node: Node, entry: CSINodeDriver) -> None:
        metadata = {"name": self._node_name, "ownerReferences": [_owner(node)]}
        await self._client.create(CSINode, {"metadata": metadata, "spec": {"drivers": [_body(entry)]}})

    async def _take_over(self, found: CSINode, node: Node) -> CSINode:
        """Takes over the CSINode of a deleted Node of that name: the garbage collector would delete it with
        that Node, also when all drivers have registered again (kubernetes/kubernetes#120063)."""
        return await self._client.revise(found, {"metadata": {"ownerReferences": [_owner(node)]}})

    async def _write(self, found: CSINode, drivers: tuple[CSINodeDriver, ...]) -> CSINode:
        return await self._client.revise(found, {"spec": {"drivers": [_body(each) for each in drivers]}})


def _owner(node: Node) -> dict[str, str]:
    return {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}


def _body(entry: CSINodeDriver) -> Any:
    body: dict[str, Any] = msgspec.to_builtins(entry)
    return body | {"topologyKeys": list(entry.topology_keys)}

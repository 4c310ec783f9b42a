"""Writes the lock on a PersistentVolume: granted by compare-and-swap, advanced by a force detach.

The order of a grant: the swap to the next epoch, then a live list of the VolumeAttachments, then (by the
caller) the VolumeAttachment with that epoch. In any other order, a create by a former lease holder can slip
in between (docs/protocol.md C14).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mooring.controllers.attachdetach.state import is_detached
from mooring.kube.client import Client
from mooring.kube.errors import Conflict
from mooring.kube.objects import Node, PersistentVolume, VolumeAttachment
from mooring.volumes.attachment_lock import Lock, annotation, first_epoch, is_current, lock_of, may_open
from mooring.volumes.spec import VolumeSpec


class Locks:
    """Grants, advances and compares locks. Every read is live, and every write carries the
    resourceVersion of its read. `written` is told of the PersistentVolume that each write returns: a cache
    that does not show a grant yet would have the same node granted the volume again and again."""

    def __init__(
        self,
        client: Client,
        named: Callable[[VolumeAttachment, Node | None], str],
        written: Callable[[PersistentVolume], None] = lambda volume: None,
    ) -> None:
        self._client = client
        self._named = named
        self._written = written

    async def for_attach(self, volume: str, node: Node, spec: VolumeSpec, *, locked: bool, pod: str) -> int:
        """Returns the epoch of a new VolumeAttachment; 0 for a volume that never had a lock. Raises Conflict
        if another node has the volume, or the node is closed for it."""
        lock = lock_of(spec.persistent_volume)
        if not locked and node.name not in lock.closed:
            return lock.epoch
        return await self._grant(spec.name, volume, node, pod)

    async def grant(self, record: VolumeAttachment, node: Node, pod: str) -> int:
        """Returns a new epoch for the node of `record`. Raises Conflict if another node has
        the volume attached.

        Another VolumeAttachment that was never attached is passed over: it is of an older epoch from now on,
        so void. If it counted, two such VolumeAttachments would wait for each other.
        """
        return await self._grant(_source(record), self._named(record, None), node, pod, attached_only=True)

    async def restamp(self, record: VolumeAttachment, node: Node) -> None:
        """Stores in the lock the uid under which the node is registered now."""
        held = await self._client.find(PersistentVolume, _source(record))
        lock = lock_of(held)
        if held is not None and lock.node == node.name and lock.node_uid != node.uid:
            await self._swap(held, msgspec.structs.replace(lock, node_uid=node.uid))

    async def release(self, record: VolumeAttachment, node: Node | None, *, exclusive: bool) -> None:
        """Stores a force detach on the PersistentVolume: closes the node and, if
        `exclusive`, advances the epoch."""
        held = await self._client.find(PersistentVolume, _source(record))
        if held is not None:
            boot_id = node.status.node_info.boot_id if node is not None else ""
            lock, first = lock_of(held), first_epoch(held)
            released = lock.released(record.spec.node_name, boot_id, advance=exclusive, first=first)
            await self._swap(held, released)

    async def is_current(self, record: VolumeAttachment) -> bool:
        """Whether the VolumeAttachment is of the lock's present epoch. Reads live."""
        return is_current(record, await self._client.find(PersistentVolume, _source(record)))

    async def _grant(
        self, name: str, volume: str, node: Node, pod: str, *, attached_only: bool = False
    ) -> int:
        held = await self._client.get(PersistentVolume, name)
        lock = lock_of(held)
        await self._refuse_closed(lock, node, volume)
        swapped = lock.granted(node, pod, first=first_epoch(held))
        await self._swap(held, swapped)
        for record in (await self._client.list(VolumeAttachment)).items:
            if is_detached(record) or (attached_only and not record.status.attached):
                continue
            if record.spec.node_name != node.name and self._named(record, None) == volume:
                raise Conflict(
                    f"volume {volume} has a VolumeAttachment on node {record.spec.node_name}", status=409
                )
        return swapped.epoch

    async def _refuse_closed(self, lock: Lock, node: Node, volume: str) -> None:
        closed = lock.closed.get(node.name)
        if closed is None:
            return
        live = await self._client.find(Node, node.name)
        if live is None or live.uid != node.uid or not may_open(closed, live, volume):
            raise Conflict(
                f"node {node.name} is closed for volume {volume}, which was taken by force", status=409
            )

    async def _swap(self, held: PersistentVolume, lock: Lock) -> None:
        self._written(await self._client.revise(held, {"metadata": {"annotations": annotation(lock)}}))


def _source(record: VolumeAttachment) -> str:
    return record.spec.source.persistent_volume_name or ""

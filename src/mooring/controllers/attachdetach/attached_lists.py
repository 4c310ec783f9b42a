"""Writes `node.status.volumesAttached`: reports and un-reports of one node that come together are one write.

The list is derived from the VolumeAttachments, never edited entry by entry. A write carries the
resourceVersion of the Node that it was computed from, and adds only volumes whose VolumeAttachment was looked
at after that Node (docs/protocol.md R3, C4), that was made for that Node (C13) and, where there is a lock, is
of its present epoch (C14). An un-report changes the Node in any case (R4).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

from mooring.controllers.attachdetach.batches import Batches
from mooring.controllers.attachdetach.decide import reported_volumes
from mooring.controllers.attachdetach.locks import Locks
from mooring.controllers.attachdetach.release import is_same_node
from mooring.controllers.attachdetach.state import Attachment, NodeState, is_usable
from mooring.kube.client import Client
from mooring.kube.errors import Conflict, NotFound
from mooring.kube.informer import Informer
from mooring.kube.objects import Node, VolumeAttachment
from mooring.volumes.machines import are_two, machine_of, recorded_machine
from mooring.volumes.names import VOLUMES_ATTACHED_WRITE

VolumeOf = Callable[[VolumeAttachment, Node | None], str]
"""The unique name of the volume that a VolumeAttachment is about, if a Node's lists can tell it."""

CATCH_UP_S = 0.03
"""Seconds for which a stale cache is given time to catch up before a live read."""
BURST = 4
"""From so many changes of Nodes in flight on, it is a burst: more are about to come."""


class _Change(NamedTuple):
    """A change of a node's volumesAttached for one volume: a report or, with a token, an un-report."""

    volume: str
    record: VolumeAttachment
    locked: bool = False
    token: str = ""


_Answer = tuple[bool, Node | None]
"""Whether the volume was reported, and the Node that the write returned (None: there is no such Node)."""


class AttachedLists:
    """The lists of all nodes. `records` is the cache of VolumeAttachments, with an index "node".

    `answers_for(volume)`: whether a name in a list is this controller's; other entries stay as they are.
    `writing(node, volumes)` is called with each list before it is written.
    """

    def __init__(
        self,
        client: Client,
        records: Informer[VolumeAttachment],
        nodes: Informer[Node],
        locks: Locks,
        *,
        answers_for: Callable[[str], bool],
        named: VolumeOf,
        writing: Callable[[str, frozenset[str]], None],
    ) -> None:
        self._client = client
        self._records = records
        self._nodes = nodes
        self._locks = locks
        self._answers_for = answers_for
        self._named = named
        self._writing = writing
        self.versions_comparable = False
        """Whether resourceVersions of Nodes and VolumeAttachments can be compared (`resource_versions`)."""
        # One write for a node's list at a time: two of our own would only conflict with each other.
        self._batches: Batches[_Change, _Answer] = Batches(self._change)

    async def report(self, record: VolumeAttachment, *, locked: bool) -> bool:
        """Puts the volume into its node's list. Returns False if a look showed that it must not be."""
        change = _Change(self._named(record, None), record, locked)
        return (await self._batches.through(record.spec.node_name, change))[0]

    async def unreport(
        self, volume: str, node_name: str, token: str, record: VolumeAttachment
    ) -> Node | None:
        """Takes the volume out of the list, changing the Node in any case (`token` differs each time).
        Returns the Node, or None if there is none."""
        return (await self._batches.through(node_name, _Change(volume, record, token=token)))[1]

    async def _change(self, node_name: str, changes: Sequence[_Change]) -> list[_Answer]:
        """Takes one Node, looks at what is to be listed, and writes once.

        The Node may come from the cache: the write carries its resourceVersion, and is refused unless that is
        the newest. After a refusal a newer Node is often on its way to the cache; if not, it is read live.
        """
        tried: Node | None = None
        for wait in (0.0, CATCH_UP_S):
            await asyncio.sleep(wait)
            cached = self._nodes.get(node_name)
            if cached is None or cached is tried:
                break
            tried = cached
            with contextlib.suppress(Conflict, NotFound):
                return await self._change_from(cached, changes)
        live = await self._client.find(Node, node_name)
        return [(False, None)] * len(changes) if live is None else await self._change_from(live, changes)

    async def _change_from(self, node: Node, changes: Sequence[_Change]) -> list[_Answer]:
        await self._catch_up(node)
        looks = await asyncio.gather(*(self._look(node, each) for each in changes if not each.token))
        seen = iter(looks)
        added = [None if each.token else next(seen) for each in changes]
        usable = {each.volume: path for each, path in zip(changes, added, strict=True) if path is not None}
        gone = {each.volume for each in changes if each.token} - usable.keys()
        if not (usable or gone):
            return [(False, node)] * len(changes)
        ours = self._ours(node)
        answered_for = ours.union(each.volume for each in changes)
        listed = reported_volumes(node, self._usable(node, ours) | usable, answered_for, without=gone)
        token = next((each.token for each in reversed(changes) if each.token), "")
        answer = await self._write(node, listed, {VOLUMES_ATTACHED_WRITE: token} if token else None)
        return [(path is not None, answer) for path in added]

    async def _look(self, node: Node, change: _Change) -> str | None:
        """Looks at the VolumeAttachment. Returns the device path if the volume may be listed
        for that Node, else None."""
        live = await self._record_after(node, change.record.name)
        if live is None:
            return None
        if live.uid != change.record.uid or not is_usable(live):
            return None
        if not is_same_node(NodeState.of(node, change.volume), Attachment.of(live)):
            return None
        if change.locked and not await self._locks.is_current(live):
            return None
        return _device_path(live)

    def _is_as_new_as(self, node: Node) -> bool:
        return self.versions_comparable and self._records.version >= int(node.metadata.resource_version)

    async def _catch_up(self, node: Node) -> None:
        """In a burst, waits a moment until the cache of VolumeAttachments is as new as the Node: one watch
        event costs less than as many reads, and a busy server answers those no sooner."""
        if self._batches.under_way < BURST or self._is_as_new_as(node):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_S):
                await self._records.wait_for(node.metadata.resource_version)

    async def _record_after(self, node: Node, name: str) -> VolumeAttachment | None:
        """Returns the VolumeAttachment as it was at a moment when the Node was already as it is here (R3): if
        this Node is still the newest when the write arrives, no un-report has come in between. The cache will
        do if it is as new as the Node and versions of the two kinds can be compared; else the
        VolumeAttachment is read live."""
        if self._is_as_new_as(node):
            return self._records.get(name)
        live = await self._client.find(VolumeAttachment, name)
        if live is not None:
            self._records.accept(live)
        return live

    async def _write(
        self, node: Node, volumes: list[dict[str, str]], annotations: dict[str, str] | None = None
    ) -> Node:
        patch = {"metadata": {"annotations": annotations or {}}, "status": {"volumesAttached": volumes}}
        self._writing(node.name, frozenset(entry["name"] for entry in volumes))
        answer = await self._client.revise(node, patch, subresource="status")
        self._nodes.accept(answer)
        return answer

    def _usable(self, node: Node, listed: Container[str]) -> dict[str, str]:
        """Returns the volumes that the Node lists and that stay. A stale cache may only remove
        entries: what is added was looked at after the Node (R3), because a cache may not show
        yet that a detach has begun (C4)."""
        named = ((self._named(each, node), each) for each in self._records.by_index("node", node.name))
        return {
            volume: _device_path(each)
            for volume, each in named
            if volume in listed and is_usable(each) and not _is_of_another(each, node)
        }

    def _ours(self, node: Node) -> set[str]:
        return {entry.name for entry in node.status.volumes_attached if self._answers_for(entry.name)}


def _is_of_another(record: VolumeAttachment, node: Node) -> bool:
    """Whether the node's name was another machine's when the volume was attached there."""
    return are_two(machine_of(node), recorded_machine(record))


def _device_path(record: VolumeAttachment) -> str:
    return record.status.attachment_metadata.get("devicePath", "")

"""The writes of the handshake with the node: attach, report, detach. What is written, and on what condition.

Both sides publish before they look, and every write carries what it was computed from, so that a request that arrives
late is dead on arrival. `reference/protocol.md` (R1–R5) has the schedule that does harm for each rule left out here:
- the mark comes before the un-report (R1); the deletion carries the resourceVersion that the mark returned (R2);
- a report reads the Node, *then* the VolumeAttachment, then patches with that Node's resourceVersion (R3); it adds
  that one volume only (C4);
- an un-report always changes the Node, also when the volume is not listed (R4);
- only the un-report's answer is judged (C7).
A Conflict anywhere ends the attempt; the next one starts at the beginning. Nothing here decides what to do.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import msgspec

from mooring.controllers.attachdetach.decide import Attachment, NodeState, Verdict, may_release, reported_volumes
from mooring.kube.client import Client
from mooring.kube.informer import Informer
from mooring.kube.objects import Node, VolumeAttachment
from mooring.kube.times import Now, format_micro_time
from mooring.volumes.names import (
    DETACHING,
    INLINE_VOLUME,
    NODE_UID,
    PLUGIN,
    VOLUME_NAME,
    VOLUMES_ATTACHED_WRITE,
    attacher_name,
    inline_persistent_volume_name,
    split_volume_name,
    volume_attachment_name,
    volume_of,
)
from mooring.volumes.spec import VolumeSpec


class Released(NamedTuple):
    """What came of a detach that was begun: the verdict on the un-report's answer."""

    verdict: Verdict
    record: VolumeAttachment


class Handshake:
    """Carries out single steps, live. `records` is the cache of VolumeAttachments, with an index "node"."""

    def __init__(
        self,
        client: Client,
        records: Informer[VolumeAttachment],
        nodes: Informer[Node],
        *,
        now: Now,
        random: Random,
        answers_for: Callable[[str], bool],
    ) -> None:
        self._client = client
        self._records = records
        self._nodes = nodes
        self._now = now
        self._random = random
        self._answers_for = answers_for  # whether a volume name in a node's status is this controller's to list
        # One writer for a node's list at a time: our own writes would only conflict with each other.
        self._node_locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def attach(self, volume: str, node: Node, spec: VolumeSpec) -> VolumeAttachment:
        """Creates the VolumeAttachment: the intent, before anything is asked of the storage."""
        plugin, name = split_volume_name(volume)
        annotations = {PLUGIN: plugin, VOLUME_NAME: name, NODE_UID: node.uid}
        source = spec.name
        if spec.volume is not None:
            source = inline_persistent_volume_name(volume)
            annotations[INLINE_VOLUME] = msgspec.json.encode(spec.volume).decode()
        body = {
            "metadata": {"name": volume_attachment_name(plugin, name, node.name), "annotations": annotations},
            "spec": {
                "attacher": attacher_name(plugin, name),
                "nodeName": node.name,
                "source": {"persistentVolumeName": source},
            },
        }
        created = await self._client.create(VolumeAttachment, body)
        self._records.accept(created)
        return created

    async def restore(self, record: VolumeAttachment) -> None:
        """Takes the mark away: kills every deletion that was computed from it."""
        await self._annotate(record, {DETACHING: None})

    async def restamp(self, record: VolumeAttachment, node: Node) -> None:
        """Notes the uid under which the node is registered now."""
        await self._annotate(record, {NODE_UID: node.uid})

    async def report(self, record: VolumeAttachment) -> bool:
        """Puts the volume into its node's volumesAttached; False if it turned out not to be usable."""
        volume, node_name = volume_of(record), record.spec.node_name
        async with self._node_locks[node_name]:
            node = await self._client.get(Node, node_name)
            live = await self._client.get(VolumeAttachment, record.name)
            self._records.accept(live)
            if live.uid != record.uid or not Attachment.of(live).usable:
                return False
            usable = self._usable(node) | {volume: _device_path(live)}
            await self._write(node, reported_volumes(node, usable, self._ours(node, volume)))
            return True

    async def detach(self, record: VolumeAttachment) -> Released:
        """Mark, un-report, judge, and delete the VolumeAttachment or take the mark back."""
        token = f"{format_micro_time(self._now())}.{self._random.getrandbits(32):08x}"
        marked = await self._annotate(record, {DETACHING: token})
        answer = await self._unreport(volume_of(record), record.spec.node_name, token)
        state = NodeState.of(answer, volume_of(record)) if answer is not None else None
        verdict = may_release(state, Attachment.of(marked))
        if verdict.allowed:
            await self._client.delete(
                VolumeAttachment, marked.name, uid=marked.uid, resource_version=marked.metadata.resource_version
            )
        else:
            await self.restore(marked)
        return Released(verdict, marked)

    async def _unreport(self, volume: str, node_name: str, token: str) -> Node | None:
        """Takes the volume out of volumesAttached, changing the Node in any case; None if there is no such Node."""
        async with self._node_locks[node_name]:
            node = await self._client.find(Node, node_name)
            if node is None:
                return None
            listed = reported_volumes(node, self._usable(node), self._ours(node, volume), without=volume)
            return await self._write(node, listed, {VOLUMES_ATTACHED_WRITE: token})

    async def _write(
        self, node: Node, volumes: list[dict[str, str]], annotations: dict[str, str] | None = None
    ) -> Node:
        patch = {"metadata": {"annotations": annotations or {}}, "status": {"volumesAttached": volumes}}
        answer = await self._client.revise(node, patch, subresource="status")
        self._nodes.accept(answer)
        return answer

    async def _annotate(self, record: VolumeAttachment, annotations: dict[str, str | None]) -> VolumeAttachment:
        answer = await self._client.revise(record, {"metadata": {"annotations": annotations}})
        self._records.accept(answer)
        return answer

    def _usable(self, node: Node) -> dict[str, str]:
        """Of the volumes that the Node lists, those that stay. A cache may only take away: what is added was read
        live (R3), for a cache may not know yet that a detach has begun (C4)."""
        listed = {entry.name for entry in node.status.volumes_attached}
        records = self._records.by_index("node", node.name)
        return {volume_of(each): _device_path(each) for each in records if volume_of(each) in listed and _usable(each)}

    def _ours(self, node: Node, volume: str) -> list[str]:
        listed = [entry.name for entry in node.status.volumes_attached]
        return [volume, *(name for name in listed if self._answers_for(name))]


def _usable(record: VolumeAttachment) -> bool:
    return Attachment.of(record).usable


def _device_path(record: VolumeAttachment) -> str:
    return record.status.attachment_metadata.get("devicePath", "")

"""The writes of the handshake with the node: attach, report, detach. What is
written, and under which preconditions.

Both sides publish before they look, and every write carries what it was computed from, so
that a request that arrives late is refused. docs/protocol.md has the rules (R1-R5), and
for each the schedule that does harm without it:
- the mark comes before the un-report (R1); the deletion carries the resourceVersion
  that the mark returned (R2);
- a report takes the Node, *then* looks at the VolumeAttachment, then writes with that Node's resourceVersion
  (R3). It adds only volumes that it has looked at in this way (C4), only for the Node that the
  VolumeAttachment was made for (C13), and where there is a lock, only under its present epoch (C14);
- an un-report always changes the Node, also when the volume is not listed (R4);
- only the un-report's answer is judged (C7);
- a force detach is written on the PersistentVolume before the VolumeAttachment is
  deleted (C16). A Conflict anywhere ends the attempt; the next attempt starts at the
  beginning. `decide` and `release` decide what to do.

Reports and un-reports of one node that come together are one write (`batches`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Container, Sequence
from random import Random
from typing import NamedTuple, assert_never

import msgspec

from mooring.controllers.attachdetach.batches import Batches
from mooring.controllers.attachdetach.decide import reported_volumes
from mooring.controllers.attachdetach.locks import Locks
from mooring.controllers.attachdetach.release import Release, ReleaseDecision, is_same_node, may_release
from mooring.controllers.attachdetach.state import NO_POLICY, Attachment, NodeState, Terms, is_usable
from mooring.kube.client import Client
from mooring.kube.errors import Conflict, NotFound
from mooring.kube.informer import Informer
from mooring.kube.objects import Node, VolumeAttachment
from mooring.kube.times import Now, format_micro_time
from mooring.kube.transport import AtMost
from mooring.volumes.names import (
    ATTACH_EPOCH,
    CSI_PLUGIN,
    DETACHING,
    INLINE_VOLUME,
    NODE_ABSENT_SINCE,
    NODE_UID,
    PLUGIN,
    VOLUME_NAME,
    VOLUMES_ATTACHED_WRITE,
    attacher_name,
    inline_persistent_volume_name,
    split_csi_volume_name,
    split_volume_name,
    volume_attachment_name,
    volume_of,
)
from mooring.volumes.spec import VolumeSpec

VolumeOf = Callable[[VolumeAttachment, Node | None], str]
"""The unique name of the volume that a VolumeAttachment is about, if a Node's lists can tell it."""

CATCH_UP_S = 0.03
"""Seconds for which a stale cache is given time to catch up before a live read."""
REQUESTS = 32
"""Requests in flight at once: so many writes of VolumeAttachments, and so many others. Two limits, because
many volumes wait for each write of a Node, and that must not wait behind a burst of writes of
VolumeAttachments."""
BURST = 4
"""From so many changes of Nodes in flight on, it is a burst: more are about to come."""


class Released(NamedTuple):
    """The outcome of a detach that was begun: the decision on the un-report's
    answer, and the marked VolumeAttachment."""

    verdict: ReleaseDecision
    record: VolumeAttachment


class _Change(NamedTuple):
    """A change of a node's volumesAttached for one volume: a report or, with a token, an un-report."""

    volume: str
    record: VolumeAttachment
    locked: bool = False
    token: str = ""


_Answer = tuple[bool, Node | None]
"""Whether the volume was reported, and the Node that the write returned (None: there is no such Node)."""


def own_volume(record: VolumeAttachment, node: Node | None) -> str:
    """Returns the volume that one of our VolumeAttachments names; "" for those of other controllers."""
    return volume_of(record)


class Handshake:
    """Carries out single steps. `records` is the cache of VolumeAttachments, with an index "node".

    `writing(node, volumes)` is called with each list of volumes before it is written to a Node.
    """

    def __init__(
        self,
        client: Client,
        records: Informer[VolumeAttachment],
        nodes: Informer[Node],
        *,
        now: Now,
        random: Random,
        answers_for: Callable[[str], bool],
        named: VolumeOf = own_volume,
        writing: Callable[[str, frozenset[str]], None] = lambda node, volumes: None,
    ) -> None:
        self._client = Client(AtMost(client.transport, REQUESTS))
        self._writer = Client(AtMost(client.transport, REQUESTS))  # of VolumeAttachments
        self._records = records
        self._nodes = nodes
        self._now = now
        self._random = random
        self._answers_for = answers_for  # whether a volume name in a node's status is this controller's to list
        self._named = named
        self._writing = writing
        self.locks = Locks(client, named)
        self.versions_comparable = False
        """Whether resourceVersions of Nodes and VolumeAttachments can be compared (`clock`)."""
        # One write for a node's list at a time: two of our own would only conflict with each other.
        self._batches: Batches[_Change, _Answer] = Batches(self._change)

    # --- the VolumeAttachment

    async def attach(
        self, volume: str, node: Node, spec: VolumeSpec, *, locked: bool = False, pod: str = ""
    ) -> VolumeAttachment:
        """Creates the VolumeAttachment: the intent is stored before the storage is
        asked. With a lock, the lock is granted first. Raises Conflict if another node
        has the volume, or the node is closed for it."""
        plugin, name = split_volume_name(volume)
        annotations = {PLUGIN: plugin, VOLUME_NAME: name, NODE_UID: node.uid}
        source: dict[str, object] = {"persistentVolumeName": spec.name}
        if spec.volume is not None and plugin == CSI_PLUGIN:
            driver, handle = split_csi_volume_name(name)
            csi = {"driver": driver, "volumeHandle": handle}
            source = {"inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"], "csi": csi}}
        elif spec.volume is not None:
            source = {"persistentVolumeName": inline_persistent_volume_name(volume)}
            annotations[INLINE_VOLUME] = msgspec.json.encode(spec.volume).decode()
        elif epoch := await self.locks.for_attach(volume, node, spec, locked=locked, pod=pod):
            annotations[ATTACH_EPOCH] = str(epoch)
        body = {
            "metadata": {"name": volume_attachment_name(plugin, name, node.name), "annotations": annotations},
            "spec": {
                "attacher": attacher_name(plugin, name),
                "nodeName": node.name,
                "source": source,
            },
        }
        created = await self._writer.create(VolumeAttachment, body)
        self._records.accept(created, tell=False)
        return created

    async def restore(self, record: VolumeAttachment) -> None:
        """Removes the mark. That makes every deletion void that was computed from it."""
        await self._annotate(record, {DETACHING: None, NODE_ABSENT_SINCE: None})

    async def restamp(self, record: VolumeAttachment, node: Node) -> None:
        """Stores the uid under which the node is registered now, in the lock and on the VolumeAttachment."""
        await self.locks.restamp(record, node)
        await self._annotate(record, {NODE_UID: node.uid})

    async def grant(self, record: VolumeAttachment, node: Node, pod: str) -> None:
        """Grants the lock to the node of a VolumeAttachment of an older epoch, and
        stores the new epoch on it."""
        epoch = await self.locks.grant(record, node, pod)
        await self._annotate(record, {ATTACH_EPOCH: str(epoch), NODE_UID: node.uid})

    async def note(self, record: VolumeAttachment, notes: Sequence[tuple[str, str | None]]) -> None:
        """Stores annotations; None erases one."""
        await self._annotate(record, dict(notes))

    # --- the node

    async def report(self, record: VolumeAttachment, *, locked: bool = False) -> bool:
        """Puts the volume into its node's volumesAttached. Returns False if a look
        showed that it must not be."""
        change = _Change(self._named(record, None), record, locked)
        return (await self._batches.through(record.spec.node_name, change))[0]

    async def detach(
        self,
        record: VolumeAttachment,
        terms: Terms = NO_POLICY,
        *,
        exclusive: bool = True,
    ) -> Released:
        """The walk of a detach: mark, un-report, judge the answer, and delete the
        VolumeAttachment or take the mark back.

        Raises Conflict if anything it was computed from has changed: then the walk starts over.
        """
        token = f"{format_micro_time(self._now())}.{self._random.getrandbits(32):08x}"
        # R1: the mark first. From here on no report of the volume is computed any more.
        marked = await self._annotate(record, {DETACHING: token})
        # R4: this write changes the Node in any case, so that every report that is in flight is refused.
        answer = await self._unreport(self._named(record, None), record.spec.node_name, token, marked)
        state = NodeState.of(answer, self._named(marked, answer)) if answer is not None else None
        # C7: the answer of that write, and nothing that was read before it.
        verdict = may_release(state, Attachment.of(marked), terms)
        match verdict.action:
            case Release.FORCE:
                # C16: on the PersistentVolume first. After a crash in between, the node is closed already.
                await self.locks.release(marked, answer, exclusive=exclusive)
                await self._delete(marked)
            case Release.ALLOW:
                await self._delete(marked)
            case Release.LOOK:
                await self.note(marked, [(verdict.begin, format_micro_time(self._now()))])
            case Release.KEEP:
                await self.restore(marked)
            case _:
                assert_never(verdict.action)
        return Released(verdict, marked)

    async def _delete(self, marked: VolumeAttachment) -> None:
        # R2: with the version that the mark returned, so that taking the mark back makes this deletion void.
        await self._writer.delete(
            VolumeAttachment, marked.name, uid=marked.uid, resource_version=marked.metadata.resource_version
        )

    async def _unreport(self, volume: str, node_name: str, token: str, record: VolumeAttachment) -> Node | None:
        """Takes the volume out of volumesAttached, changing the Node in any case.
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
        """Looks at the VolumeAttachment. Returns the device path if the volume may
        be listed for that Node, else None."""
        live = await self._record_after(node, change.record.name)
        if live is None:
            return None
        if live.uid != change.record.uid or not is_usable(live):
            return None
        if not is_same_node(NodeState.of(node, change.volume), Attachment.of(live)):
            return None
        if change.locked and not await self.locks.is_current(live):
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

    async def _annotate(self, record: VolumeAttachment, annotations: dict[str, str | None]) -> VolumeAttachment:
        answer = await self._writer.revise(record, {"metadata": {"annotations": annotations}})
        self._records.accept(answer)
        return answer

    def _usable(self, node: Node, listed: Container[str]) -> dict[str, str]:
        """Returns the volumes that the Node lists and that stay. A stale cache may only
        remove entries: what is added was looked at after the Node (R3), because a cache
        may not show yet that a detach has begun (C4)."""
        named = (
            (volume_of(each) or self._named(each, node), each) for each in self._records.by_index("node", node.name)
        )
        return {volume: _device_path(each) for volume, each in named if volume in listed and is_usable(each)}

    def _ours(self, node: Node) -> set[str]:
        return {entry.name for entry in node.status.volumes_attached if self._answers_for(entry.name)}


def _device_path(record: VolumeAttachment) -> str:
    return record.status.attachment_metadata.get("devicePath", "")

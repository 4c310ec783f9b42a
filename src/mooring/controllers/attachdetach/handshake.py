"""The walk of an attach, a report and a detach: what is written, and under which preconditions.

Both sides publish before they look, and every write carries what it was computed from, so that a
request that arrives late is refused. docs/protocol.md has the rules (R1-R5), and for each the
schedule that does harm without it:
- the mark comes before the un-report (R1); the deletion carries the resourceVersion that the
  mark returned (R2);
- a report takes the Node, *then* looks at the VolumeAttachment, then writes with that Node's resourceVersion
  (R3). It adds only volumes that it has looked at in this way (C4), only for the Node that the
  VolumeAttachment was made for (C13), and where there is a lock, only under its present epoch (C14);
- an un-report always changes the Node, also when the volume is not listed (R4);
- only the un-report's answer is judged (C7);
- a force detach is written on the PersistentVolume before the VolumeAttachment is deleted (C16).

A Conflict anywhere ends the attempt; the next attempt starts at the beginning. `decide` and `release` decide
what to do. Reports and un-reports are written by `attached_lists`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple, assert_never

import msgspec

from mooring.controllers.attachdetach.attached_lists import AttachedLists, VolumeOf
from mooring.controllers.attachdetach.locks import Locks
from mooring.controllers.attachdetach.release import Release, ReleaseDecision, may_release
from mooring.controllers.attachdetach.state import NO_POLICY, Attachment, NodeState, Terms
from mooring.kube.client import Client
from mooring.kube.errors import conflict
from mooring.kube.informer import Informer
from mooring.kube.objects import Node, PersistentVolume, VolumeAttachment
from mooring.kube.times import Now, format_micro_time
from mooring.kube.transport import AtMost
from mooring.this_boot import Elapsed
from mooring.volumes.machines import machine_annotation
from mooring.volumes.migration import inline_to_csi
from mooring.volumes.names import (
    ATTACH_EPOCH,
    DETACHING,
    INLINE_VOLUME,
    NODE_ABSENT_SINCE,
    NODE_UID,
    PLUGIN,
    VOLUME_NAME,
    attacher_name,
    inline_persistent_volume_name,
    split_volume_name,
    volume_attachment_name,
    volume_of,
)
from mooring.volumes.spec import VolumeSpec

REQUESTS = 32
"""Requests in flight at once: so many writes of VolumeAttachments, and so many others. Two limits, because
many volumes wait for each write of a Node, and that must not wait behind a burst of writes of
VolumeAttachments."""
TOO_OLD_S = 10.0
"""Seconds after which what a Node has shown is not acted upon by force any more."""


class Released(NamedTuple):
    """The outcome of a detach that was begun: the decision on the un-report's answer, and
    the marked VolumeAttachment."""

    verdict: ReleaseDecision
    record: VolumeAttachment


def own_volume(record: VolumeAttachment, node: Node | None) -> str:
    """Returns the volume that one of our VolumeAttachments names; "" for those of other controllers."""
    return volume_of(record)


class Handshake:
    """Carries out single steps. `locked`: told of each PersistentVolume whose lock was written. Other
    parameters as in `AttachedLists`."""

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
        locked: Callable[[PersistentVolume], None] = lambda volume: None,
    ) -> None:
        self._writer = Client(AtMost(client.transport, REQUESTS))  # of VolumeAttachments
        self._records = records
        self._now = now
        self._random = random
        self._named = named
        self.locks = Locks(client, named, locked)
        self.lists = AttachedLists(
            Client(AtMost(client.transport, REQUESTS)),
            records,
            nodes,
            self.locks,
            answers_for=answers_for,
            named=named,
            writing=writing,
        )

    # --- the VolumeAttachment

    async def attach(
        self, volume: str, node: Node, spec: VolumeSpec, *, locked: bool, pod: str
    ) -> VolumeAttachment:
        """Creates the VolumeAttachment: the intent is stored before the storage is asked.
        With a lock, the lock is granted first. Raises Conflict if another node has the
        volume, or the node is closed for it."""
        plugin, name = split_volume_name(volume)
        annotations = {PLUGIN: plugin, VOLUME_NAME: name, NODE_UID: node.uid, **machine_annotation(node)}
        source: dict[str, object] = {"persistentVolumeName": spec.name}
        if spec.volume is not None and (stands_for := inline_to_csi(spec.volume, "")) is not None:
            source = {
                "inlineVolumeSpec": {"volumeMode": "Filesystem", **msgspec.to_builtins(stands_for.spec)}
            }
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
        await self._annotate(record, {NODE_UID: node.uid, **machine_annotation(node)})

    async def grant(self, record: VolumeAttachment, node: Node, pod: str) -> None:
        """Grants the lock to the node of a VolumeAttachment of an older epoch, and stores
        the new epoch on it."""
        epoch = await self.locks.grant(record, node, pod)
        granted: dict[str, str | None] = {
            ATTACH_EPOCH: str(epoch),
            NODE_UID: node.uid,
            **machine_annotation(node),
        }
        await self._annotate(record, granted)

    async def note(self, record: VolumeAttachment, notes: Sequence[tuple[str, str | None]]) -> None:
        """Stores annotations; None erases one."""
        await self._annotate(record, dict(notes))

    # --- the node

    async def report(self, record: VolumeAttachment, *, locked: bool) -> bool:
        """Puts the volume into its node's volumesAttached. Returns False if a look showed
        that it must not be."""
        return await self.lists.report(record, locked=locked)

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
        asked = Elapsed()
        answer = await self.lists.unreport(self._named(record, None), record.spec.node_name, token, marked)
        state = NodeState.of(answer, self._named(marked, answer)) if answer is not None else None
        # C7: the answer of that write, and nothing that was read before it.
        verdict = may_release(state, Attachment.of(marked), terms)
        match verdict.action:
            case Release.FORCE:
                # A process that has stood still meanwhile does not know whether the node answers by now.
                if asked.seconds > TOO_OLD_S:
                    raise conflict(f"what node {record.spec.node_name} has shown is too old: look again")
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

    async def _annotate(
        self, record: VolumeAttachment, annotations: dict[str, str | None]
    ) -> VolumeAttachment:
        answer = await self._writer.revise(record, {"metadata": {"annotations": annotations}})
        self._records.accept(answer)
        return answer

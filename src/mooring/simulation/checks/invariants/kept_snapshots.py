"""Invariants of snapshots, of volumes that are restored from them, and of copies of claims.

Sources: the CSI community's external-snapshotter (intent before effect, by the annotation
volumesnapshot-being-created; finalizers keep a claim while a snapshot is taken of it, and a snapshot while a
volume is made of it), and Kubernetes' documentation of VolumeSnapshots and of volume cloning. What the
storage has is told by the storage, how many words it holds is counted here.
"""

from __future__ import annotations

from collections import defaultdict

from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.kept_objects import (
    CONTENTS,
    MADE_FOR,
    NAME,
    SNAPSHOTS,
    KeptObjects,
    claim_of,
    copied_from,
    handle_of,
    restored_from,
)
from mooring.simulation.checks.invariants.objects import StoredObject
from mooring.simulation.engine.trace import Event, Trace

BEING_CREATED = "snapshot.storage.kubernetes.io/volumesnapshot-being-created"
ASKERS = ("placing", "array", "ebs", "ec2")
"""The process of the snapshotter, and whom it asks, through whom: what was on its way when one of them was
struck may take effect later."""


class TakenOnceAndAskedFor(Checker):
    """S47: for one VolumeSnapshotContent the storage never has two snapshots, and it takes one only while the
    content is there and says that it is asked for, of the volume that it says; but for a request that was on
    its way when its sender, or the storage, was struck."""

    name = "S47"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._objects, self._faults = KeptObjects.of(trace), Faults.of(trace)
        self._there: defaultdict[str, list[str]] = defaultdict(list)  # name -> handles
        self._asked: dict[tuple[str, str], float] = {}  # name and volume -> when the content said so first
        trace.listen("store.written", self._written)
        trace.listen("truth.snapshot-taken", self._taken)
        trace.listen("truth.snapshot-deleted", self._deleted)

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == CONTENTS:
            content = self._objects.contents[event.fields["name"]]
            if BEING_CREATED in content.metadata.annotations:
                name = f"{NAME}{content.spec.volume_snapshot_ref.uid}"
                self._asked.setdefault((name, self._objects.source_of(content)), event.time)

    def _taken(self, event: Event) -> None:
        name, volume, handle = (event.fields[each] for each in ("name", "volume", "snapshot"))
        self.guarded += 1
        if self._there[name]:
            self.wrong(f"{handle} is taken, and {self._there[name][0]} is there for the same content", event)
        self._there[name].append(handle)
        if self._is_asked_for(name, volume):
            return
        asked = self._asked.get((name, volume))
        if asked is None or not self._faults.disturbed(ASKERS, asked):
            self.wrong(f"{handle} of {volume} is taken, and no content says that it is asked for", event)
        else:
            self._objects.late.add(handle)

    def _is_asked_for(self, name: str, volume: str) -> bool:
        return any(
            BEING_CREATED in each.metadata.annotations and self._objects.source_of(each) == volume
            for each in self._objects.contents_of(name.removeprefix(NAME))
        )

    def _deleted(self, event: Event) -> None:
        handle = event.fields["snapshot"]
        if handle in (there := self._there[self._objects.taken[handle].name]):
            there.remove(handle)


class ReadyWhenItIs(Checker):
    """S48: a VolumeSnapshot, and its content, says that it is ready to use only when the storage has just
    that snapshot, and it is ready; and a VolumeSnapshot is of the volume that its claim was bound to when it
    was made."""

    name = "S48"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._objects = KeptObjects.of(trace)
        trace.listen("store.written", self._written)

    def _written(self, event: Event) -> None:
        resource = event.fields["resource"]
        if resource == CONTENTS:
            self._content(event)
        elif resource == SNAPSHOTS:
            self._snapshot(event)

    def _content(self, event: Event) -> None:
        content = self._objects.contents[event.fields["name"]]
        if content.deleting or not content.status.ready_to_use:
            return
        self.guarded += 1
        handle, volume = handle_of(content), self._objects.source_of(content)
        taken = self._objects.taken.get(handle)
        if handle not in self._objects.ready or taken is None:
            self.wrong(f"{content.name} says that {handle or 'it'} is ready, and it is not", event)
        elif volume and taken[:2] != (f"{NAME}{content.spec.volume_snapshot_ref.uid}", volume):
            self.wrong(f"{content.name} of {volume} has {handle}, which is another's", event)

    def _snapshot(self, event: Event) -> None:
        snapshots = self._objects.snapshots.values()
        snapshot = next(each for each in snapshots if each.key == event.fields["name"])
        if snapshot.deleting or not snapshot.status.ready_to_use:
            return
        self.guarded += 1
        content = self._objects.contents.get(snapshot.status.bound_volume_snapshot_content_name or "")
        handle = handle_of(content) if content is not None else ""
        if content is None or content.spec.volume_snapshot_ref.uid != snapshot.uid:
            self.wrong(f"{snapshot.key} is ready, and has no content", event)
        elif handle not in self._objects.ready:
            self.wrong(f"{snapshot.key} says that {handle} is ready, and it is not", event)
        elif claim_of(snapshot):
            volume, right = self._objects.taken[handle].volume, self._objects.of_disks[snapshot.uid]
            if volume not in right:
                self.wrong(
                    f"{snapshot.key} is of {volume}, and its claim had {', '.join(sorted(right))}", event
                )


class NotLostWhileNeeded(Checker):
    """S49: a disk is deleted only when no snapshot of it is being taken, for which there is a content, and no
    copy of it that was begun; unless its claim was going before that, or users have stripped its finalizers.
    A snapshot is deleted from the storage only when its VolumeSnapshot and its content are, with the policy
    Delete, and no claim is waiting to be made of it that came before that."""

    name = "S49"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._objects = KeptObjects.of(trace)
        self._stripped: set[str] = set()  # uids of what users have taken the finalizers from
        trace.listen("plan.stripped", lambda event: self._stripped.add(event.fields["uid"]))
        trace.listen("truth.deleted", self._disk_deleted)
        trace.listen("truth.snapshot-deleted", self._snapshot_deleted)

    def _disk_deleted(self, event: Event) -> None:
        volume, objects = event.fields["volume"], self._objects
        for copy, (original, disk) in objects.copies.items():
            if disk == volume and original not in self._stripped:
                self.guarded += 1
                if f"{MADE_FOR}{copy}" not in objects.disks:
                    self.wrong(f"{volume} is deleted, and a copy of it is made for claim {copy}", event)
        for content in objects.contents.values():
            if objects.source_of(content) == volume:
                self.guarded += 1
                self._judge_source(content.spec.volume_snapshot_ref.uid or "", event)

    def _judge_source(self, uid: str, event: Event) -> None:
        snapshot = self._objects.snapshots.get(uid)
        if snapshot is None or snapshot.deleting or uid in self._objects.unheld:
            return
        if not self._objects.is_ready(uid) and self._objects.holders.get(uid) not in self._stripped:
            self.wrong(f"{event.fields['volume']} is deleted, and {snapshot.key} is taken of it", event)

    def _snapshot_deleted(self, event: Event) -> None:
        handle, objects = event.fields["snapshot"], self._objects
        self.guarded += 1
        uids = {objects.taken[handle].name.removeprefix(NAME)}
        for content in [each for each in objects.contents.values() if handle_of(each) == handle]:
            uids.add(content.spec.volume_snapshot_ref.uid or "")
            if not content.deleting or content.spec.deletion_policy != "Delete":
                self.wrong(f"{handle} is deleted, and {content.name} is to keep it", event)
        for uid in uids & objects.snapshots.keys():
            if not objects.snapshots[uid].deleting:
                self.wrong(f"{handle} is deleted, and {objects.snapshots[uid].key} stays", event)
        for claim in objects.waiting():
            if objects.waits_for.get(claim.metadata.uid) in uids:
                self.wrong(f"{handle} is deleted, and {claim.metadata.name} is to be made of it", event)


class BeginsAsItsSource(Checker):
    """S50: a disk that is made for a claim is a copy of what that names as its source, and of nothing if it
    names none, and begins with the words that its source has then; a snapshot has those of its disk."""

    name = "S50"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._objects = KeptObjects.of(trace)
        trace.listen("truth.created", self._created)
        trace.listen("truth.snapshot-taken", self._taken)

    def _taken(self, event: Event) -> None:
        volume, words = event.fields["volume"], event.fields["words"]
        self.guarded += 1
        if words != (had := self._objects.words[volume]):
            self.wrong(f"a snapshot of {volume} has {words} words, and that has {had}", event)

    def _created(self, event: Event) -> None:
        volume, source = event.fields["volume"], event.fields.get("source", "")
        words, had = event.fields.get("words", 0), self._objects.words_of(source) if source else 0
        self.guarded += bool(source)
        if words != had:
            self.wrong(f"{volume} begins with {words} words, and {source or 'nothing'} has {had}", event)
        claim = self._objects.claim_for(volume)
        if claim is None or claim[1].going:
            return  # made by hand or emptied, or only to be found and deleted
        key, wanted = claim[0], self._sources(*claim)
        if source not in wanted:
            self.wrong(f"{volume} is a copy of {source or 'nothing'}, and not what {key} names", event)

    def _sources(self, key: str, claim: StoredObject) -> set[str]:
        """What a claim may become a copy of: of that name there may have been several."""
        if claim.spec.data_source is None:
            return {""}
        objects = self._objects
        return objects.handles[restored_from(claim, key)] | objects.had[copied_from(claim, key)]

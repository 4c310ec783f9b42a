"""What is asked for, and what the storage has, of snapshots and copies: one account for all that judge them.

Sources: the CSI community's objects (external-snapshotter: a VolumeSnapshot asks for one, its
VolumeSnapshotContent is what the storage keeps) and KEP-1495 (a claim's data source, which API servers store
in both of its places). What the storage has is told by the storage itself; a snapshot belongs to the
VolumeSnapshot whose uid is in its name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from mooring.kube.objects.snapshots import VolumeSnapshot, VolumeSnapshotContent
from mooring.simulation.checks.invariants.objects import CLAIMS, VOLUMES, StoredObject, object_of
from mooring.simulation.engine.trace import Event, Trace

SNAPSHOTS = "volumesnapshots.snapshot.storage.k8s.io"
CONTENTS = "volumesnapshotcontents.snapshot.storage.k8s.io"
NAME = "snapshot-"
"""Before the VolumeSnapshot's uid: under that name the storage is asked for it."""
MADE_FOR = "pvc-"
"""Before a claim's uid: the name of the disk that is made for it."""
BEGUN = "mooring.dev/provisioning"
"""A finalizer of a claim: the storage may have been asked for its volume."""

_snapshot = msgspec.json.Decoder(VolumeSnapshot).decode
_content = msgspec.json.Decoder(VolumeSnapshotContent).decode


class Taken(NamedTuple):
    """A snapshot of a disk, which had so many words then."""

    name: str
    volume: str
    words: int


class KeptObjects:
    """The account of one trace. `taken`: all that the storage has ever had, by their handles; `alive`: what
    it has; `ready`: what can be used.

    By the uid of a VolumeSnapshot: `of_disks`, the disks that its claim had since it was made and until its
    content was; `holders`, the uid that its claim had then; `unheld`: that claim was going, or another. By
    the uid of a claim: `waits_for`, the VolumeSnapshot that it is to be made of, which was not being deleted
    then; `copies`: uid and disk of the claim that it is to be a copy of, which was not being deleted when the
    copy was begun."""

    def __init__(self, trace: Trace) -> None:
        self.snapshots: dict[str, VolumeSnapshot] = {}  # by uid
        self.contents: dict[str, VolumeSnapshotContent] = {}
        self.claims: dict[str, StoredObject] = {}
        self.volumes: dict[str, str] = {}  # PersistentVolume -> disk
        self._reserved: dict[str, str] = {}  # PersistentVolume -> uid of the claim that it names
        self.disks: set[str] = set()
        self._named: dict[str, str] = {}  # what a cloud calls a volume -> disk
        self._keys: dict[str, str] = {}  # uid of a VolumeSnapshot -> "namespace/name"
        self.words: defaultdict[str, int] = defaultdict(int)  # disk -> how many it has
        self.taken: dict[str, Taken] = {}
        self.alive: set[str] = set()
        self.ready: set[str] = set()
        self.late: set[str] = set()  # taken for a request whose sender had ended
        self.retained: set[str] = set()  # users have given up the content, and not the snapshot
        self.of_disks: defaultdict[str, set[str]] = defaultdict(set)
        self.holders: dict[str, str] = {}
        self.unheld: set[str] = set()
        self.handles: defaultdict[str, set[str]] = defaultdict(
            set
        )  # "namespace/name" -> all that it ever had
        self.had: defaultdict[str, set[str]] = defaultdict(set)  # claim -> all disks that it ever had
        self.waits_for: dict[str, str] = {}
        self.copies: dict[str, tuple[str, str]] = {}
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.created", self._disk_created)
        trace.listen("truth.deleted", self._disk_deleted)
        trace.listen("truth.written", self._word)
        trace.listen("truth.snapshot-taken", self._snapshot_taken)
        trace.listen("truth.snapshot-ready", lambda event: self.ready.add(event.fields["snapshot"]))
        trace.listen("truth.snapshot-deleted", self._snapshot_deleted)

    @classmethod
    def of(cls, trace: Trace) -> KeptObjects:
        """The one of that trace: its checkers share it."""
        return trace.shared(cls)

    # --- the storage

    def _disk_created(self, event: Event) -> None:
        volume = event.fields["volume"]
        self.disks.add(volume)
        self._named[event.fields.get("id", volume)] = volume
        self.words[volume] = event.fields.get("words", 0)

    def _disk_deleted(self, event: Event) -> None:
        self.disks.discard(event.fields["volume"])

    def _word(self, event: Event) -> None:
        self.words[event.fields["volume"]] += bool(event.fields["committed"])

    def _snapshot_taken(self, event: Event) -> None:
        handle, volume, name = (event.fields[each] for each in ("snapshot", "volume", "name"))
        self.taken[handle] = Taken(name, volume, self.words[volume])
        self.alive.add(handle)
        self.handles[self._keys.get(name.removeprefix(NAME), "")].add(handle)
        if event.fields["ready"]:
            self.ready.add(handle)

    def _snapshot_deleted(self, event: Event) -> None:
        self.alive.discard(event.fields["snapshot"])
        self.ready.discard(event.fields["snapshot"])

    def _disk(self, handle: str) -> str:
        """A disk by what the storage calls it: a cloud has ids of its own."""
        return self._named.get(handle, handle)

    def words_of(self, source: str) -> int:
        """How many words a snapshot, or a disk, has."""
        return self.taken[source].words if source in self.taken else self.words[source]

    # --- the objects

    def _written(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource == CLAIMS:
            self._claim(name, object_of(event))
        elif resource == VOLUMES:
            volume = object_of(event)
            self.volumes[name] = self._disk(volume.disk or name)
            self._reserved[name] = volume.spec.claim_ref.uid if volume.spec.claim_ref is not None else ""
        elif resource == SNAPSHOTS:
            self._snapshot(_snapshot(event.fields["_body"]))
        elif resource == CONTENTS:
            self._content(_content(event.fields["_body"]))

    def _deleted(self, event: Event) -> None:
        resource, name = event.fields["resource"], event.fields["name"]
        if resource == CLAIMS:
            uid = object_of(event).metadata.uid
            self.claims.pop(name, None)
            self.waits_for.pop(uid, None)
            self.copies.pop(uid, None)
        elif resource == SNAPSHOTS:
            self.snapshots.pop(object_of(event).metadata.uid, None)
        elif resource == CONTENTS and (content := self.contents.pop(name, None)) is not None:
            handle = handle_of(content)
            if content.spec.deletion_policy == "Retain" and handle:
                self.retained.add(handle)

    def _snapshot(self, snapshot: VolumeSnapshot) -> None:
        is_new = snapshot.uid not in self.snapshots
        self.snapshots[snapshot.uid] = snapshot
        if is_new:
            self._keys[snapshot.uid] = snapshot.key
            self._follow(snapshot)
            for key, claim in self.claims.items():
                self._wait(claim, key)

    def _follow(self, snapshot: VolumeSnapshot) -> None:
        """What its claim has before a content is made, the snapshot may be of."""
        disk = self.disk_of(claim_of(snapshot))
        if disk and snapshot.uid not in self.holders:
            self.of_disks[snapshot.uid].add(disk)

    def _content(self, content: VolumeSnapshotContent) -> None:
        uid, handle = content.spec.volume_snapshot_ref.uid or "", handle_of(content)
        self.contents[content.name] = content
        self.retained.discard(handle)
        snapshot = self.snapshots.get(uid)
        if snapshot is None:
            return
        if handle:
            self.handles[snapshot.key].add(handle)
        if uid not in self.holders:
            claim = self.claims.get(claim_of(snapshot))
            self.holders[uid] = claim.metadata.uid if claim is not None else ""
            has_it = self.disk_of(claim_of(snapshot)) == self.source_of(content)
            if claim is None or claim.going or not has_it:
                self.unheld.add(uid)

    def _claim(self, key: str, claim: StoredObject) -> None:
        self.claims[key] = claim
        if self._reserved.get(named := claim.spec.volume_name) == claim.metadata.uid:
            self.had[key].add(self.volumes[named])  # it is bound, and need not say so yet
        if disk := self.disk_of(key):
            self.had[key].add(disk)
            for snapshot in self.snapshots.values():
                if claim_of(snapshot) == key:
                    self._follow(snapshot)
        if claim.spec.data_source is not None:
            self._wait(claim, key)
            self._copy(claim, key)

    def _wait(self, claim: StoredObject, key: str) -> None:
        if claim.metadata.uid in self.waits_for or not is_waiting(claim):
            return
        for snapshot in self.snapshots.values():
            if restored_from(claim, key) == snapshot.key and not snapshot.deleting:
                self.waits_for[claim.metadata.uid] = snapshot.uid

    def _copy(self, claim: StoredObject, key: str) -> None:
        uid, source = claim.metadata.uid, copied_from(claim, key)
        original = self.claims.get(source)
        if BEGUN not in claim.metadata.finalizers or not is_waiting(claim):
            self.copies.pop(uid, None)
        elif uid not in self.copies and original is not None and not original.going:
            self.copies[uid] = original.metadata.uid, self.disk_of(source)

    # --- questions

    def disk_of(self, claim: str) -> str:
        """The disk that the claim of that key is bound to; "" if it is not."""
        there = self.claims.get(claim)
        if there is None or there.status.phase != "Bound":
            return ""
        return self.volumes.get(there.spec.volume_name, there.spec.volume_name)

    def claim_for(self, disk: str) -> tuple[str, StoredObject] | None:
        """The claim, and its key, for which a disk of that name is made; None for one that is made by hand,
        or emptied: it has a PersistentVolume."""
        uid = disk.removeprefix(MADE_FOR)
        if disk == uid or disk in self.volumes:
            return None
        return next((each for each in self.claims.items() if each[1].metadata.uid == uid), None)

    def source_of(self, content: VolumeSnapshotContent) -> str:
        """The disk that it is to be taken of."""
        return self._disk(content.spec.source.volume_handle or "")

    def is_ready(self, uid: str) -> bool:
        """Whether what is taken for the VolumeSnapshot of that uid can be used."""
        return any(self.taken[each].name == NAME + uid for each in self.ready)

    def contents_of(self, uid: str) -> Iterator[VolumeSnapshotContent]:
        """Those that are of the VolumeSnapshot of that uid: one at most, if all is well."""
        return (each for each in self.contents.values() if each.spec.volume_snapshot_ref.uid == uid)

    def waiting(self) -> Iterator[StoredObject]:
        """Claims that wait for a copy that the storage has not made yet."""
        for claim in self.claims.values():
            if (
                claim.spec.data_source is not None
                and is_waiting(claim)
                and f"{MADE_FOR}{claim.metadata.uid}" not in self.disks
            ):
                yield claim


def handle_of(content: VolumeSnapshotContent) -> str:
    """What the storage calls the snapshot, as far as the content says."""
    return content.status.snapshot_handle or content.spec.source.snapshot_handle or ""


def claim_of(snapshot: VolumeSnapshot) -> str:
    """The key of the claim that it is to be taken of; "" for one that names a content."""
    name = snapshot.spec.source.persistent_volume_claim_name
    return f"{snapshot.namespace}/{name}" if name else ""


def is_waiting(claim: StoredObject) -> bool:
    """Whether a volume is still to be made for it, and it is not going."""
    return not claim.going and not claim.spec.volume_name and claim.status.phase in ("", "Pending")


def restored_from(claim: StoredObject, key: str) -> str:
    """The key of the VolumeSnapshot that a claim names as its source; "" if it names none."""
    return _named(claim, key, "VolumeSnapshot")


def copied_from(claim: StoredObject, key: str) -> str:
    """The key of the claim that a claim names as its source; "" if it names none."""
    return _named(claim, key, "PersistentVolumeClaim")


def _named(claim: StoredObject, key: str, kind: str) -> str:
    source = claim.spec.data_source
    if source is None or source.kind != kind:
        return ""
    return f"{key.partition('/')[0]}/{source.name}"

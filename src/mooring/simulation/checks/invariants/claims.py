"""Invariants of claims, volumes and what was written to them."""

from __future__ import annotations

from collections import defaultdict

from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.objects import CLAIMS, VOLUMES, StoredObject, object_of
from mooring.simulation.checks.invariants.statements import Removed
from mooring.simulation.engine.trace import Event, Trace


class BoundToEachOther(Checker):
    """S12: at most one claim is bound to a volume, until that is emptied for the next one, or a user gives it
    to the next, and at most one that exists to a disk, also when the volume is deleted and made anew; and a
    claim never changes its volume."""

    name = "S12"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._volumes: dict[str, str] = {}  # volume -> uid of its claim
        self._claims: dict[str, str] = {}  # uid of a claim -> volume
        self._disks: dict[str, str] = {}  # volume -> its disk, also when the volume is gone
        self._holders: dict[str, str] = {}  # disk -> uid of the claim that exists and has it
        self._gone: set[str] = set()  # uids of claims that were bound
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.recycled", self._recycled)
        trace.listen("plan.given-back", self._recycled)

    def _recycled(self, event: Event) -> None:
        volume = event.fields["volume"]
        claim = self._volumes.pop(volume, "")
        self.guarded += 1
        if claim and claim not in self._gone:
            self.wrong(f"{volume} is emptied, and its claim {claim} exists", event)

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == VOLUMES:
            self._disks[event.fields["name"]] = object_of(event).disk
        if event.fields["resource"] != CLAIMS:
            return
        claim, name = object_of(event), event.fields["name"]
        uid, volume = claim.metadata.uid, claim.spec.volume_name
        if not volume or claim.status.phase != "Bound":
            return
        self.guarded += 1
        if self._claims.setdefault(uid, volume) != volume:
            self.wrong(f"claim {name} goes from {self._claims[uid]} to {volume}", event)
        if self._volumes.setdefault(volume, uid) != uid:
            self.wrong(f"{volume} is bound to {name} and to another claim", event)
        disk = self._disks.get(volume, volume)
        if self._holders.setdefault(disk, uid) != uid:
            self.wrong(f"{volume} is bound to {name}, and its disk {disk} is that of another claim", event)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == VOLUMES:
            self._volumes.pop(event.fields["name"], None)
        elif event.fields["resource"] == CLAIMS:
            uid = object_of(event).metadata.uid
            self._holders = {disk: holder for disk, holder in self._holders.items() if holder != uid}
            self._gone.add(uid)


class OneDiskForEach(Checker):
    """S9: there are never two disks for one claim. `name` is what the disk is made for, `id` what the storage
    calls it; each is the volume where the storage has no names of its own."""

    name = "S9"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._disks: defaultdict[str, set[str]] = defaultdict(set)
        self._names: dict[str, str] = {}  # disk -> what for
        trace.listen("truth.created", self._created)
        trace.listen("truth.deleted", self._deleted)

    def _created(self, event: Event) -> None:
        self.guarded += 1
        volume = event.fields["volume"]
        name, disk = event.fields.get("name", volume), event.fields.get("id", volume)
        self._names[disk] = name
        self._disks[name].add(disk)
        if len(self._disks[name]) > 1:
            self.wrong(f"there are several disks for {name}: {', '.join(sorted(self._disks[name]))}", event)

    def _deleted(self, event: Event) -> None:
        disk = event.fields.get("id", event.fields["volume"])
        self._disks[self._names.pop(disk, "")].discard(disk)


class KeptWhileClaimed(Checker):
    """S14: a disk is deleted only when no claim has it: none names its volume, and none for which it was made
    names no volume yet. S16: what was written to it is found again."""

    name = "S14"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._claims: dict[str, str] = {}  # claim -> its volume, or that which is made for it
        self._written_words: defaultdict[str, int] = defaultdict(int)
        trace.listen("store.written", self._claim)
        trace.listen("store.deleted", self._claim_gone)
        trace.listen("truth.created", self._created)
        trace.listen("truth.deleted", self._deleted)
        trace.listen("truth.written", self._write)

    def _created(self, event: Event) -> None:
        """A disk that is a copy begins with what was copied."""
        self._written_words[event.fields["volume"]] = event.fields.get("words", 0)

    def _claim(self, event: Event) -> None:
        if event.fields["resource"] == CLAIMS:
            claim = object_of(event)
            self._claims[event.fields["name"]] = claim.spec.volume_name or f"pvc-{claim.metadata.uid}"

    def _claim_gone(self, event: Event) -> None:
        if event.fields["resource"] == CLAIMS:
            self._claims.pop(event.fields["name"], None)

    def _deleted(self, event: Event) -> None:
        volume = event.fields["volume"]
        self.guarded += 1
        self._written_words.pop(volume, None)
        for claim, has in self._claims.items():
            if volume == has:
                self.wrong(f"{volume} is deleted, and claim {claim} exists", event)

    def _write(self, event: Event) -> None:
        volume, found = event.fields["volume"], event.fields["found"]
        if not event.fields["committed"]:
            return
        if found != self._written_words[volume]:
            self._found(
                "S16", f"{volume} has {found} words, and {self._written_words[volume]} were written", event
            )
        self._written_words[volume] += 1


class ProtectedWhileUsed(Checker):
    """S15: a claim is not removed while a process uses its volume; nor a volume while a claim is bound to it.
    Processes of pods that were removed by force do not count, nor claims and volumes whose finalizers a user
    has stripped."""

    name = "S15"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._users: defaultdict[str, set[str]] = defaultdict(set)  # disk -> uids of pods that run with it
        self._bound: dict[str, str] = {}  # claim -> volume
        self._lost: set[str] = set()  # claims that have lost it: one that is made again is not theirs yet
        self._removed = Removed.of(trace)
        self._stripped: set[str] = set()  # uids of what users have taken the finalizers from
        trace.listen("plan.stripped", lambda event: self._stripped.add(event.fields["uid"]))
        trace.listen("truth.started", self._started)
        trace.listen("truth.ended", self._ended)
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    def _started(self, event: Event) -> None:
        for disk in event.fields["disks"].split(","):
            self._users[disk].add(event.fields["uid"])

    def _ended(self, event: Event) -> None:
        for disk in event.fields["disks"].split(","):
            self._users[disk].discard(event.fields["uid"])

    def _written(self, event: Event) -> None:
        if event.fields["resource"] != CLAIMS:
            return
        claim = object_of(event)
        if claim.status.phase == "Bound":
            self._bound[event.fields["name"]] = claim.spec.volume_name
            self._lost.discard(event.fields["name"])
        elif claim.status.phase == "Lost":
            self._lost.add(event.fields["name"])

    def _deleted(self, event: Event) -> None:
        name = event.fields["name"]
        if event.fields["resource"] not in (CLAIMS, VOLUMES):
            return
        stripped = object_of(event).metadata.uid in self._stripped
        if event.fields["resource"] == CLAIMS:
            volume = self._bound.pop(name, "")
            self._lost.discard(name)
            if stripped:
                return
            self.guarded += bool(volume)
            users = sorted(uid for uid in self._users[volume] if uid not in self._removed)
            if volume and users:
                self.wrong(f"claim {name} is gone, and pod {users[0]} runs with its volume", event)
        elif not stripped:
            bound = [each for each, volume in self._bound.items() if volume == name]
            for claim in [each for each in bound if each not in self._lost]:
                self.wrong(f"{name} is gone, and claim {claim} is bound to it", event)


class RunsWithItsVolumes(Checker):
    """S37: a container starts only with the volumes of all claims that its pod names and that are bound, each
    of its volumes set up where it is told to find it; but for claims that were made anew since the pod got
    its node."""

    name = "S37"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._pods: dict[str, tuple[str, StoredObject]] = {}  # by uid: namespace and pod
        self._claims: dict[str, StoredObject] = {}
        self._meant: dict[str, set[str]] = {}  # by the pod's uid: those of its claims when it got its node
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.started", self._started)

    def _written(self, event: Event) -> None:
        name = event.fields["name"]
        if event.fields["resource"] == "pods":
            pod, namespace = object_of(event), name.partition("/")[0]
            self._pods[pod.metadata.uid] = namespace, pod
            if pod.spec.node_name and pod.metadata.uid not in self._meant:
                there = (self._claims.get(f"{namespace}/{each}") for each in pod.claims)
                self._meant[pod.metadata.uid] = {each.metadata.uid for each in there if each is not None}
        elif event.fields["resource"] == CLAIMS:
            self._claims[name] = object_of(event)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == "pods":
            self._pods.pop(object_of(event).metadata.uid, None)
        elif event.fields["resource"] == CLAIMS:
            self._claims.pop(event.fields["name"], None)

    def _started(self, event: Event) -> None:
        if absent := event.fields.get("absent"):
            self.wrong(f"{event.fields['pod']} starts, and its volumes {absent} are not set up", event)
        namespace, pod = self._pods.get(event.fields["uid"], ("", None))
        if pod is None:
            return
        claims = [self._claims.get(f"{namespace}/{name}") for name in pod.claims]
        meant = self._meant.get(pod.metadata.uid, ())
        bound = [each for each in claims if each is not None and each.metadata.uid in meant]
        wanted = {each.spec.volume_name for each in bound if each.spec.volume_name}
        self.guarded += bool(wanted)
        if missing := sorted(wanted - {*event.fields["disks"].split(",")}):
            self.wrong(f"{event.fields['pod']} starts without {', '.join(missing)}", event)

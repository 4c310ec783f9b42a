"""Invariants of pods: their identity, their phases, and who may write to them."""

from __future__ import annotations

from collections import defaultdict

from mooring.simulation.checks.faults import Faults
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.objects import VOLUMES, StoredObject, object_of
from mooring.simulation.checks.invariants.shut_out import ShutOut
from mooring.simulation.checks.invariants.statements import Removed, Statements
from mooring.simulation.engine.trace import Event, Trace
from mooring.volumes.exclusivity import ONE_POD_MODE, SHARED_MODES

ORDER = {"": 0, "Pending": 0, "Running": 1, "Succeeded": 2, "Failed": 2}


class OneOfEachIdentity(Checker):
    """S1: no two pods of one name run at the same time, unless a user has deleted the first by force, or it
    was removed because an operator had said that its machine is dead, or, where the policy has it so, because
    the storage shuts its node out of all its volumes."""

    name = "S1"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._running: defaultdict[str, dict[str, str]] = defaultdict(dict)  # pod -> uid -> node
        self._removed = Removed.of(trace)
        trace.listen("truth.started", self._started)
        trace.listen("truth.ended", self._ended)

    def _started(self, event: Event) -> None:
        pod, uid = event.fields["pod"], event.fields["uid"]
        self.guarded += pod in self._running
        others = {
            each: node
            for each, node in self._running[pod].items()
            if each != uid and each not in self._removed
        }
        self._running[pod][uid] = event.fields["node"]
        if others:
            where = ", ".join(f"{each} on {node}" for each, node in others.items())
            self.wrong(f"{pod} ({uid}) starts on {event.fields['node']} while it runs as {where}", event)

    def _ended(self, event: Event) -> None:
        self._running[event.fields["pod"]].pop(event.fields["uid"], None)


class NotBesideTheRemoved(Checker):
    """S1': no pod starts beside one of its node that was removed, still runs, and has the same exclusive
    volume. A node sees in their order which pods there are: one that sees them late does not know that a pod
    was removed after that one was made."""

    name = "S1'"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._exclusive: set[str] = set()
        self._users: defaultdict[tuple[str, str], set[str]] = defaultdict(set)  # node, volume -> uids
        self._removed, self._faults = Removed.of(trace), Faults.of(trace)
        self._made: dict[str, float] = {}  # when the object of a pod was made, by uid
        self._gone: dict[str, float] = {}
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.started", self._started)
        trace.listen("truth.ended", self._ended)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == "pods":
            self._gone[object_of(event).metadata.uid] = event.time

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == "pods":
            self._made.setdefault(object_of(event).metadata.uid, event.time)
        if event.fields["resource"] != VOLUMES:
            return
        modes = object_of(event).spec.access_modes
        if modes and SHARED_MODES.isdisjoint(modes):
            self._exclusive.add(event.fields["name"])

    def _places(self, event: Event) -> list[tuple[str, str]]:
        disks = self._exclusive.intersection(event.fields["disks"].split(","))
        return [(event.fields["node"], disk) for disk in sorted(disks)]

    def _started(self, event: Event) -> None:
        for place in self._places(event):
            users = self._users[place]
            self.guarded += bool(users)
            if beside := {uid for uid in users if self._must_end_first(uid, event)}:
                what = f"{event.fields['pod']} ({event.fields['uid']}) starts with {place[1]} on {place[0]}"
                self.wrong(f"{what} beside {', '.join(sorted(beside))}, removed, which still runs", event)
            users.add(event.fields["uid"])

    def _must_end_first(self, other: str, event: Event) -> bool:
        """Whether it was removed, and the node knows."""
        uid, gone = event.fields["uid"], self._gone.get(other)
        if uid == other or other not in self._removed:
            return False
        if gone is None or self._made.get(uid, gone) >= gone:
            return True
        return not self._faults.disturbed((event.fields["node"],), gone)

    def _ended(self, event: Event) -> None:
        for place in self._places(event):
            self._users[place].discard(event.fields["uid"])


class TheOneMeant(Checker):
    """S2: controllers and agents delete and patch a pod only with its uid: another pod may have its name by
    then."""

    name = "S2"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        trace.listen("asked.write", self._note_write)

    def _note_write(self, event: Event) -> None:
        if event.fields["resource"] != "pods" or event.fields["method"] not in ("DELETE", "PATCH"):
            return
        self.guarded += 1
        if not event.fields["uid"]:
            self.wrong(
                f"{event.actor} sends {event.fields['method']} {event.fields['name']} without its uid", event
            )


class PhasesGoForward(Checker):
    """S3: a pod's phase never goes back, its deletion is never taken back and its grace period never grows;
    it is Succeeded or Failed only when nothing of it runs, unless an operator has said that its machine is
    dead, or, where the policy has it so, the storage shuts its node out of all its volumes."""

    name = "S3"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._pods: dict[str, StoredObject] = {}  # uid -> as it was written last
        self._running: defaultdict[str, int] = defaultdict(int)
        self._dead, self._shut = Statements.of(trace), ShutOut.of(trace)
        trace.listen("truth.started", self._started)
        trace.listen("truth.ended", self._ended)
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    def _started(self, event: Event) -> None:
        self._running[event.fields["uid"]] += 1

    def _ended(self, event: Event) -> None:
        self._running[event.fields["uid"]] -= 1

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == "pods":
            self._pods.pop(object_of(event).metadata.uid, None)

    def _written(self, event: Event) -> None:
        if event.fields["resource"] != "pods":
            return
        new = object_of(event)
        uid, name = new.metadata.uid, event.fields["name"]
        old, self._pods[uid] = self._pods.get(uid), new
        if old is None:
            return
        self.guarded += new.status.phase != old.status.phase
        if ORDER[new.status.phase] < ORDER[old.status.phase]:
            self.wrong(f"{name} goes from {old.status.phase} back to {new.status.phase}", event)
        if old.metadata.deletion_timestamp and not new.metadata.deletion_timestamp:
            self.wrong(f"the deletion of {name} is taken back", event)
        before, after = old.metadata.deletion_grace_period_seconds, new.metadata.deletion_grace_period_seconds
        if before is not None and after is not None and after > before:
            self.wrong(f"the grace period of {name} grows from {before} to {after} s", event)
        ended = ORDER[new.status.phase] == 2 and new.status.phase != old.status.phase
        excused = self._dead.ended(new.spec.node_name, event) or self._shut.excuses(name, new, event.time)
        if ended and self._running[uid] > 0 and not excused:
            self.wrong(f"{name} is {new.status.phase}, and runs on {new.spec.node_name}", event)


class OnePodOnly(Checker):
    """S5: a ReadWriteOncePod volume is used by one pod at a time."""

    name = "S5"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._volumes: set[str] = set()
        self._users: defaultdict[str, set[str]] = defaultdict(set)
        self._removed = Removed.of(trace)
        trace.listen("store.written", self._written)
        trace.listen("truth.started", self._started)
        trace.listen("truth.ended", self._ended)

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == VOLUMES and object_of(event).spec.access_modes == (ONE_POD_MODE,):
            self._volumes.add(event.fields["name"])

    def _started(self, event: Event) -> None:
        for disk in self._volumes.intersection(event.fields["disks"].split(",")):
            self.guarded += 1
            others = {
                uid for uid in self._users[disk] if uid != event.fields["uid"] and uid not in self._removed
            }
            self._users[disk].add(event.fields["uid"])
            if others:
                self.wrong(f"{disk} is used by pod {event.fields['pod']} and by another", event)

    def _ended(self, event: Event) -> None:
        for disk in self._volumes.intersection(event.fields["disks"].split(",")):
            self._users[disk].discard(event.fields["uid"])

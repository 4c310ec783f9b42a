"""What must hold at every step, as checkers of the trace. Each is told of events, and says what it found wrong.

The names are those of docs/safety.md. A checker keeps little state, by volume, pod or node, and knows nothing of the
parts: it can be tried on a trace written by hand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from mooring.simulation.trace import Event, Trace
from mooring.volumes.out_of_service import SEEN, TAINT

ATTACHMENTS = "volumeattachments.storage.k8s.io"


@dataclass(frozen=True)
class Violation:
    """An invariant that did not hold: at which event, and what was seen."""

    invariant: str
    message: str
    time: float
    event: int

    def __str__(self) -> str:
        return f"{self.invariant} at {self.time:.3f} s (event {self.event}): {self.message}"


Found = Callable[[str, str, Event], None]


class _Metadata(msgspec.Struct):
    uid: str = ""
    annotations: dict[str, str] = {}


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    volume_name: str = ""
    claim_ref: _Reference | None = None
    taints: tuple[_Taint, ...] = ()


class _Taint(msgspec.Struct):
    key: str = ""


class _Reference(msgspec.Struct):
    uid: str = ""
    name: str = ""


class _Status(msgspec.Struct):
    phase: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Object).decode


class Statements:
    """Which machines operators say are dead, whether they are or not. A statement ends when it is taken back, or when
    the node reports under it; that of a deleted Node, when the name is registered anew."""

    def __init__(self, trace: Trace) -> None:
        self._said: set[str] = set()
        self.used = 0
        trace.listen("plan.declared", self._declared)
        trace.listen("plan.node-deleted", lambda event: self._said.add(event.fields["node"]))
        trace.listen("store.written", self._written)

    def __contains__(self, node: object) -> bool:
        self.used += node in self._said
        return node in self._said

    def _declared(self, event: Event) -> None:
        (self._said.add if event.fields["out"] else self._said.discard)(event.fields["node"])

    def _written(self, event: Event) -> None:
        node = event.fields["name"]
        if event.fields["resource"] != "nodes" or node not in self._said:
            return
        body = _decode(event.fields["_body"])
        tainted = any(taint.key == TAINT for taint in body.spec.taints)
        if not tainted or SEEN in body.metadata.annotations:
            self._said.discard(node)


class OneOfEachIdentity:
    """S1: no two pods of one name run at the same time, unless a user has deleted the first by force, or it was removed
    because an operator had said that its machine is dead."""

    name = "S1"

    def __init__(self, trace: Trace, found: Found) -> None:
        self._found = found
        self._running: defaultdict[str, dict[str, str]] = defaultdict(dict)  # pod -> uid -> node
        self._forced: set[str] = set()
        self._dead = Statements(trace)
        trace.listen("truth.started", self._started)
        trace.listen("truth.ended", self._ended)
        trace.listen("plan.forced", lambda event: self._forced.add(event.fields["uid"]))
        trace.listen("store.deleted", self._deleted)

    def _started(self, event: Event) -> None:
        pod, uid = event.fields["pod"], event.fields["uid"]
        others = {each: node for each, node in self._running[pod].items() if each != uid and each not in self._forced}
        self._running[pod][uid] = event.fields["node"]
        if others:
            where = ", ".join(f"{each} on {node}" for each, node in others.items())
            self._found(self.name, f"{pod} ({uid}) starts on {event.fields['node']} while it runs as {where}", event)

    def _ended(self, event: Event) -> None:
        self._running[event.fields["pod"]].pop(event.fields["uid"], None)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] != "pods":
            return
        name = event.fields["name"].rpartition("/")[2]
        for uid, node in self._running.get(name, {}).items():
            if node in self._dead and _decode(event.fields["_body"]).metadata.uid == uid:
                self._forced.add(uid)


class OneWriter:
    """S4: a volume of one node is mounted on one node at most, and S4': nothing is written through an older epoch."""

    name = "S4"

    def __init__(self, trace: Trace, found: Found) -> None:
        self._found = found
        self._mounted: defaultdict[str, dict[str, int]] = defaultdict(dict)  # volume -> node -> epoch
        trace.listen("truth.mounted", self._mount)
        trace.listen("truth.unmounted", self._unmount)
        trace.listen("truth.written", self._write)

    def _mount(self, event: Event) -> None:
        volume, node = event.fields["volume"], event.fields["node"]
        others = [each for each in self._mounted[volume] if each != node]
        self._mounted[volume][node] = event.fields["epoch"]
        if others:
            self._found(self.name, f"{volume} is mounted on {node} and on {', '.join(others)}", event)

    def _unmount(self, event: Event) -> None:
        self._mounted[event.fields["volume"]].pop(event.fields["node"], None)

    def _write(self, event: Event) -> None:
        if not event.fields["fit"]:
            volume, node = event.fields["volume"], event.fields["node"]
            self._found(
                "S4'", f"a process on {node} writes to {volume}, which is not attached and mounted there", event
            )


class MountedMeansAttached:
    """S6: a device is mounted only where it is attached, under a record that says so."""

    name = "S6"

    def __init__(self, trace: Trace, found: Found) -> None:
        self._found = found
        trace.listen("truth.mounted", self._mount)

    def _mount(self, event: Event) -> None:
        if not event.fields["attached"]:
            self._found(
                self.name, f"{event.fields['volume']} is mounted on {event.fields['node']}, not attached", event
            )


class NoDetachUnderUse:
    """S7: no detach begins while the device is mounted on that node."""

    name = "S7"

    def __init__(self, trace: Trace, found: Found) -> None:
        self._found = found
        self._mounted: set[tuple[str, str]] = set()
        trace.listen("truth.mounted", lambda e: self._mounted.add((e.fields["volume"], e.fields["node"])))
        trace.listen("truth.unmounted", lambda e: self._mounted.discard((e.fields["volume"], e.fields["node"])))
        trace.listen("truth.begin", self._begin)

    def _begin(self, event: Event) -> None:
        volume, node = event.fields["volume"], event.fields["node"]
        if event.fields["act"] == "detach" and (volume, node) in self._mounted:
            self._found(self.name, f"detach of {volume} from {node} begins while it is mounted there", event)


class OneOperation:
    """S8: no two different requests about one volume are under way at the storage."""

    name = "S8"

    def __init__(self, trace: Trace, found: Found) -> None:
        self._found = found
        self._open: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        trace.listen("truth.begin", self._begin)
        trace.listen("truth.end", self._end)

    def _begin(self, event: Event) -> None:
        volume, request = event.fields["volume"], (event.fields["act"], event.fields["node"])
        for other in self._open[volume]:
            if other != request:
                self._found(self.name, f"{' '.join(request)} of {volume} begins during {' '.join(other)}", event)
        self._open[volume].append(request)

    def _end(self, event: Event) -> None:
        self._open[event.fields["volume"]].remove((event.fields["act"], event.fields["node"]))


class NoLostRecord:
    """S13: what is attached has a VolumeAttachment that says where."""

    name = "S13"

    def __init__(self, trace: Trace, found: Found) -> None:
        self._found = found
        self._attached: dict[str, str] = {}
        self._records: dict[str, tuple[str, str]] = {}  # VolumeAttachment -> volume, node
        trace.listen("truth.attached", self._attach)
        trace.listen("truth.detached", self._detach)
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    def _attach(self, event: Event) -> None:
        volume, node = event.fields["volume"], event.fields["node"]
        self._attached[volume] = node
        if (volume, node) not in self._records.values():
            self._found(self.name, f"{volume} is attached to {node}, and no VolumeAttachment says so", event)

    def _detach(self, event: Event) -> None:
        self._attached.pop(event.fields["volume"], None)

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == ATTACHMENTS and event.fields["name"] not in self._records:
            obj = _decode(event.fields["_body"])
            volume = obj.metadata.annotations.get("mooring.dev/volume-name", "")
            self._records[event.fields["name"]] = (volume, obj.spec.node_name)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] != ATTACHMENTS:
            return
        volume, node = self._records.pop(event.fields["name"], ("", ""))
        if self._attached.get(volume) == node and volume:
            self._found(self.name, f"the VolumeAttachment of {volume} and {node} is gone, and it is attached", event)


class BoundToEachOther:
    """S12: at most one claim is bound to a volume, and a claim never changes its volume."""

    name = "S12"

    def __init__(self, trace: Trace, found: Found) -> None:
        self._found = found
        self._volumes: dict[str, str] = {}  # volume -> uid of its claim
        self._claims: dict[str, str] = {}  # uid of a claim -> volume
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    def _written(self, event: Event) -> None:
        if event.fields["resource"] != "persistentvolumeclaims":
            return
        claim = _decode(event.fields["_body"])
        uid, volume = claim.metadata.uid, claim.spec.volume_name
        if not volume or claim.status.phase != "Bound":
            return
        if self._claims.setdefault(uid, volume) != volume:
            self._found(self.name, f"claim {event.fields['name']} goes from {self._claims[uid]} to {volume}", event)
        if self._volumes.setdefault(volume, uid) != uid:
            self._found(self.name, f"{volume} is bound to {event.fields['name']} and to another claim", event)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == "persistentvolumes":
            self._volumes.pop(event.fields["name"], None)


class KeptWhileClaimed:
    """S14: a disk is deleted only when its claim is gone, and S16: what was written to it is found again."""

    name = "S14"

    def __init__(self, trace: Trace, found: Found) -> None:
        self._found = found
        self._claims: dict[str, str] = {}  # claim -> its uid
        self._written_words: defaultdict[str, int] = defaultdict(int)
        trace.listen("store.written", self._claim)
        trace.listen("store.deleted", self._claim_gone)
        trace.listen("truth.deleted", self._deleted)
        trace.listen("truth.written", self._write)

    def _claim(self, event: Event) -> None:
        if event.fields["resource"] == "persistentvolumeclaims":
            self._claims[event.fields["name"]] = _decode(event.fields["_body"]).metadata.uid

    def _claim_gone(self, event: Event) -> None:
        if event.fields["resource"] == "persistentvolumeclaims":
            self._claims.pop(event.fields["name"], None)

    def _deleted(self, event: Event) -> None:
        volume = event.fields["volume"]
        self._written_words.pop(volume, None)
        for claim, uid in self._claims.items():
            if volume == f"pvc-{uid}":
                self._found(self.name, f"{volume} is deleted, and claim {claim} exists", event)

    def _write(self, event: Event) -> None:
        volume, found = event.fields["volume"], event.fields["found"]
        if found != self._written_words[volume]:
            self._found("S16", f"{volume} has {found} words, and {self._written_words[volume]} were written", event)
        self._written_words[volume] += 1


class NothingAcknowledgedIsLost:
    """D1: a write that was acknowledged is there after a crash of the API server."""

    name = "D1"

    def __init__(self, trace: Trace, found: Found) -> None:
        trace.listen(
            "truth.lost",
            lambda e: found(self.name, f"version {e.fields['had']} was acknowledged, {e.fields['has']} is there", e),
        )


class PartsGoOn:
    """P1: no controller and no agent ends by itself."""

    name = "P1"

    def __init__(self, trace: Trace, found: Found) -> None:
        trace.listen("truth.died", lambda e: found(self.name, f"{e.actor} ended with {e.fields['error']}", e))


CHECKERS: tuple[Any, ...] = (
    OneOfEachIdentity,
    OneWriter,
    MountedMeansAttached,
    NoDetachUnderUse,
    OneOperation,
    BoundToEachOther,
    NoLostRecord,
    KeptWhileClaimed,
    NothingAcknowledgedIsLost,
    PartsGoOn,
)


def check(trace: Trace) -> list[Violation]:
    """Puts all checkers on a trace; what they find is added to the list as the trace grows."""
    violations: list[Violation] = []

    def found(invariant: str, message: str, event: Event) -> None:
        violations.append(Violation(invariant, message, event.time, event.number))

    for checker in CHECKERS:
        checker(trace, found)
    return violations

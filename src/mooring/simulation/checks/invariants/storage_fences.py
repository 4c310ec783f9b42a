"""Invariants of fences of the storage: what they may release, and when a node may be let in again.

What an order reaches is what the storage's device was told; what a NodeFence says of it is compared with
that.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from mooring.fence.interface import Outcome
from mooring.kube.objects.fencing import NodeFence
from mooring.simulation.checks.invariants.checker import Checker, Found
from mooring.simulation.checks.invariants.fences import FENCES
from mooring.simulation.checks.invariants.forced_releases import Place, place
from mooring.simulation.checks.invariants.objects import ATTACHMENTS, StoredObject, object_of
from mooring.simulation.checks.invariants.power import Boots
from mooring.simulation.engine.trace import Event, Trace
from mooring.simulation.parts.storage_targets import target_of

_decode = msgspec.json.Decoder(NodeFence).decode


class OnlyWhatIsNamed(Checker):
    """S17': a fence of the storage releases only volumes that its order has named when it was answered, and
    these only if they are of a target that was ordered to shut the node out."""

    name = "S17'"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._boots = Boots.of(trace)
        self._targets: dict[str, Collection[str]] = {}  # token -> what the order was for
        self._fences: dict[str, NodeFence] = {}
        self._sent: dict[str, float] = {}  # token -> when it was sent last
        self._named: dict[str, frozenset[str]] = {}  # token -> VolumeAttachments
        self._stated: dict[str, str] = {}
        trace.listen("truth.ordered", self._ordered)
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)

    def _ordered(self, event: Event) -> None:
        if "targets" in event.fields:
            token, sent = event.fields["token"], event.fields.get("sent", event.time)
            self._targets[token] = event.fields["targets"].split(",")
            if self._sent.get(token) != sent:  # given again, as it is heard out
                self._named.pop(token, None)
            self._sent[token] = sent

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == FENCES:
            self._fence(event.fields["name"], _decode(event.fields["_body"]), event)
        elif event.fields["resource"] == ATTACHMENTS and self._targets:
            self._record(event.fields["name"], object_of(event), event)

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == ATTACHMENTS:
            self._stated.pop(event.fields["name"], None)

    def _fence(self, name: str, fence: NodeFence, event: Event) -> None:
        self._fences[name] = fence
        for each in fence.status.attempts:
            if each.token not in self._targets or not each.outcome:
                continue
            named = self._named.setdefault(each.token, frozenset(each.volumes))
            if more := sorted(each.volumes.keys() - named):
                self.wrong(f"NodeFence {name} names {', '.join(more)}, which its order did not", event)

    def _record(self, name: str, record: StoredObject, event: Event) -> None:
        evidence = self._boots.evidence(record)
        by = evidence.by if evidence is not None else ""
        if by == self._stated.get(name, ""):
            return
        self._stated[name] = by
        fence = self._fences.get(by.removeprefix("NodeFence "))
        token = fence.status.proof if fence is not None else ""
        if token not in self._targets:
            return
        self.guarded += 1
        volume, node = record.volume_name, record.spec.node_name
        if name not in self._named.get(token, ()):
            self.wrong(f"{by} releases {volume} of {node}, which it has not named", event)
        elif target_of(volume) not in self._targets[token]:
            self.wrong(f"{by} releases {volume} of {node}, which is of another target than its order", event)


class LetInAfterwards(Checker):
    """S18': a fence that was in force lets a node in again only when the boot that was shut out is over, or
    has nothing mounted of what it was shut out of and no VolumeAttachment with evidence that it is shut out;
    and no node is let in that has a volume mounted which another has by now."""

    name = "S18'"

    def __init__(self, trace: Trace, found: Found) -> None:
        super().__init__(trace, found)
        self._boots = Boots.of(trace)
        self._epochs: dict[str, int] = {}
        self._mounted: dict[Place, int] = {}  # under which attachment
        self._stated: dict[str, tuple[str, str, str]] = {}  # VolumeAttachment -> volume, node, boot
        self._in_force: set[tuple[str, str]] = set()  # node and boot of fences that were in force
        trace.listen("store.written", self._written)
        trace.listen("store.deleted", self._deleted)
        trace.listen("truth.attached", self._attached)
        trace.listen("truth.mounted", self._mount)
        trace.listen("truth.unmounted", lambda event: self._mounted.pop(place(event), None))
        trace.listen("truth.let-in", self._let_in)

    def _attached(self, event: Event) -> None:
        self._epochs[event.fields["volume"]] = event.fields["epoch"]

    def _mount(self, event: Event) -> None:
        self._mounted[place(event)] = event.fields["epoch"]

    def _written(self, event: Event) -> None:
        if event.fields["resource"] == ATTACHMENTS:
            self._note(event.fields["name"], object_of(event))
        elif event.fields["resource"] == FENCES:
            status = _decode(event.fields["_body"]).status
            if status.target is not None and any(each.outcome == Outcome.FENCED for each in status.attempts):
                self._in_force.add((status.target.node_name, status.target.boot_id))

    def _note(self, name: str, record: StoredObject) -> None:
        self._stated.pop(name, None)
        if (evidence := self._boots.evidence(record)) is not None:
            self._stated[name] = record.volume_name, record.spec.node_name, evidence.boot_id

    def _deleted(self, event: Event) -> None:
        if event.fields["resource"] == ATTACHMENTS:
            self._stated.pop(event.fields["name"], None)

    def _let_in(self, event: Event) -> None:
        node, target = event.fields["node"], event.fields["target"]
        self.guarded += 1
        boot = event.fields.get("boot", "")
        if boot and not self._boots.is_over(node, boot):
            left = [each for each, where in self._mounted if where == node and target_of(each) == target]
            said = [
                name
                for name, (volume, *whose) in self._stated.items()
                if target_of(volume) == target and whose == [node, boot]
            ]
            if left and (node, boot) in self._in_force:
                has = f"has {', '.join(sorted(left))} mounted as before"
                self.wrong(f"{node} is let in by a fence of its boot {boot}, which runs, and {has}", event)
            if said:
                names = ", ".join(sorted(said))
                self.wrong(f"{node} is let in in boot {boot}, and {names} says that it is shut out", event)
        for (volume, where), under in self._mounted.items():
            if where == node and target_of(volume) == target and under != self._epochs.get(volume, under):
                self.wrong(f"{node} is let in, and has {volume} mounted, which another has by now", event)

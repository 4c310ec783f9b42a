"""Mutants of the attach/detach controller: who holds which volume, and what its node is told."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from mooring.controllers.attachdetach import controller, decide, locks, release, state
from mooring.controllers.attachdetach.attached_lists import AttachedLists
from mooring.controllers.attachdetach.controller import AttachDetachController
from mooring.controllers.attachdetach.handshake import Handshake
from mooring.kube.client import Client
from mooring.kube.objects import Pod, VolumeAttachment
from mooring.node.volumes import handshake as node_handshake
from mooring.simulation.search.mutants import scenarios
from mooring.simulation.search.mutants.mutant import Mutant, Patch, always
from mooring.volumes.attachability import Attachability
from mooring.volumes.names import volume_of


def _report_once(original: Any) -> Any:
    async def report(self: Any, record: VolumeAttachment, **given: Any) -> bool:
        reported = vars(self).setdefault("_reported_once", set[str]())
        if record.uid in reported:
            return True
        done: bool = await original(self, record, **given)
        if done:
            reported.add(record.uid)
        return done

    return report


def _judge_the_cache(original: Any) -> Any:
    async def unreport(self: Any, volume: str, node_name: str, *more: Any) -> Any:
        before = self._nodes.get(node_name)
        return before if await original(self, volume, node_name, *more) is not None else None

    return unreport


def _use_it_again(original: Any) -> Any:
    def about(found: Any, attachment: Any, demand: Any, holder: Any) -> Any:
        if demand is None:
            return original(found, attachment, demand, holder)
        again = replace(attachment, deleting=False, marked=False)
        return original(found, again, demand, again if holder in (None, attachment) else holder)

    return about


def _as_soon_as_asked(original: Any) -> Any:
    return lambda record: record.deleting


def _start_from_pods(original: Any) -> Any:
    async def started(self: Any) -> None:
        await original(self)
        wanted = {name for pod in self._index.pods.items() for name in self._index.of_pod(pod)}
        for key in [key for key in self.queue._dirty if key not in wanted]:
            del self.queue._dirty[key]
            self.queue._ready.remove(key)

    return started


def _without(leave_out: Any) -> Any:
    """What decides about a new holder does not see some attachments."""

    def make(original: Any) -> Any:
        def about(found: Any, demand: Any, first: Any) -> Any:
            seen = tuple(each for each in found.attachments if not leave_out(each))
            return original(replace(found, attachments=seen), demand, first)

        return about

    return make


def _ended_pods_too(original: Any) -> Any:
    def demands_of(users: Iterable[Pod]) -> Any:
        by_node: dict[str, list[Pod]] = {}
        for pod in users:
            if pod.spec.node_name:
                by_node.setdefault(pod.spec.node_name, []).append(pod)
        return tuple(state._demand(node, pods) for node, pods in sorted(by_node.items()))

    return demands_of


def _unconditional(original: Any) -> Any:
    async def delete(self: Any, kind: Any, name: str, namespace: str = "", **given: Any) -> None:
        if kind is VolumeAttachment:
            given.pop("resource_version", None)
            given.pop("uid", None)
        await original(self, kind, name, namespace, **given)

    return delete


def _only_what_is_listed(original: Any) -> Any:
    def seen_state(self: Any, volume: str) -> Any:
        found = original(self, volume)
        seen = [
            a for a in found.attachments if not (a.marked and a.node in found.nodes and not _listed(found, a))
        ]
        return replace(found, attachments=tuple(seen))

    return seen_state


def _listed(found: Any, attachment: Any) -> bool:
    return found.nodes[attachment.node].reported


def _skip_at_start(original: Any) -> Any:
    async def started(self: Any) -> None:
        await original(self)
        records = self._index.records.items()
        vars(self)["_skipped"] = {
            r.uid for r in records if self._index.persistent_volume_of(volume_of(r)) is None
        }

    return started


def _without_skipped(original: Any) -> Any:
    def seen_state(self: Any, volume: str) -> Any:
        found, skipped = original(self, volume), vars(self).get("_skipped", ())
        names = {record.name for record in self._index.records_of(volume) if record.uid not in skipped}
        return replace(found, attachments=tuple(each for each in found.attachments if each.name in names))

    return seen_state


def _known_at_start(original: Any) -> Any:
    async def started(self: Any) -> None:
        await original(self)
        vars(self._handshake)["_mine"] = {record.uid for record in self._index.records.items()}

    return started


def _note_mine(original: Any) -> Any:
    async def attach(self: Any, *args: Any, **given: Any) -> Any:
        made = await original(self, *args, **given)
        vars(self).setdefault("_mine", set[str]()).add(made.uid)
        return made

    return attach


def _mine_only(original: Any) -> Any:
    def seen_state(self: Any, volume: str) -> Any:
        found = original(self, volume)
        mine = getattr(self._handshake, "_mine", set[str]())
        names = {record.name for record in self._index.records_of(volume) if record.uid in mine}
        return replace(found, attachments=tuple(each for each in found.attachments if each.name in names))

    return seen_state


NO_SWEEP = Patch(controller, "SWEEP_S", lambda original: 1e9)
"""The slow sweep that looks at everything once more would mend it, and count it."""


MUTANTS: dict[str, Mutant] = {
    "B01": Mutant(
        "a volume that was reported once is not reported again after its detach was taken back",
        "the field case study; kubernetes/kubernetes#49053, #72181, #88565",
        ("L1", "L3"),
        scenarios.SAME,
        (Patch(Handshake, "report", _report_once),),
        omits="nothing is mounted or detached that should not be: a pod waits for ever",
    ),
    "B02b": Mutant(
        "whether a node uses the volume is read from a cache, not from the un-report's answer",
        "kubernetes/kubernetes#27836, #28095 (second phase)",
        ("S7", "S6"),
        scenarios.LAGGING,
        (Patch(AttachedLists, "unreport", _judge_the_cache),),
    ),
    "B04": Mutant(
        "an attachment whose detach is under way is used again",
        "kubernetes/kubernetes#32727, #53692",
        ("S7", "S6"),
        scenarios.STORAGE,
        (
            Patch(decide, "_about_attachment", _use_it_again),
            Patch(state, "_usable", lambda original: lambda attached, marked, deleting: attached),
            Patch(node_handshake, "_problem", always("")),
        ),
    ),
    "B08": Mutant(
        "after a restart only volumes that pods use are looked at",
        "kubernetes/kubernetes#34242",
        ("L3",),
        scenarios.AWAY,
        (Patch(AttachDetachController, "started", _start_from_pods), NO_SWEEP),
        omits="the disk stays attached where its record says, for ever",
    ),
    "B12": Mutant(
        "a detach that is still under way does not keep the volume from the next node",
        "kubernetes/kubernetes#93902",
        ("S8",),
        scenarios.MOVING,
        (Patch(decide, "_about_demand", _without(lambda each: each.deleting)),),
    ),
    "B13": Mutant(
        "a volume is detached although its node says that it uses it",
        "kubernetes/kubernetes#106710, #106902",
        ("S7",),
        scenarios.MOVING,
        (Patch(release, "has_let_go", always(True)), Patch(decide, "has_let_go", always(True))),
    ),
    "B16": Mutant(
        "a pod that has ended keeps its volume attached",
        "kubernetes/kubernetes#45191",
        ("L3", "L1"),
        scenarios.ENDING,
        (Patch(controller, "demands_of", _ended_pods_too),),
        omits="the disk stays attached where its record says, for a pod that does not run any more",
    ),
    "B20": Mutant(
        "no lock keeps a volume of one node from being attached to a second one by storage that does not refuse",
        "kubernetes/kubernetes#48953, #111799",
        ("S4", "S4'"),
        scenarios.UNLOCKED,
        (
            Patch(Attachability, "needs_lock", always(False)),
            Patch(Attachability, "several_nodes", always(True)),
        ),
    ),
    "B22": Mutant(
        "a VolumeAttachment is deleted whatever was written to it since it was judged",
        "kubernetes/kubernetes#124749; protocol rule R2",
        ("S7", "S6"),
        scenarios.STOP_AND_START,
        (Patch(Client, "delete", _unconditional),),
    ),
    "B65": Mutant(
        "after the un-report nothing is left that says where the volume is attached",
        "kubernetes/kubernetes#92145, #81097",
        ("S20'",),
        scenarios.CRASHING,
        (Patch(AttachDetachController, "_state", _only_what_is_listed),),
    ),
    "H4a": Mutant(
        "a VolumeAttachment whose PersistentVolume is gone is skipped when the controller starts",
        "kube-controller-manager 1.36 (hazard); kubernetes/kubernetes#29051",
        ("S20'",),
        scenarios.REMADE,
        (
            Patch(AttachDetachController, "started", _skip_at_start),
            Patch(AttachDetachController, "_state", _without_skipped),
        ),
    ),
    "H4b": Mutant(
        "a VolumeAttachment that a dead predecessor's late request created is not looked at",
        "kube-controller-manager 1.36 (hazard)",
        ("S20'",),
        scenarios.UNHEARD,
        (
            Patch(AttachDetachController, "started", _known_at_start),
            Patch(Handshake, "attach", _note_mine),
            Patch(AttachDetachController, "_state", _mine_only),
        ),
    ),
    "H4c": Mutant(
        "an attach of unknown outcome does not keep the volume from the next node",
        "kube-controller-manager 1.36 (hazard)",
        ("S8",),
        scenarios.STORAGE,
        (Patch(decide, "_about_demand", _without(lambda each: not each.attached)),),
    ),
    "X3": Mutant(
        "a volume counts as detached as soon as its detach is asked for",
        "protocol counterexample C15",
        ("S20'",),
        scenarios.STORAGE,
        (Patch(state, "is_detached", _as_soon_as_asked), Patch(locks, "is_detached", _as_soon_as_asked)),
    ),
}

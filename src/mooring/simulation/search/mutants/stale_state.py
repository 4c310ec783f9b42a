"""Mutants that take for true what was so once, and do not look again."""

# pyright: basic
# What is replaced is private to its owner and taken by name, whatever its type.
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from mooring.controllers.attachdetach.attached_lists import AttachedLists
from mooring.controllers.attachdetach.index import VolumeIndex
from mooring.controllers.attacher.controller import AttacherController
from mooring.kube.errors import KubeError
from mooring.kube.objects import Pod, VolumeAttachment
from mooring.node.volumes import handshake as node_handshake
from mooring.simulation.search.mutants import scenarios
from mooring.simulation.search.mutants.mutant import Mutant, Patch
from mooring.volumes.names import DETACHING


def _counts_as_made(original: Any) -> Any:
    async def change(self: Any, node_name: str, changes: Any) -> Any:
        try:
            return await original(self, node_name, changes)
        except KubeError:
            return [(not each.token, self._nodes.get(node_name)) for each in changes]

    return change


def _whatever_has_begun(original: Any) -> Any:
    def problem(record: VolumeAttachment, node_name: str) -> str:
        annotations = {name: text for name, text in record.metadata.annotations.items() if name != DETACHING}
        return original(
            replace(record, metadata=replace(record.metadata, annotations=annotations)), node_name
        )

    return problem


def _never(original: Any) -> Any:
    async def verify(self: Any) -> None:
        return

    return verify


def _that_remembers(original: Any) -> Any:
    """Knows the users of each volume, and learns of their end from a pod's own last event."""

    def init(self: Any, *args: Any, **given: Any) -> None:
        original(self, *args, **given)
        self._remembered = defaultdict[str, dict[str, Pod]](dict)

        def forget(old: Pod | None, new: Pod | None) -> None:
            if old is not None and (new is None or new.uid != old.uid or new.finished):
                for volume in self.of_pod(old):
                    self._remembered[volume].pop(old.uid, None)

        self.pods.add_handler(forget)

    return init


def _remembered(original: Any) -> Any:
    def users(self: Any, volume: str) -> Iterator[Pod]:
        known = self._remembered[volume]
        known |= {pod.uid: pod for pod in original(self, volume) if not pod.finished}
        yield from known.values()

    return users


MUTANTS: dict[str, Mutant] = {
    "B11": Mutant(
        "a write of what a node has attached counts as made although it failed, and a node does not look whether a"
        " detach has begun",
        "kubernetes/kubernetes#107973",
        ("S7", "S6"),
        scenarios.UNWRITTEN,
        (
            Patch(AttachedLists, "_change", _counts_as_made),
            Patch(node_handshake, "_problem", _whatever_has_begun),
        ),
    ),
    "B23": Mutant(
        "what is attached is not verified: a disk that the storage has taken away counts as attached for ever",
        "kubernetes/kubernetes#52735, #50200",
        ("L1",),
        scenarios.TAKEN_AWAY,
        (Patch(AttacherController, "_verify", _never),),
        omits="what is attached nowhere is not mounted, either: the pods that are to have it wait for ever",
    ),
    "B70": Mutant(
        "a pod that goes when its claim is gone already is not forgotten: its volume stays attached",
        "kubernetes/kubernetes#29051, #29077",
        ("L3",),
        scenarios.LATE_ENDS,
        (Patch(VolumeIndex, "__init__", _that_remembers), Patch(VolumeIndex, "users", _remembered)),
        omits="the disk stays attached where its record says, for a pod that is gone",
    ),
}

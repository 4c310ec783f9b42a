"""Which volume a VolumeAttachment stands for that another controller has made: docs/protocol.md, H4a.

Upstream's names a PersistentVolume, which may be gone, or another one by now; and its own name is made of the
volume's handle, its driver and the node (upstream's `getAttachmentName`), which stays true."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from mooring.controllers.attachdetach.adoption import Adoption
from mooring.kube.objects import Node, VolumeAttachment
from mooring.simulation.checks.second_opinions.memories import Memories
from mooring.simulation.checks.second_opinions.question import Question
from mooring.volumes.names import PLUGIN, VOLUME_NAME

CSI = "kubernetes.io/csi/"
NO_VOLUME = "^?"
"""In the name that stands for a volume that is not known."""


class Found:
    """What one adoption has said of VolumeAttachments that are there: of each its volume, by its uid; and
    those of which that is not known."""

    def __init__(self) -> None:
        self.volumes: dict[str, str] = {}
        self.unknown: dict[str, VolumeAttachment] = {}


_FOUND: Memories[Found] = Memories(Found)


def stands_for(
    answer: str, asked: Adoption, record: VolumeAttachment, node: Node | None = None
) -> Iterator[str]:
    """The volume that ours name themselves; of another's the one of which its name is made, or none that is
    known; and what was found once stays found: nothing that a VolumeAttachment says of its volume changes."""
    said = record.metadata.annotations
    if said.get(PLUGIN) and said.get(VOLUME_NAME):
        if answer not in ("", f"{said[PLUGIN]}/{said[VOLUME_NAME]}"):
            yield f"{record.name} names {said[VOLUME_NAME]}, and stands for {answer}"
        return
    found = _FOUND.of(asked)
    before, is_known = found.volumes.get(record.metadata.uid), bool(answer) and NO_VOLUME not in answer
    if before is not None and answer != before:
        yield f"{record.name} stood for {before}, and stands for {answer or 'none of ours'}"
    if is_known and _is_made_of_a_volume(record) and not _is_named_after(record, answer):
        yield f"{record.name} stands for {answer}, of which its name is not made"
    if answer and not is_known:
        yield from _in_sight(asked, record, node)
    if is_known and node is None:
        found.volumes[record.metadata.uid] = answer
        found.unknown.pop(record.metadata.uid, None)
    elif answer and node is None:
        found.unknown[record.metadata.uid] = record


def _in_sight(asked: Adoption, record: VolumeAttachment, newer: Node | None) -> Iterator[str]:
    """What tells the volume although its PersistentVolume is gone: the lists of its Node."""
    node = newer or vars(asked)["_get_node"](record.spec.node_name)
    if node is None:
        return
    for listed in (*node.status.volumes_in_use, *[each.name for each in node.status.volumes_attached]):
        if _is_named_after(record, listed):
            yield f"{record.name} stands for no volume that is known, and Node {node.name} lists {listed}"


def _is_made_of_a_volume(record: VolumeAttachment) -> bool:
    return record.name.startswith("csi-") and len(record.name) == len("csi-") + 64


def _is_named_after(record: VolumeAttachment, unique: str) -> bool:
    driver, _, handle = unique.removeprefix(CSI).partition("^")
    made_of = f"{handle}{driver}{record.spec.node_name}"
    return unique.startswith(CSI) and record.name == f"csi-{sha256(made_of.encode()).hexdigest()}"


def of_volume(answer: list[str], asked: Adoption, volume: str) -> Iterator[str]:
    """All that stand for the volume, also those of which that was not known before."""
    for record in _FOUND.of(asked).unknown.values():
        if _is_named_after(record, volume) and record.name not in answer:
            yield f"{record.name} is made of {volume}, and does not count as its own"
    if len(set(answer)) != len(answer):
        yield f"{volume} has one VolumeAttachment twice: {answer}"


def is_gone(answer: None, asked: Adoption, record: VolumeAttachment) -> tuple[()]:
    """Nothing stands for anything that does not exist any more."""
    _FOUND.of(asked).unknown.pop(record.metadata.uid, None)
    return ()


QUESTIONS = (
    Question(Adoption, "volume", stands_for),
    Question(Adoption, "names", of_volume),
    Question(Adoption, "forget", is_gone),
)

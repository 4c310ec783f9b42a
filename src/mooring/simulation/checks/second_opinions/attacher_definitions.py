"""What defines the volume of a VolumeAttachment: docs/protocol.md, C14 and C15; docs/csi.md.

Its own definition, or the PersistentVolume that it names. One with a lock is read live each time, and what is
to be detached needs neither where its notes say enough: its PersistentVolume may be gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from mooring.controllers.attacher.definitions import Definitions
from mooring.kube.objects import PersistentVolume, VolumeAttachment
from mooring.simulation.checks.second_opinions.memories import Memories
from mooring.simulation.checks.second_opinions.question import Question
from mooring.simulation.checks.second_opinions.server_requests import Mark, begins, found_live
from mooring.volumes.attachment_lock import ATTACHED_TO
from mooring.volumes.names import (
    ATTACH_EPOCH,
    ATTACH_REQUESTED_AT,
    ATTACHER,
    INLINE_VOLUME,
    VOLUME_NAME,
)
from mooring.volumes.spec import VolumeSpec

LOOKED_UP: Memories[Counter[str]] = Memories(Counter)
"""By uid: how often the definition was looked up."""


def lookup_begins(asked: Definitions, record: VolumeAttachment, **how: bool) -> Mark:
    LOOKED_UP.of(asked)[record.metadata.uid] += 1
    return begins()


def defined(
    answer: VolumeSpec, begun: Mark, asked: Definitions, record: VolumeAttachment, *, live: bool = False
) -> Iterator[str]:
    """What it defines itself; else the PersistentVolume of that name, read live where it has, or may have, a
    lock, or where that is asked for."""
    own = INLINE_VOLUME in record.metadata.annotations or record.spec.source.inline_volume_spec is not None
    name, volume = record.spec.source.persistent_volume_name, answer.persistent_volume
    if own:
        if volume is not None and volume.metadata.name:
            yield f"{record.name} defines its volume itself, and {volume.name} is taken"
        return
    if name is None or volume is None or volume.metadata.name != name:
        yield f"{record.name} is about PersistentVolume {name}, and {volume} is taken"
        return
    looked = found_live(begun, PersistentVolume, volume.metadata.name) != []
    locked = {ATTACH_EPOCH in record.metadata.annotations, ATTACHED_TO in volume.metadata.annotations}
    if (live or True in locked or vars(asked)["_cache"] is None) and not looked:
        yield f"{record.name}: PersistentVolume {name} is not read live"


def lookups(asked: Definitions, record: VolumeAttachment) -> int:
    return LOOKED_UP.of(asked)[record.metadata.uid]


def to_detach(
    answer: tuple[str, Any], before: int, asked: Definitions, record: VolumeAttachment
) -> Iterator[str]:
    """The name that was noted before the attach, and nothing else is asked for then."""
    notes = record.metadata.annotations
    if not answer[0] or notes.get(VOLUME_NAME, answer[0]) != answer[0]:
        yield f"{record.name} is about {notes.get(VOLUME_NAME)}, and {answer[0]} is to be detached"
    enough = VOLUME_NAME in notes and ATTACH_REQUESTED_AT in notes
    if enough != (lookups(asked, record) == before):
        yield f"{record.name}: its notes are {'' if enough else 'not '}enough: {dict(notes)}"


def noted(answer: dict[str, str], asked: Definitions, record: VolumeAttachment) -> Iterator[str]:
    """What a detach from a CSI driver needs; of a plugin's volumes that is there from the beginning."""
    if (record.spec.attacher == ATTACHER and answer) or (
        record.spec.attacher != ATTACHER and VOLUME_NAME not in answer
    ):
        yield f"{record.name}, of {record.spec.attacher}, gets the notes {answer}"


QUESTIONS = (
    Question(Definitions, "spec", defined, before=lookup_begins),
    Question(Definitions, "detacher", to_detach, before=lookups),
    Question(Definitions, "notes", noted),
)

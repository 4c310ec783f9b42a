"""Of what the attacher asks the storage whether it is attached: docs/invariants.md, S35 and S35'.

Of all that is attached by us, and of which no detach has begun; but for what nothing defines at the moment,
or no plugin of ours attaches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mooring.controllers.attacher.controller import AttacherController
from mooring.controllers.attacher.definitions import Definitions
from mooring.kube.errors import KubeError
from mooring.kube.objects import VolumeAttachment
from mooring.simulation.checks.second_opinions.attacher_steps import verified
from mooring.simulation.checks.second_opinions.memories import Memories
from mooring.simulation.checks.second_opinions.question import Question
from mooring.volumes.errors import VolumeError

FAILED: Memories[set[str]] = Memories(set)
"""Uids of VolumeAttachments of which it was found, since a verification began, that nothing says what they
are about."""


def looked_up(answer: object, asked: Definitions, record: VolumeAttachment, **how: bool) -> Iterable[str]:
    if isinstance(answer, Exception):
        FAILED.of(asked).add(record.metadata.uid)
    return ()


def _attached(asked: AttacherController) -> dict[str, VolumeAttachment]:
    """By uid, what is to be asked about."""
    parts = vars(asked)
    return {
        each.metadata.uid: each
        for each in parts["_records"].items()
        if not [*verified(True, each, parts["_ours"])]
    }


def begins(asked: AttacherController) -> dict[str, VolumeAttachment]:
    FAILED.of(vars(asked)["_definitions"]).clear()
    return _attached(asked)


def recorded(
    answer: Mapping[Any, Iterable[tuple[VolumeAttachment, Any]]],
    before: Mapping[str, VolumeAttachment],
    asked: AttacherController,
) -> Iterator[str]:
    """What was attached when it began, and still is, is asked about; what is not, is not."""
    parts, about = vars(asked), [record for each in answer.values() for record, _ in each]
    for record in about:
        yield from verified(True, record, parts["_ours"])
    left_out = before.keys() & _attached(asked).keys() - {each.metadata.uid for each in about}
    for uid in left_out - FAILED.of(parts["_definitions"]):
        yield f"the storage is not asked whether {before[uid].name} is attached"


QUESTIONS = (
    Question(AttacherController, "_recorded", recorded, before=begins),
    Question(Definitions, "plugin", looked_up, refusals=(VolumeError,)),
    Question(Definitions, "spec", looked_up, refusals=(VolumeError, KubeError)),
)

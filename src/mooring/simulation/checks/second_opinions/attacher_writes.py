"""What the attacher's writes to VolumeAttachments come to: docs/protocol.md, "Detach" and C15; upstream's
client-go, `retry.RetryOnConflict`: what was overtaken is computed anew, from what is there now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from mooring.controllers.attacher.writes import Writes
from mooring.kube.errors import Conflict
from mooring.kube.objects import VolumeAttachment
from mooring.simulation.checks.second_opinions.api_words import said_to
from mooring.simulation.checks.second_opinions.attacher_acts import shown
from mooring.simulation.checks.second_opinions.attacher_requests import known_since, times_on
from mooring.simulation.checks.second_opinions.question import Question
from mooring.volumes.names import ATTACH_REQUESTED_AT

TRIES = 5
"""As often as client-go tries a write that is overtaken (`retry.DefaultRetry`)."""

Patch = Callable[[VolumeAttachment], Mapping[str, Any] | None]


def begins(asked: Writes, record: VolumeAttachment, says: Patch, subresource: str = "") -> None:
    said_to(asked.client).anew(record)


def in_its_latest_version(
    answer: VolumeAttachment | Conflict | None,
    before: None,
    asked: Writes,
    record: VolumeAttachment,
    says: Patch,
    subresource: str = "",
) -> Iterator[str]:
    """It is looked at live whenever its write was overtaken. The write is given up after a few tries, or when
    the VolumeAttachment is gone, or needs none any more."""
    said = said_to(asked.client)
    tries = said.tries.pop(record.metadata.uid)
    if any(each == after for each, after in pairwise(tries)):
        yield f"{record.name} is written upon what was refused, without a look: {tries}"
    if isinstance(answer, Conflict) and tries.count("refused") != TRIES:
        yield f"{record.name} is given up after {tries}"
    live = said.live.get(record.metadata.name) or record
    if answer is None and not said.is_gone(record) and says(live if tries else record) is not None:
        yield f"{record.name} is there, and not written"


def withdrawn(
    answer: None, asked: Writes, record: VolumeAttachment, annotation: str, notes: Mapping[str, str] = {}
) -> Iterator[str]:
    """The latest request is answered, or not sent."""
    known, latest = shown(asked, record), times_on(record, annotation)[-1]
    if known is None:
        return
    if latest in times_on(known, annotation):
        yield f"{record.name}: its request of {latest} is over, and stays"
    if missing := notes.keys() - known.metadata.annotations.keys():
        yield f"{record.name}: {missing} were to be stored, too"


def stored(answer: VolumeAttachment, asked: Writes, record: VolumeAttachment, *what: Any) -> Iterator[str]:
    """What is written is known at once, with the requests that it names."""
    known = shown(asked, record)
    if known is not None and int(known.metadata.resource_version) < int(answer.metadata.resource_version):
        yield f"{record.name} was written, and is known as before: {known.metadata.resource_version}"
    since = known_since(vars(asked)["_ages"], record)
    if known is not None and not {*times_on(known, ATTACH_REQUESTED_AT)} <= since.keys():
        yield f"{record.name}: of its requests only {since} are known"


def detached(answer: VolumeAttachment, asked: Writes, record: VolumeAttachment) -> Iterator[str]:
    if answer.status.attached or answer.status.detach_error is not None:
        yield f"{record.name} is detached, and {answer.status} is stored"


def erased(answer: None, asked: Writes, record: VolumeAttachment, annotation: str) -> Iterator[str]:
    known = shown(asked, record)
    if known is not None and annotation in known.metadata.annotations:
        yield f"{record.name}: {annotation} is to be erased, and stays"


QUESTIONS = (
    Question(Writes, "_latest", in_its_latest_version, before=begins, refusals=(Conflict,)),
    Question(Writes, "withdraw", withdrawn),
    Question(Writes, "revise", stored),
    Question(Writes, "store_detached", detached),
    Question(Writes, "erase", erased),
)

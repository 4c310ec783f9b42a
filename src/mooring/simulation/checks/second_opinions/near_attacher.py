"""Near to the VolumeAttachments that the attacher carries out, and to the requests that it has sent for
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from random import Random
from typing import Any

from mooring.kube.objects.storage import VolumeError
from mooring.kube.times import format_micro_time
from mooring.simulation.checks.second_opinions.near import (
    ANOTHER,
    BOTH,
    ENDS,
    LONG_AGO,
    Fact,
    Near,
    changed,
    entry,
)
from mooring.volumes.attachment_lock import ATTACHED_TO, Lock, annotation
from mooring.volumes.names import ATTACH_EPOCH, ATTACH_REQUESTED_AT, ATTACHER_FINALIZER, DETACHING

Arguments = dict[str, Any]

_RECORD: tuple[Fact, ...] = (
    ("record.metadata.deletion_timestamp", ENDS),
    ("record.status.attached", BOTH),
    ("record.spec.attacher", (ANOTHER,)),
)
_ERROR: Fact = ("record.status.attach_error", (None, VolumeError(message="no")))
_EPOCH: Fact = ("record.metadata.annotations", entry(ATTACH_EPOCH, "1", "2"))
# --- the next step


def _noted(chance: Random, asked: Arguments) -> Arguments:
    """Our finalizer is there, or not, beside that of another."""
    ours: Mapping[str, str] = asked["ours"]
    finalizer = ours.get(asked["record"].spec.attacher, ATTACHER_FINALIZER)
    choices = ((), (ANOTHER,), (finalizer,), (ANOTHER, finalizer))
    return changed(chance, asked, "record.metadata.finalizers", choices)


STEPS = Near(
    (
        *_RECORD,
        _ERROR,
        ("", _noted),
        ("record.metadata.annotations", entry(ATTACH_REQUESTED_AT, LONG_AGO)),
        ("stored", BOTH),
    ),
    times=0.5,
)
MATTERS = Near((*_RECORD, _ERROR, _EPOCH, ("record.metadata.finalizers", ((), (ANOTHER,)))), times=0.05)
"""Of what a change is looked at for."""
LOCKS = Near(
    (
        _EPOCH,
        ("persistent_volume", (None,)),
        (
            "persistent_volume.metadata.annotations",
            entry(ATTACHED_TO, *(annotation(Lock(epoch=epoch))[ATTACHED_TO] for epoch in (1, 2))),
        ),
    ),
    times=2.0,
)
RECLAIMED = Near(
    (
        ("persistent_volume", (None,)),
        ("persistent_volume.status.phase", ("Available", "Bound", "Released", "Failed")),
        ("persistent_volume.spec.persistent_volume_reclaim_policy", ("Retain", "Delete", "Recycle")),
    ),
    times=2.0,
)
VERIFIED = Near((*_RECORD, ("record.metadata.annotations", entry(DETACHING, "true"))), times=0.5)
_TOLD: tuple[dict[str, str], ...] = ({}, {"devicePath": "/dev/a"}, {"devicePath": "/dev/b", "lun": "1"})
CORRECTED = Near((("record.status.attachment_metadata", _TOLD), ("said", (*BOTH, *_TOLD))), times=1.0)

# --- requests

_TIMES: Sequence[tuple[str, ...]] = ((), ("1",), ("1", "2"), ("2", "1", "2"))
"""Of requests: a time may be there twice, as clocks are set back."""
UNANSWERED = Near((("attaches", _TIMES), ("record.status.attached", BOTH)), times=1.0)
ANSWERED = Near((("sent", _TIMES), ("one", ("1", "2", "3"))), times=4.0)


def _of_now(chance: Random, asked: Arguments) -> Arguments:
    """Requests were sent at this very moment, or by a clock that was set back since."""
    stamps = [format_micro_time(asked["now"] + timedelta(microseconds=ahead)) for ahead in (0, 1, 9)]
    return {**asked, "sent": stamps[: chance.randint(0, 3)]}


BEGUN = Near((("", _of_now),), times=0.4)


def _known(chance: Random, asked: Arguments) -> Arguments:
    """Some are known from now on, others since so long that they may just, or no more, take effect."""
    ages = (0.0, asked["validity_s"] / 2, asked["validity_s"], 2 * asked["validity_s"])
    return {**asked, "since": [asked["now"] - chance.choice(ages) for _ in range(chance.randint(0, 3))]}


OUTSTANDING = Near((("", _known), ("validity_s", (0.0, 30.0, 600.0))), times=0.6)

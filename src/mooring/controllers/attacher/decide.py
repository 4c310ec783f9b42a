"""What to do about one VolumeAttachment. Pure.

The order is the safety: the finalizer and the time of the request are stored before the storage is asked, so whoever
comes after a crash knows that an attach may have happened; the finalizer goes only when the storage says "detached"
and nothing that was not answered can have an effect any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from mooring.kube.objects import VolumeAttachment
from mooring.kube.reason import Reason
from mooring.volumes.names import ATTACH_REQUESTED_AT, ATTACHER, ATTACHER_FINALIZER

PLUGINS: Mapping[str, str] = {ATTACHER: ATTACHER_FINALIZER}
"""Whose VolumeAttachments are carried out, with the finalizer of each: those of plugins."""


class Step(Enum):
    """The next step for a VolumeAttachment."""

    IGNORE = "Ignore"  # another attacher's, or nothing left to do
    STORE_INTENT = "StoreIntent"  # finalizer and time of request
    ATTACH = "Attach"
    DETACH = "Detach"
    SETTLED = "Settled"


def decide(record: VolumeAttachment, *, stored: bool = False, ours: Mapping[str, str] = PLUGINS) -> tuple[Step, Reason]:
    """The next step, and why. `stored`: the intent has just been stored, for this request. `ours`: the attachers' names
    that are carried out here, and their finalizers."""
    finalizer = ours.get(record.spec.attacher)
    if finalizer is None:
        return Step.IGNORE, Reason("OtherAttacher", f"is {record.spec.attacher}'s")
    held = finalizer in record.metadata.finalizers
    if record.deleting:
        if not held:
            return Step.IGNORE, Reason("NeverRequested", "is being deleted, and no attach was requested")
        return Step.DETACH, Reason("Deleted", "is being deleted")
    if record.status.attached:
        return Step.SETTLED, Reason("Attached", "is attached")
    if not (held and stored and ATTACH_REQUESTED_AT in record.metadata.annotations):
        return Step.STORE_INTENT, Reason("NotRequested", "this attach was not requested yet")
    return Step.ATTACH, Reason("Wanted", "is wanted and not known to be attached")

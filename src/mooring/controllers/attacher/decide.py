"""What to do about one VolumeAttachment. Pure.

The order makes it safe: the finalizer and the time of the request are stored before the storage is asked, so
that after a crash the next attacher knows that an attach may have happened. The finalizer goes only when the
storage has said "detached" and no unanswered request can take effect any more (docs/protocol.md C15).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from mooring.kube.decision import Decision
from mooring.kube.objects import VolumeAttachment
from mooring.kube.reason import Reason
from mooring.volumes.names import ATTACH_REQUESTED_AT, ATTACHER, ATTACHER_FINALIZER

PLUGINS: Mapping[str, str] = {ATTACHER: ATTACHER_FINALIZER}
"""The attachers' names (`spec.attacher`) that are carried out by default, with their
finalizers: plugin volumes."""


class Action(Enum):
    """The next step for a VolumeAttachment."""

    IGNORE = "Ignore"  # another attacher's, or being deleted without ever having been requested
    STORE_INTENT = "StoreIntent"  # the finalizer and the time of the request
    ATTACH = "Attach"
    DETACH = "Detach"
    FORGET_ERROR = "ForgetError"  # a write that came late: it is attached
    SETTLED = "Settled"


def decide(
    record: VolumeAttachment, *, stored: bool = False, ours: Mapping[str, str] = PLUGINS
) -> Decision[Action]:
    """Returns the next step. `stored`: the intent has just been stored, for this request. `ours`: the
    attachers' names that are carried out here, with their finalizers."""
    finalizer = ours.get(record.spec.attacher)
    if finalizer is None:
        return Decision(Action.IGNORE, Reason("OtherAttacher", f"is {record.spec.attacher}'s"))
    held = finalizer in record.metadata.finalizers
    if record.deleting:
        if not held:
            return Decision(
                Action.IGNORE, Reason("NeverRequested", "is being deleted, and no attach was requested")
            )
        return Decision(Action.DETACH, Reason("Deleted", "is being deleted"))
    if record.status.attached and record.status.attach_error is not None:
        return Decision(Action.FORGET_ERROR, Reason("Attached", "is attached, whatever went wrong before"))
    if record.status.attached:
        return Decision(Action.SETTLED, Reason("Attached", "is attached"))
    if not (held and stored and ATTACH_REQUESTED_AT in record.metadata.annotations):
        return Decision(Action.STORE_INTENT, Reason("NotRequested", "this attach was not requested yet"))
    return Decision(Action.ATTACH, Reason("Wanted", "is wanted and not known to be attached"))

"""What to do with an object whose owner is gone or being deleted, and with an owner that
waits for what it owns. Pure.

Rules of upstream's garbage collector: an object is deleted when none of its owners exists any more. An
owner that is deleted in the foreground stays until the dependents that block it are gone; an owner that is
deleted with orphans, until its dependents do not name it any more. An owner is known by its uid: another
object of its name is not the owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from mooring.kube.decision import Decision
from mooring.kube.objects import ObjectMeta, OwnerReference
from mooring.kube.printable import counted
from mooring.kube.reason import Reason

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class Action(Enum):
    """What to do with an object."""

    KEEP = "Keep"
    DELETE = "Delete"  # in the background: its own dependents are deleted afterwards
    DELETE_FOREGROUND = "DeleteForeground"  # an owner waits for it
    DROP_OWNERS = "DropOwners"  # some owners are gone, others are not: keep the references to the latter
    RELEASE_DEPENDENTS = "ReleaseDependents"  # remove the references to it from its dependents, which stay
    REMOVE_FINALIZER = "RemoveFinalizer"


@dataclass(frozen=True)
class Owner:
    """What is known of one owner. `present`: an object with the reference's uid exists."""

    reference: OwnerReference
    present: bool
    waits: bool = False
    """Whether it is being deleted in the foreground."""


class ObjectDecision(Decision[Action], frozen=True, gc=False):
    """What to do with one object. `finalizer`: the one that REMOVE_FINALIZER removes."""

    finalizer: str = ""


def decide(
    metadata: ObjectMeta, owners: Iterable[Owner], dependents: Mapping[str, OwnerReference]
) -> ObjectDecision:
    """Returns what to do. `dependents` are the objects that name this one as an owner, with
    the reference by which they do."""
    if metadata.deletion_timestamp is not None:
        return _about_owner(metadata, dependents)
    known = list(owners)
    if not known:
        return ObjectDecision(Action.KEEP, Reason("NoOwners", "has no owners"))
    absent = [owner for owner in known if not owner.present]
    solid = [owner for owner in known if owner.present and not owner.waits]
    waiting = [owner for owner in known if owner.present and owner.waits]
    if solid:
        names = ", ".join(_name(owner) for owner in solid)
        if absent or waiting:
            return ObjectDecision(
                Action.DROP_OWNERS, Reason("OwnersGone", f"only {names} is left of its owners")
            )
        return ObjectDecision(Action.KEEP, Reason("Owned", f"is owned by {names}"))
    if waiting:
        return ObjectDecision(
            Action.DELETE_FOREGROUND, Reason("OwnerWaits", f"{_name(waiting[0])} waits for its deletion")
        )
    return ObjectDecision(Action.DELETE, Reason("OwnersGone", f"its owner {_name(absent[0])} is gone"))


def _about_owner(metadata: ObjectMeta, dependents: Mapping[str, OwnerReference]) -> ObjectDecision:
    if ORPHAN in metadata.finalizers:
        if dependents:
            return ObjectDecision(
                Action.RELEASE_DEPENDENTS,
                Reason("Orphaning", f"named as owner by {counted(len(dependents), 'object')}"),
            )
        return ObjectDecision(
            Action.REMOVE_FINALIZER, Reason("Orphaned", "nothing names it as owner any more"), ORPHAN
        )
    if FOREGROUND in metadata.finalizers and not any(
        each.block_owner_deletion for each in dependents.values()
    ):
        return ObjectDecision(
            Action.REMOVE_FINALIZER, Reason("DependentsGone", "nothing that it owns is left"), FOREGROUND
        )
    return ObjectDecision(Action.KEEP, Reason("BeingDeleted", "is being deleted"))


def _name(owner: Owner) -> str:
    return f"{owner.reference.kind} {owner.reference.name}"

"""When an object is deleted with its owners, and when an owner waits for its dependents."""

from __future__ import annotations

import pytest

from mooring.controllers.cleanup.decide import FOREGROUND, ORPHAN, Action, Owner, decide
from mooring.kube.objects import ObjectMeta, OwnerReference

ALIVE = ObjectMeta(name="x", uid="x")
OWNER = OwnerReference(kind="StatefulSet", name="web", uid="o", block_owner_deletion=True)
OTHER = OwnerReference(kind="StatefulSet", name="other", uid="p")


def ending(*finalizers: str) -> ObjectMeta:
    return ObjectMeta(name="x", uid="x", deletion_timestamp="2030-01-01T00:00:00Z", finalizers=finalizers)


@pytest.mark.parametrize(
    ("owners", "action"),
    [
        ([], Action.KEEP),
        ([Owner(OWNER, True)], Action.KEEP),
        ([Owner(OWNER, False)], Action.DELETE),
        ([Owner(OWNER, False), Owner(OTHER, False)], Action.DELETE),
        ([Owner(OWNER, False), Owner(OTHER, True)], Action.DROP_OWNERS),
        ([Owner(OWNER, True, waits=True)], Action.DELETE_FOREGROUND),
        ([Owner(OWNER, True, waits=True), Owner(OTHER, True)], Action.DROP_OWNERS),
        ([Owner(OWNER, True, waits=True), Owner(OTHER, False)], Action.DELETE_FOREGROUND),
    ],
)
def test_an_object_stays_as_long_as_one_owner_stays(owners: list[Owner], action: Action) -> None:
    assert decide(ALIVE, owners, {}).action is action


def test_an_object_that_is_being_deleted_is_not_deleted_again() -> None:
    assert decide(ending(), [Owner(OWNER, False)], {}).action is Action.KEEP


def test_a_foreground_deletion_waits_for_dependents_that_block_it() -> None:
    blocking = {"y": OwnerReference(uid="x", block_owner_deletion=True)}
    harmless = {"y": OwnerReference(uid="x")}
    assert decide(ending(FOREGROUND), [], blocking).action is Action.KEEP
    for dependents in (harmless, {}):
        decision = decide(ending(FOREGROUND), [], dependents)
        assert (decision.action, decision.finalizer) == (Action.REMOVE_FINALIZER, FOREGROUND)


def test_an_orphaning_deletion_first_releases_its_dependents() -> None:
    dependents = {"y": OwnerReference(uid="x")}
    assert decide(ending(ORPHAN), [], dependents).action is Action.RELEASE_DEPENDENTS
    decision = decide(ending(ORPHAN), [], {})
    assert (decision.action, decision.finalizer) == (Action.REMOVE_FINALIZER, ORPHAN)

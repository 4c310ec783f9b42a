"""When an object goes with its owners, and when an owner waits for what it owns."""

from __future__ import annotations

import pytest

from mooring.controllers.cleanup.decide import FOREGROUND, ORPHAN, Act, Owner, decide
from mooring.kube.objects import ObjectMeta, OwnerReference

ALIVE = ObjectMeta(name="x", uid="x")
OWNER = OwnerReference(kind="StatefulSet", name="web", uid="o", block_owner_deletion=True)
OTHER = OwnerReference(kind="StatefulSet", name="other", uid="p")


def ending(*finalizers: str) -> ObjectMeta:
    return ObjectMeta(name="x", uid="x", deletion_timestamp="2030-01-01T00:00:00Z", finalizers=finalizers)


@pytest.mark.parametrize(
    ("owners", "act"),
    [
        ([], Act.KEEP),
        ([Owner(OWNER, True)], Act.KEEP),
        ([Owner(OWNER, False)], Act.DELETE),
        ([Owner(OWNER, False), Owner(OTHER, False)], Act.DELETE),
        ([Owner(OWNER, False), Owner(OTHER, True)], Act.DROP_OWNERS),
        ([Owner(OWNER, True, waits=True)], Act.DELETE_FOREGROUND),
        ([Owner(OWNER, True, waits=True), Owner(OTHER, True)], Act.DROP_OWNERS),
        ([Owner(OWNER, True, waits=True), Owner(OTHER, False)], Act.DELETE_FOREGROUND),
    ],
)
def test_an_object_stays_as_long_as_one_owner_stays(owners: list[Owner], act: Act) -> None:
    assert decide(ALIVE, owners, {}).act is act


def test_an_object_that_is_being_deleted_is_not_deleted_again() -> None:
    assert decide(ending(), [Owner(OWNER, False)], {}).act is Act.KEEP


def test_a_foreground_deletion_waits_for_dependents_that_block_it() -> None:
    blocking = {"y": OwnerReference(uid="x", block_owner_deletion=True)}
    harmless = {"y": OwnerReference(uid="x")}
    assert decide(ending(FOREGROUND), [], blocking).act is Act.KEEP
    for dependents in (harmless, {}):
        decision = decide(ending(FOREGROUND), [], dependents)
        assert (decision.act, decision.finalizer) == (Act.REMOVE_FINALIZER, FOREGROUND)


def test_an_orphaning_deletion_first_releases_its_dependents() -> None:
    dependents = {"y": OwnerReference(uid="x")}
    assert decide(ending(ORPHAN), [], dependents).act is Act.RELEASE_DEPENDENTS
    decision = decide(ending(ORPHAN), [], {})
    assert (decision.act, decision.finalizer) == (Act.REMOVE_FINALIZER, ORPHAN)

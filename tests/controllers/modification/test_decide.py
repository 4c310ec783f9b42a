"""What to do about a claim that asks for other attributes."""

from __future__ import annotations

import pytest

from mooring.controllers.modification.decide import Action, decide
from mooring.kube.objects import (
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    VolumeAttributesClass,
)
from mooring.kube.objects.persistentvolumes import ModifyVolumeStatus

DRIVER = "a.example.com"
GOLD = VolumeAttributesClass(metadata=ObjectMeta(name="gold"), driver_name=DRIVER)
OTHERS = VolumeAttributesClass(metadata=ObjectMeta(name="gold"), driver_name="b.example.com")


def claim(wants: str | None, has: str | None = None, target: str | None = None) -> PersistentVolumeClaim:
    under_way = (
        ModifyVolumeStatus(target_volume_attributes_class_name=target, status="InProgress")
        if target
        else None
    )
    return PersistentVolumeClaim(
        spec=PersistentVolumeClaimSpec(volume_attributes_class_name=wants),
        status=PersistentVolumeClaimStatus(
            phase="Bound", current_volume_attributes_class_name=has, modify_volume_status=under_way
        ),
    )


def volume(has: str | None) -> PersistentVolume:
    return PersistentVolume(spec=PersistentVolumeSpec(volume_attributes_class_name=has))


@pytest.mark.parametrize(
    ("asks", "has", "wanted", "action"),
    [
        (claim(None), None, None, Action.SETTLED),
        (claim("gold", "gold"), "gold", GOLD, Action.SETTLED),
        (claim("gold", "gold"), "gold", None, Action.SETTLED),
        (claim("gold", "gold", target="gold"), "gold", GOLD, Action.FINISH),
        (claim("gold", "gold", target="silver"), "gold", GOLD, Action.MODIFY),
        (claim("gold", "gold", target="silver"), "gold", None, Action.WAIT),
        (claim("gold", "gold", target="silver"), "gold", OTHERS, Action.WAIT),
        (claim("gold", "bronze", target="silver"), "gold", GOLD, Action.MODIFY),
        (claim("gold", "bronze", target="silver"), "gold", None, Action.WAIT),
        (claim("gold", None, target="gold"), "gold", None, Action.FINISH),
        (claim("gold"), None, None, Action.WAIT),
        (claim("gold"), None, OTHERS, Action.WAIT),
        (claim("gold"), None, GOLD, Action.BEGIN),
        (claim("gold", "silver", target="silver"), "silver", GOLD, Action.BEGIN),
        (claim("gold", "silver", target="gold"), "silver", GOLD, Action.MODIFY),
        (claim("gold", "silver", target="gold"), "gold", GOLD, Action.FINISH),
        (claim("gold"), "gold", GOLD, Action.FINISH),
    ],
)
def test_the_next_step(
    asks: PersistentVolumeClaim, has: str | None, wanted: VolumeAttributesClass | None, action: Action
):
    assert decide(asks, volume(has), wanted, DRIVER).action is action


def test_a_claim_whose_volume_can_have_no_attributes_is_told_so():
    decision = decide(claim("gold"), volume(None), GOLD, DRIVER, can_modify=False)
    assert decision.action is Action.REFUSE
    assert "no attributes" in decision.reason.message


def test_one_that_returns_to_what_it_has_is_done_where_nothing_else_can_have_been_made():
    assert decide(claim("gold", "gold", "silver"), volume("gold"), GOLD, DRIVER, can_modify=False).action is (
        Action.FINISH
    )

"""What to do about a claim that asks for other attributes."""

from __future__ import annotations

import pytest

from mooring.controllers.modification.decide import Step, decide
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
    under_way = ModifyVolumeStatus(target_volume_attributes_class_name=target, status="InProgress") if target else None
    return PersistentVolumeClaim(
        spec=PersistentVolumeClaimSpec(volume_attributes_class_name=wants),
        status=PersistentVolumeClaimStatus(
            phase="Bound", current_volume_attributes_class_name=has, modify_volume_status=under_way
        ),
    )


def volume(has: str | None) -> PersistentVolume:
    return PersistentVolume(spec=PersistentVolumeSpec(volume_attributes_class_name=has))


@pytest.mark.parametrize(
    ("asks", "has", "wanted", "step"),
    [
        (claim(None), None, None, Step.SETTLED),
        (claim("gold", "gold"), "gold", GOLD, Step.SETTLED),
        (claim("gold", "gold"), "gold", None, Step.SETTLED),
        (claim("gold", "gold", target="gold"), "gold", GOLD, Step.FINISH),
        (claim("gold"), None, None, Step.WAIT),
        (claim("gold"), None, OTHERS, Step.WAIT),
        (claim("gold"), None, GOLD, Step.BEGIN),
        (claim("gold", "silver", target="silver"), "silver", GOLD, Step.BEGIN),
        (claim("gold", "silver", target="gold"), "silver", GOLD, Step.MODIFY),
        (claim("gold", "silver", target="gold"), "gold", GOLD, Step.FINISH),
        (claim("gold"), "gold", GOLD, Step.FINISH),
    ],
)
def test_the_next_step(asks: PersistentVolumeClaim, has: str | None, wanted: VolumeAttributesClass | None, step: Step):
    assert decide(asks, volume(has), wanted, DRIVER)[0] is step

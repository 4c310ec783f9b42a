"""What to do about a claim that asks for more."""

from __future__ import annotations

import pytest

from mooring.controllers.expansion.decide import Action, decide
from mooring.kube.objects import (
    Condition,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    StorageClass,
    VolumeResourceRequirements,
)
from mooring.volumes.growth import (
    CONTROLLER_RESIZE_ERROR,
    FILE_SYSTEM_RESIZE_PENDING,
    RESIZING,
    condition,
    with_conditions,
)

GROWS, FIXED = StorageClass(allow_volume_expansion=True), StorageClass()


def claim(request: str, has: str, *conditions: str, phase: str = "Bound") -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name="c", namespace="default", uid="u"),
        spec=PersistentVolumeClaimSpec(resources=VolumeResourceRequirements(requests={"storage": request})),
        status=PersistentVolumeClaimStatus(
            phase=phase,
            capacity={"storage": has},
            conditions=tuple(Condition(type=type_, status="True") for type_ in conditions),
        ),
    )


def volume(size: str) -> PersistentVolume:
    return PersistentVolume(spec=PersistentVolumeSpec(capacity={"storage": size}))


CASES = [
    (claim("1Gi", "1Gi"), volume("1Gi"), GROWS, True, Action.SETTLED),
    (claim("1Gi", "2Gi"), volume("2Gi"), GROWS, True, Action.SETTLED),
    (claim("2Gi", "1Gi", phase="Pending"), volume("1Gi"), GROWS, True, Action.SETTLED),
    (claim("2Gi", "1Gi"), None, GROWS, True, Action.SETTLED),
    (claim("2Gi", "1Gi"), volume("1Gi"), FIXED, True, Action.REFUSE),
    (claim("2Gi", "1Gi"), volume("1Gi"), None, True, Action.REFUSE),
    (claim("2Gi", "1Gi"), volume("1Gi"), GROWS, True, Action.EXPAND),
    (claim("2Gi", "1Gi", RESIZING), volume("1Gi"), GROWS, True, Action.EXPAND),
    (claim("2Gi", "1Gi", RESIZING), volume("2Gi"), GROWS, True, Action.ASK_NODE),
    (claim("2Gi", "1Gi"), volume("2Gi"), FIXED, True, Action.ASK_NODE),
    (claim("2Gi", "1Gi", FILE_SYSTEM_RESIZE_PENDING), volume("2Gi"), GROWS, True, Action.SETTLED),
    (claim("3Gi", "1Gi", FILE_SYSTEM_RESIZE_PENDING), volume("2Gi"), GROWS, True, Action.EXPAND),
    (claim("2Gi", "1Gi", RESIZING), volume("2Gi"), GROWS, False, Action.FINISH),
    (claim("2Gi", "2Gi"), volume("2Gi"), GROWS, False, Action.SETTLED),
    (claim("2Gi", "1Gi", RESIZING), volume("2Gi"), GROWS, None, Action.EXPAND),
    (claim("2Gi", "1Gi", FILE_SYSTEM_RESIZE_PENDING), volume("2Gi"), GROWS, None, Action.SETTLED),
    (claim("2Gi", "2Gi"), volume("2Gi"), GROWS, None, Action.SETTLED),
]


@pytest.mark.parametrize(("asks", "pv", "of", "on_node", "action"), CASES)
def test_the_next_step(
    asks: PersistentVolumeClaim,
    pv: PersistentVolume | None,
    of: StorageClass | None,
    on_node: bool | None,
    action: Action,
):
    assert decide(asks, pv, of, on_node).action is action


def test_a_condition_about_the_size_replaces_the_one_before_and_leaves_others_alone():
    asks = claim("2Gi", "1Gi", "Other", RESIZING, CONTROLLER_RESIZE_ERROR)
    pending = with_conditions(asks, condition(FILE_SYSTEM_RESIZE_PENDING, "m", "t"))
    assert [each["type"] for each in pending] == ["Other", FILE_SYSTEM_RESIZE_PENDING]
    assert [each["type"] for each in with_conditions(asks)] == ["Other"]

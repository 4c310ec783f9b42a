"""What is written for a claim and for a volume."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from binding_scenes import (
    BOUND,
    CHOSEN,
    COMPLETED,
    DEFAULT,
    EBS,
    GROWN,
    HELD,
    RESIZER,
    SIZE,
    add_claim,
    add_class,
    add_pod,
    add_volume,
    on,
)
from controller_stage import ControllerStage, Play
from requests_sent import CHECKED, Step, Write, lose_each, writes

from mooring.controllers.binding.controller import Key
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim

CLAIM, VOLUME = ClaimKey("default/c"), VolumeKey("pv")
Scene = Callable[[ControllerStage], Awaitable[object]]
"""Sets up what there is."""


async def it_fits(stage: ControllerStage) -> None:
    await add_volume(stage)
    await add_claim(stage)


async def it_has_grown(stage: ControllerStage) -> None:
    await add_volume(stage, annotations=GROWN)
    await add_claim(stage)


async def each_names_the_other(stage: ControllerStage) -> None:
    await add_volume(stage, claimRef={"namespace": "default", "name": "c"})
    await add_claim(stage, volumeName="pv")


async def it_is_to_grow(stage: ControllerStage) -> None:
    reference = await add_claim(stage, BOUND, COMPLETED, size="2Gi", volumeName="pv")
    await add_volume(stage, "Bound", source=EBS, claimRef=reference)


async def it_has_named_its_resizer(stage: ControllerStage) -> None:
    reference = await add_claim(stage, BOUND, {**COMPLETED, **RESIZER}, volumeName="pv")
    await add_volume(stage, "Bound", source=EBS, claimRef=reference)


async def a_class_makes_it(stage: ControllerStage, provisioner: str = "example.com/disk") -> None:
    await add_class(stage, provisioner, {})
    await add_claim(stage, storageClassName="disk")


async def a_former_in_tree_class_makes_it(stage: ControllerStage) -> None:
    await a_class_makes_it(stage, "kubernetes.io/aws-ebs")


async def it_is_older_than_the_default_class(stage: ControllerStage) -> None:
    await add_claim(stage, storageClassName=None)
    await add_class(stage, "example.com/disk", DEFAULT)


async def its_class_is_missing(stage: ControllerStage) -> None:
    await add_claim(stage, storageClassName="missing")


async def it_waits_as_if_it_were_lost(stage: ControllerStage) -> None:
    await add_claim(stage, {"phase": "Lost"})


async def its_volume_is_gone(stage: ControllerStage) -> None:
    await add_claim(stage, BOUND, COMPLETED, volumeName="pv")


async def its_protection_is_gone(stage: ControllerStage) -> None:
    await add_claim(stage, held=HELD[:1])


async def it_ends(stage: ControllerStage) -> None:
    await add_claim(stage, held=HELD[:2])
    await stage.api.delete(PersistentVolumeClaim, "c", "default")


async def it_ends_unprotected(stage: ControllerStage) -> None:
    await add_claim(stage, held=HELD[:1])
    await stage.api.delete(PersistentVolumeClaim, "c", "default")


async def it_ends_in_use(stage: ControllerStage) -> None:
    """Its volume was made again meanwhile."""
    await add_claim(stage, BOUND, COMPLETED, volumeName="pv")
    await add_pod(stage)
    await stage.api.delete(PersistentVolumeClaim, "c", "default")
    await add_volume(stage)


def patch(path: str, metadata: dict[str, Any] | None = None, **body: Any) -> Write:
    return "PATCH", path, {**body, "metadata": {**CHECKED, **(metadata or {})}}


def binding(
    of_volume: dict[str, str], of_claim: dict[str, str], capacity: dict[str, str] | None = None
) -> list[Write]:
    """The four writes; with which annotations beside that it is complete."""
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": "c"}
    status = {**BOUND, "capacity": capacity or SIZE, "currentVolumeAttributesClassName": None}
    return [
        patch(
            "persistentvolumes/pv", {"annotations": of_volume}, spec={"claimRef": {**reference, **CHECKED}}
        ),
        phase("Bound"),
        patch(
            "persistentvolumeclaims/c",
            {"annotations": {**COMPLETED, **of_claim}},
            spec={"volumeName": "pv"},
        ),
        patch("persistentvolumeclaims/c/status", status=status),
    ]


def phase(phase: str) -> Write:
    return patch("persistentvolumes/pv/status", status={"phase": phase, "message": None})


def of_claim(**metadata: Any) -> Write:
    return patch("persistentvolumeclaims/c", metadata)


def asked(provisioner: str) -> Write:
    names = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
    return of_claim(annotations=dict.fromkeys(names, provisioner))


def without_volume(phase: str) -> Write:
    status = {"accessModes": None, "capacity": None, "currentVolumeAttributesClassName": None}
    return patch("persistentvolumeclaims/c/status", status={**status, "phase": phase})


CLAIMS: list[tuple[Scene, list[Write]]] = [
    (it_fits, binding(CHOSEN, CHOSEN)),
    (it_has_grown, binding(CHOSEN, CHOSEN, {"storage": "500Mi"})),
    (each_names_the_other, binding({}, {})),
    (it_is_to_grow, [of_claim(annotations=RESIZER)]),
    (it_has_named_its_resizer, []),
    (a_class_makes_it, [asked("example.com/disk")]),
    (a_former_in_tree_class_makes_it, [asked("ebs.csi.aws.com")]),
    (
        it_is_older_than_the_default_class,
        [patch("persistentvolumeclaims/c", spec={"storageClassName": "disk"})],
    ),
    (its_class_is_missing, []),
    (it_waits_as_if_it_were_lost, [without_volume("Pending")]),
    (its_volume_is_gone, [without_volume("Lost")]),
    (its_protection_is_gone, [of_claim(finalizers=[*HELD[:2]])]),
    (it_ends, [of_claim(finalizers=[HELD[0]])]),
    (it_ends_unprotected, []),
    (it_ends_in_use, binding(CHOSEN, {})[:2]),
]


async def it_is_new(stage: ControllerStage) -> None:
    await add_volume(stage, "")


async def its_claim_is_gone(stage: ControllerStage) -> None:
    await add_volume(stage, "Bound", claimRef={"namespace": "default", "name": "c", "uid": "gone"})


async def its_claim_has_another(stage: ControllerStage) -> None:
    reference = await add_claim(stage, volumeName="other")
    await add_volume(stage, "Bound", CHOSEN, claimRef=reference)


async def it_lacks_its_protection(stage: ControllerStage) -> None:
    await add_volume(stage, held=HELD[:1])


async def it_is_deleted(stage: ControllerStage) -> None:
    await add_volume(stage, held=(HELD[0], HELD[2]))
    await stage.api.delete(PersistentVolume, "pv")


async def it_is_deleted_unprotected(stage: ControllerStage) -> None:
    await add_volume(stage, held=HELD[:1])
    await stage.api.delete(PersistentVolume, "pv")


async def it_is_deleted_and_bound(stage: ControllerStage) -> None:
    """The claim has not been told yet that its binding is complete."""
    reference = await add_claim(stage, volumeName="pv")
    await add_volume(stage, "Bound", claimRef=reference)
    await stage.api.delete(PersistentVolume, "pv")


VOLUMES: list[tuple[Scene, list[Write]]] = [
    (it_is_new, [phase("Available")]),
    (its_claim_is_gone, [phase("Released")]),
    (
        its_claim_has_another,
        [
            patch(
                "persistentvolumes/pv",
                {"annotations": dict.fromkeys(CHOSEN)},
                spec={"claimRef": None},
            ),
            phase("Available"),
        ],
    ),
    (it_lacks_its_protection, [patch("persistentvolumes/pv", {"finalizers": [HELD[0], HELD[2]]})]),
    (it_is_deleted, [patch("persistentvolumes/pv", {"finalizers": [HELD[0]]})]),
    (it_is_deleted_unprotected, []),
    (it_is_deleted_and_bound, []),
]
SCENES = [
    pytest.param(key, scene, expected, id=f"{key.name} {scene.__name__}".replace("_", " "))
    for key, scenes in ((CLAIM, CLAIMS), (VOLUME, VOLUMES))
    for scene, expected in scenes
]


@pytest.mark.parametrize(("key", "scene", "expected"), SCENES)
def test_what_is_written_is_refused_upon_anything_but_what_was_read(
    play: Play, key: Key, scene: Scene, expected: list[Write]
):
    async def story(stage: ControllerStage):
        await scene(stage)
        controller = await on(stage)
        sent = writes(stage.wire)
        await controller.reconcile(key)
        assert sent == expected

    play(story)


@pytest.mark.parametrize(("key", "scene", "expected"), SCENES)
def test_what_is_done_is_not_written_again(play: Play, key: Key, scene: Scene, expected: list[Write]):
    async def story(stage: ControllerStage):
        await scene(stage)
        controller = await on(stage)
        for _ in range(2):  # a claim that has got the default class is asked for by then
            await controller.reconcile(key)
        sent = writes(stage.wire)
        await controller.reconcile(key)
        assert sent == []

    play(story)


@pytest.mark.parametrize(("key", "scene", "expected"), SCENES)
def test_a_key_comes_back_whichever_of_its_requests_has_no_answer(
    play: Play, key: Key, scene: Scene, expected: list[Write]
):
    """Else what was left undone would stay so until something else changed."""

    async def begin(stage: ControllerStage) -> Step:
        await scene(stage)
        controller = await on(stage)
        return lambda: controller.reconcile(key)

    lose_each(play, begin)

"""What a claim that gets no volume says of it, and what a bound one that has none any more."""

from __future__ import annotations

from typing import Any

import pytest
from binding_scenes import BOUND, COMPLETED, DEFAULT, MODES, SIZE, add_claim, add_class, add_volume, on
from controller_stage import ControllerStage, Play
from requests_sent import marked, told, writes

from mooring.kube.errors import Conflict
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import PersistentVolumeClaim, PersistentVolumeClaimStatus, StorageClass

CLAIM = ClaimKey("default/c")


@pytest.mark.parametrize(
    "wrong",
    [
        {"phase": "Lost"},
        {"phase": "Bound"},
        {"phase": "Pending", "accessModes": MODES},
        {"phase": "Pending", "capacity": SIZE},
    ],
)
def test_the_status_of_a_claim_that_waits_speaks_of_no_volume(play: Play, wrong: dict[str, Any]):
    async def story(stage: ControllerStage):
        await add_claim(stage, wrong)
        await (await on(stage)).reconcile(CLAIM)
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert claim.status == PersistentVolumeClaimStatus(phase="Pending")

    play(story)


def test_a_claim_that_is_pending_already_is_not_written(play: Play):
    async def story(stage: ControllerStage):
        await add_claim(stage, {"phase": "Pending"})
        controller, sent = await on(stage), writes(stage.wire)
        await controller.reconcile(CLAIM)
        assert sent == []

    play(story)


@pytest.mark.parametrize(
    ("status", "annotations", "spec", "type_", "reason", "message"),
    [
        (
            {}, {}, {}, "Normal", "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set",
        ),
        (
            {}, {}, {"storageClassName": None}, "Normal", "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set",
        ),
        (
            {}, {}, {"storageClassName": "missing"}, "Warning", "ProvisioningFailed",
            'storageclass.storage.k8s.io "missing" not found: create it, or name another class',
        ),
        (
            {}, {}, {"volumeName": "pv"}, "Warning", "FailedBinding",
            "volume pv that the claim names does not exist",
        ),
        (
            BOUND, COMPLETED, {"volumeName": "pv"}, "Warning", "ClaimLost",
            "bound claim has lost its volume pv",
        ),
        (
            {"phase": "Lost"}, COMPLETED, {"volumeName": "pv"}, "Warning", "ClaimLost",
            "bound claim has lost its volume pv",
        ),
        (
            BOUND, COMPLETED, {}, "Warning", "ClaimLost",
            "bound claim has lost reference to its volume",
        ),
    ],
)  # fmt: skip
def test_a_claim_says_once_why_it_has_no_volume(
    play: Play, status: dict[str, Any], annotations: dict[str, str], spec: dict[str, Any], type_: str,
    reason: str, message: str,
):  # fmt: skip
    async def story(stage: ControllerStage):
        await add_claim(stage, status, annotations, **spec)
        controller = await on(stage)
        for _ in range(2):
            await controller.reconcile(CLAIM)
        assert await told(stage, controller) == [("PersistentVolumeClaim c", type_, reason, message)]

    play(story)


def test_a_claim_says_that_it_waits_for_its_provisioner_and_is_asked_for_once(play: Play):
    async def story(stage: ControllerStage):
        await add_class(stage, "example.com/disk", {})
        await add_claim(stage, storageClassName="disk")
        controller, sent = await on(stage), writes(stage.wire)
        for _ in range(2):
            await controller.reconcile(CLAIM)
        assert len(sent) == 1
        message = "waiting for a volume to be created by example.com/disk"
        expected = ("PersistentVolumeClaim c", "Normal", "ExternalProvisioning", message)
        assert await told(stage, controller) == [expected]

    play(story)


def test_a_claim_of_no_class_waits_for_the_default_one_only_if_it_leaves_the_choice(play: Play):
    """The class "" is that of volumes without one."""

    async def story(stage: ControllerStage):
        await add_class(stage, "example.com/disk", DEFAULT)
        await add_claim(stage, storageClassName="")
        controller, sent = await on(stage), writes(stage.wire)
        await controller.reconcile(CLAIM)
        assert sent == []

    play(story)


def test_a_claim_gets_no_class_that_is_the_default_one_no_more(play: Play):
    """It would keep it for good. The binder's watch of classes is late."""

    async def story(stage: ControllerStage):
        await add_claim(stage, storageClassName=None)
        await add_class(stage, "example.com/disk", DEFAULT)
        controller = await on(stage)
        mistaken = {"metadata": {"annotations": dict.fromkeys(DEFAULT)}}
        await stage.api.patch(StorageClass, "disk", mistaken)
        with pytest.raises(Conflict):
            await controller.reconcile(CLAIM)
        await controller.reconcile(CLAIM)
        claim = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert claim.spec.storage_class_name is None

    play(story)


def test_a_volume_of_another_mode_than_its_claim_tells_both(play: Play):
    async def story(stage: ControllerStage):
        reference = await add_claim(stage)
        await add_volume(stage, volumeMode="Block", claimRef=reference)
        controller = await on(stage)
        await controller.reconcile(VolumeKey("pv"))
        message = "volume pv has volumeMode Block, claim default/c asks for Filesystem"
        assert await told(stage, controller) == [
            ("PersistentVolume pv", "Warning", "VolumeMismatch", message),
            ("PersistentVolumeClaim c", "Warning", "VolumeMismatch", message),
        ]
        assert await marked(controller) == []

    play(story)


def test_a_claim_whose_volume_is_another_claims_by_now_has_lost_it(play: Play):
    async def story(stage: ControllerStage):
        await add_claim(stage, BOUND, COMPLETED, volumeName="pv")
        controller = await on(stage)  # which does not know the volume yet
        await add_volume(stage, "Bound", claimRef={"namespace": "default", "name": "other", "uid": "o"})
        await controller.reconcile(CLAIM)
        assert (await stage.api.get(PersistentVolumeClaim, "c", "default")).status.phase == "Lost"

    play(story)

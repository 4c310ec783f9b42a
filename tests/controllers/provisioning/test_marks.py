"""Which claims and volumes a change marks, and when they are tried again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from msgspec.structs import replace
from provisioning_scenes import released
from requests_sent import marked

from mooring.controllers.provisioning.controller import Key, ProvisioningController
from mooring.kube.client import WatchEvent
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import (
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    StorageClass,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeAttachmentStatus,
)

VOLUME = VolumeKey("pv")


def claim(name: str, of_class: str | None) -> PersistentVolumeClaim:
    metadata = ObjectMeta(name=name, namespace="default", uid=name)
    return PersistentVolumeClaim(
        metadata=metadata, spec=PersistentVolumeClaimSpec(storage_class_name=of_class)
    )


def attachment(of: str | None, *, attached: bool = False) -> VolumeAttachment:
    source = VolumeAttachmentSource(persistent_volume_name=of)
    return VolumeAttachment(
        metadata=ObjectMeta(name="va", uid="va"),
        spec=VolumeAttachmentSpec(attacher="a", node_name="n", source=source),
        status=VolumeAttachmentStatus(attached=attached),
    )


CLAIMS = (claim("c", "disk"), claim("other", "tape"), claim("none", None))
DISK = StorageClass(metadata=ObjectMeta(name="disk"), provisioner="p")


@pytest.mark.parametrize(
    ("known", "changes", "expected"),
    [
        pytest.param([], [CLAIMS[0]], [ClaimKey("default/c")], id="a claim itself"),
        pytest.param([], [PersistentVolume(metadata=ObjectMeta(name="pv"))], [VOLUME], id="a volume itself"),
        pytest.param(CLAIMS, [DISK], [ClaimKey("default/c")], id="the claims of a class"),
        pytest.param([], [attachment("pv")], [VOLUME], id="the volume of an attachment"),
        pytest.param([], [attachment(None)], [], id="none for an attachment of a pod's own volume"),
        pytest.param(
            [], [attachment("pv"), attachment("pv", attached=True)], [], id="none while it is attached"
        ),
    ],
)
def test_a_change_marks(play: Play, known: list[Any], changes: list[Any], expected: list[Key]):
    async def story(stage: ControllerStage):
        controller = stage.make(ProvisioningController, plugins=stage.plugins())
        for version, each in enumerate((*known, *changes), 1):
            if version > len(known):
                await marked(controller)
            metadata = replace(each.metadata, resource_version=str(version))
            event = WatchEvent("MODIFIED", replace(each, metadata=metadata), str(version))
            controller.cache(type(each)).apply(event)
        assert await marked(controller) == expected

    play(story)


@pytest.mark.parametrize("key", [ClaimKey("default/c"), VOLUME])
def test_a_key_of_what_is_gone_needs_no_work(play: Play, key: Key):
    async def story(stage: ControllerStage):
        await stage.make(ProvisioningController, plugins=stage.plugins()).reconcile(key)
        assert stage.wire.sent == []

    play(story)


async def attach(stage: ControllerStage) -> VolumeAttachment:
    spec = {"attacher": "plugins.mooring.dev", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
    return await stage.api.create(VolumeAttachment, {"metadata": {"name": "va"}, "spec": spec})


def test_a_volume_that_is_in_use_is_tried_again_a_little_later(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage)
        await attach(stage)  # of which the cache does not know
        await marked(controller)
        await controller.reconcile(VOLUME)
        assert controller.queue.is_delayed(VOLUME)
        await asyncio.sleep(1)
        assert await marked(controller) == [VOLUME]

    play(story)


def test_a_volume_that_is_known_to_be_attached_waits_for_its_detach(play: Play):
    async def story(stage: ControllerStage):
        controller = await released(stage)
        controller.cache(VolumeAttachment).accept(await attach(stage))
        await marked(controller)
        await controller.reconcile(VOLUME)
        assert VOLUME not in controller.queue
        assert not any("GET" in each and "volumeattachments" in each for each in stage.wire.sent)
        gone = WatchEvent("DELETED", await stage.api.get(VolumeAttachment, "va"), "1000")
        controller.cache(VolumeAttachment).apply(gone)
        assert await marked(controller) == [VOLUME]

    play(story)

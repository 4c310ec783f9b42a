"""Which keys a change marks: those about which it could decide otherwise, and no others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from binding_scenes import CHOSEN, COMPLETED, DEFAULT, add_claim, add_class, add_volume, on
from claims_and_volumes import claim, volume
from controller_stage import ControllerStage, Play
from msgspec.structs import replace
from requests_sent import marked

from mooring.controllers.binding.controller import BindingController, Key
from mooring.kube.client import WatchEvent
from mooring.kube.errors import NotFound
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import (
    Object,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    Pod,
    StorageClass,
)
from mooring.kube.objects.pods import PodSpec, PodStatus
from mooring.kube.objects.volumes import PersistentVolumeClaimVolumeSource, Volume
from mooring.simulation.parts.faulty_transport import request

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def named(name: str, given: Any) -> Any:
    return replace(given, metadata=replace(given.metadata, name=name))


def of(name: str, pv: PersistentVolume) -> PersistentVolume:
    """A volume that names this claim."""
    return replace(pv, spec=replace(pv.spec, claim_ref=ObjectReference(namespace="ns", name=name, uid="u")))


def disk_class(**annotations: str) -> StorageClass:
    return StorageClass(metadata=ObjectMeta(name="disk", annotations=annotations), provisioner="p")


def pod(node: str = "", phase: str = "") -> Pod:
    """A pod with the claims c and d."""
    volumes = tuple(
        Volume(name=name, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=name))
        for name in ("c", "d")
    )
    return Pod(
        metadata=ObjectMeta(name="p", namespace="ns", uid="p"),
        spec=PodSpec(node_name=node, volumes=volumes),
        status=PodStatus(phase=phase),
    )


WAITING = named("waiting", claim())
OF_OTHER_CLASS = named("of-other", claim(storage_class_name="other"))
OF_NO_CLASS = named("of-none", claim(storage_class_name=None))
WITH_VOLUME = named("bound", claim(annotations=BOUND, volume_name="pv"))
FREE = volume()
C, D, PV, OTHER = ClaimKey("ns/c"), ClaimKey("ns/d"), VolumeKey("pv"), VolumeKey("other")
W, N, B = ClaimKey("ns/waiting"), ClaimKey("ns/of-none"), ClaimKey("ns/bound")


async def after(stage: ControllerStage, known: list[Object], *changes: Object) -> list[Key]:
    """What these changes mark, of objects that the watches bring one after the other."""
    controller = stage.make(BindingController)
    for version, each in enumerate((*known, *changes), 1):
        if version > len(known):
            await marked(controller)
        metadata = replace(each.metadata, resource_version=str(version))
        event = WatchEvent("MODIFIED", replace(each, metadata=metadata), str(version))
        controller.cache(type(each)).apply(event)
    return sorted(await marked(controller), key=str)


@pytest.mark.parametrize(
    ("known", "changes", "expected"),
    [
        pytest.param([], [claim()], [C], id="a claim itself"),
        pytest.param(
            [of("c", named("other", FREE))],
            [claim(volume_name="pv")],
            [C, OTHER, PV],
            id="the volumes that name a claim, and the one that it names",
        ),
        pytest.param(
            [WAITING, OF_OTHER_CLASS, OF_NO_CLASS, WITH_VOLUME],
            [FREE],
            [B, W, PV],
            id="with a free volume, the claim that has it, and those that wait for one of its class",
        ),
        pytest.param([WAITING], [of("c", FREE)], [C, PV], id="with a volume, the claim that it names"),
        pytest.param([WAITING], [volume(phase="")], [PV], id="none that waits, with a volume not yet free"),
        pytest.param([WAITING], [FREE, of("c", FREE)], [C, PV], id="none that waits, when a volume is taken"),
        pytest.param(
            [WAITING], [of("c", FREE), FREE], [C, W, PV], id="those that wait, when a volume is free again"
        ),
        pytest.param(
            [], [of("c", FREE), of("d", FREE)], [C, D, PV], id="both claims that a volume has named"
        ),
        pytest.param(
            [WAITING, OF_OTHER_CLASS, OF_NO_CLASS, named("bound", WITH_VOLUME)],
            [disk_class()],
            [W],
            id="with a class, the claims of it that wait",
        ),
        pytest.param(
            [WAITING, OF_OTHER_CLASS, OF_NO_CLASS],
            [disk_class(**DEFAULT)],
            [N, W],
            id="with a default class, those of none, too",
        ),
        pytest.param([], [pod()], [C, D], id="the claims of a pod"),
        pytest.param([], [pod(), pod(node="n")], [C, D], id="the claims of a pod that gets its node"),
        pytest.param([], [pod("n"), pod("n", "Running")], [], id="none for a pod whose phase changes"),
    ],
)
def test_a_change_marks(play: Play, known: list[Object], changes: list[Object], expected: list[Key]):
    async def story(stage: ControllerStage):
        assert await after(stage, known, *changes) == expected

    play(story)


@pytest.mark.parametrize("key", [C, PV])
def test_a_key_of_what_is_gone_needs_no_work(play: Play, key: Key):
    async def story(stage: ControllerStage):
        await stage.make(BindingController).reconcile(key)
        assert stage.wire.sent == []

    play(story)


def test_a_binding_marks_its_volume_alone(play: Play):
    """Each of its four writes would mark the claim and the volume again, while it goes on."""

    async def story(stage: ControllerStage):
        await add_volume(stage)
        await add_claim(stage)
        controller = await on(stage)
        await controller.reconcile(ClaimKey("default/c"))
        assert await marked(controller) == [VolumeKey("pv")]

    play(story)


def test_a_volume_that_is_available_now_marks_the_claims_that_wait(play: Play):
    async def story(stage: ControllerStage):
        await add_volume(stage, phase="")
        await add_claim(stage)
        controller = await on(stage)
        await controller.reconcile(VolumeKey("pv"))
        assert await marked(controller) == [VolumeKey("pv"), ClaimKey("default/c")]

    play(story)


def test_a_volume_that_is_taken_from_its_claim_marks_both(play: Play):
    async def story(stage: ControllerStage):
        reference = await add_claim(stage, annotations=COMPLETED, volumeName="another")
        await add_volume(stage, "Bound", CHOSEN, claimRef=reference)
        controller = await on(stage)
        await controller.reconcile(VolumeKey("pv"))
        assert await marked(controller) == [VolumeKey("pv"), ClaimKey("default/c")]

    play(story)


def test_a_claim_that_has_got_its_class_is_looked_at_again(play: Play):
    async def story(stage: ControllerStage):
        await add_claim(stage, storageClassName=None)
        await add_class(stage, "example.com/disk", DEFAULT)
        controller = await on(stage)
        await controller.reconcile(ClaimKey("default/c"))
        assert await marked(controller) == [ClaimKey("default/c")]

    play(story)


def test_a_binding_to_a_volume_that_has_gone_meanwhile_is_decided_anew(play: Play):
    async def story(stage: ControllerStage):
        await add_volume(stage, held=())
        await add_claim(stage)
        controller = await on(stage)
        binding = stage.wire.hold(request("PATCH", "persistentvolumes/pv"))
        working = asyncio.create_task(controller.reconcile(ClaimKey("default/c")))
        await binding.arrived.wait()
        await stage.api.delete(PersistentVolume, "pv")
        gone = controller.cache(PersistentVolume).get("pv")
        controller.cache(PersistentVolume).apply(WatchEvent("DELETED", gone, "1000"))
        binding.release()
        with pytest.raises(NotFound):  # so that it is decided again soon
            await working

    play(story)

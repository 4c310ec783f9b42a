"""Protection is removed after live reads only, and an interrupted binding is completed from
wherever it stopped."""

from __future__ import annotations

import pytest
from controller_stage import ControllerStage, Play
from requests_sent import marked

from mooring.controllers.binding.controller import BindingController
from mooring.kube.errors import Unreachable
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, Pod
from mooring.simulation.parts.array_plugin import DISK


async def free_volume(stage: ControllerStage) -> None:
    """The PersistentVolume pv, of 1Gi, which no claim has."""
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "flexVolume": {"driver": DISK, "options": {"disk": "d"}},
    }
    await stage.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": spec})
    available = {"status": {"phase": "Available"}}
    await stage.api.patch(PersistentVolume, "pv", available, subresource="status")


async def claim(stage: ControllerStage, name: str = "c") -> PersistentVolumeClaim:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return await stage.api.create(
        PersistentVolumeClaim, {"metadata": {"name": name}, "spec": spec}, "default"
    )


async def with_volume_for_its_claim(stage: ControllerStage) -> BindingController:
    """One whose cache has a claim, and a volume that names it; the claim does not name that yet."""
    wanted = await claim(stage)
    reference = {"namespace": "default", "name": wanted.name, "uid": wanted.uid}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": reference}
    source = {"flexVolume": {"driver": DISK, "options": {"disk": "d"}}}
    await stage.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": {**spec, **source}})
    controller = stage.make(BindingController)
    controller.cache(PersistentVolumeClaim).accept(wanted, tell=False)
    controller.cache(PersistentVolume).accept(await stage.api.get(PersistentVolume, "pv"), tell=False)
    return controller


async def bound(stage: ControllerStage) -> None:
    """The claim c, bound to the PersistentVolume pv."""
    await free_volume(stage)
    await claim(stage)
    controller = stage.make(BindingController)
    await stage.fill(controller, PersistentVolume, PersistentVolumeClaim)
    await controller.reconcile(ClaimKey("default/c"))


async def stripped(stage: ControllerStage) -> None:
    """A user deletes the PersistentVolume, and takes its protection away."""
    await stage.api.delete(PersistentVolume, "pv")
    await stage.api.patch(PersistentVolume, "pv", {"metadata": {"finalizers": None}})


async def pod_with(stage: ControllerStage, claim: str) -> None:
    """The pod p, on a node, with that claim."""
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim}}
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
    await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")


def test_a_claim_keeps_its_protection_while_a_pod_uses_it_that_the_cache_does_not_know(play: Play):
    async def story(stage: ControllerStage):
        await claim(stage)
        await pod_with(stage, "c")
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        controller = stage.make(BindingController)
        controller.cache(PersistentVolumeClaim).accept(
            await stage.api.get(PersistentVolumeClaim, "c", "default")
        )
        await controller.reconcile(ClaimKey("default/c"))
        assert await stage.api.find(PersistentVolumeClaim, "c", "default") is not None
        await stage.api.delete(Pod, "p", "default", grace_period_seconds=0)
        await controller.reconcile(ClaimKey("default/c"))
        assert await stage.api.find(PersistentVolumeClaim, "c", "default") is None

    play(story)


def test_a_protection_that_could_not_be_removed_is_removed_by_the_next_try(play: Play):
    async def story(stage: ControllerStage):
        await claim(stage)
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        controller = stage.make(BindingController)
        await stage.fill(controller, PersistentVolumeClaim)
        stage.wire.lose(lambda request: request.method == "PATCH")
        with pytest.raises(Unreachable):  # so that the key comes back
            await controller.reconcile(ClaimKey("default/c"))
        assert await stage.api.find(PersistentVolumeClaim, "c", "default") is not None
        await controller.reconcile(ClaimKey("default/c"))
        assert await stage.api.find(PersistentVolumeClaim, "c", "default") is None

    play(story)


def test_a_volume_that_names_a_claim_which_names_none_yet_brings_the_claim_up(play: Play):
    async def story(stage: ControllerStage):
        controller = await with_volume_for_its_claim(stage)
        assert ClaimKey("default/c") not in controller.queue
        await controller.reconcile(VolumeKey("pv"))
        assert ClaimKey("default/c") in controller.queue

    play(story)


@pytest.mark.parametrize("source", ["ephemeral", "persistentVolumeClaim"])
def test_a_foreground_deletion_of_a_pod_waits_for_its_ephemeral_claims_and_they_do_not_wait_for_it(
    play: Play, source: str
):
    """A pod that its node has let go is only waiting to be removed; in a foreground deletion, for its
    claims."""

    async def story(stage: ControllerStage):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await stage.api.create(PersistentVolumeClaim, {"metadata": {"name": "p-v"}, "spec": spec}, "default")
        given = {
            "ephemeral": {"volumeClaimTemplate": {"spec": spec}},
            "persistentVolumeClaim": {"claimName": "p-v"},
        }
        volume = {"name": "v", source: given[source]}
        pod = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
        metadata = {"name": "p", "finalizers": ["foregroundDeletion"]}
        await stage.api.create(Pod, {"metadata": metadata, "spec": pod}, "default")
        await stage.api.delete(Pod, "p", "default", grace_period_seconds=0)
        assert (await stage.api.get(Pod, "p", "default")).metadata.deletion_grace_period_seconds == 0
        await stage.api.delete(PersistentVolumeClaim, "p-v", "default")
        controller = stage.make(BindingController)
        await stage.fill(controller, PersistentVolumeClaim, Pod)
        await controller.reconcile(ClaimKey("default/p-v"))
        gone = await stage.api.find(PersistentVolumeClaim, "p-v", "default") is None
        assert gone is (source == "ephemeral")

    play(story)


def test_a_claim_whose_binding_failed_waits_for_its_backoff_when_its_volume_is_looked_at(play: Play):
    async def story(stage: ControllerStage):
        await free_volume(stage)
        await claim(stage)
        controller, key = stage.make(BindingController), ClaimKey("default/c")
        for fault in (stage.wire.lose, stage.wire.unanswered):  # the claimRef is not written; or it is
            await stage.fill(controller, PersistentVolume, PersistentVolumeClaim)
            fault(lambda request: request.method == "PATCH" and "/persistentvolumes/" in request.path)
            with pytest.raises(Unreachable):
                await controller.reconcile(key)
            controller.queue.add_backoff(key)  # as for whatever raises
            await stage.fill(controller, PersistentVolume)
            controller.queue.add_backoff(key)
            await controller.reconcile(VolumeKey("pv"))
            assert controller.queue.is_delayed(key)

    play(story)


def test_a_claim_that_is_being_tried_is_not_marked_when_its_volume_is_looked_at(play: Play):
    """Each change of a claim marks its volume, too: a try that was refused would be repeated at once. Found
    by the simulation (seed 30541 of the swarm)."""

    async def story(stage: ControllerStage):
        controller, key = await with_volume_for_its_claim(stage), ClaimKey("default/c")
        controller.queue.add(key)
        assert await controller.queue.get() == key
        await controller.reconcile(VolumeKey("pv"))
        controller.queue.add_backoff(key)  # as for whatever raises
        controller.queue.done(key)
        assert controller.queue.is_delayed(key)
        assert len(controller.queue) == 0

    play(story)


def test_a_claim_whose_binding_failed_does_not_wake_others_that_failed(play: Play):
    async def story(stage: ControllerStage):
        await free_volume(stage)
        for name in ("c", "other"):
            await claim(stage, name)
        controller = stage.make(BindingController)
        await stage.fill(controller, PersistentVolume, PersistentVolumeClaim)
        other = ClaimKey("default/other")
        controller.queue.add_backoff(other)
        stage.wire.lose(lambda request: request.method == "PATCH")
        with pytest.raises(Unreachable):
            await controller.reconcile(ClaimKey("default/c"))
        assert controller.queue.is_delayed(other)

    play(story)


def test_a_binding_that_lost_any_of_its_four_answers_is_finished(play: Play):
    async def story(stage: ControllerStage):
        await free_volume(stage)
        await claim(stage)
        for _ in range(5):
            controller = stage.make(BindingController)  # a new one each time, with fresh caches
            controller.cache(PersistentVolume).accept(await stage.api.get(PersistentVolume, "pv"))
            controller.cache(PersistentVolumeClaim).accept(
                await stage.api.get(PersistentVolumeClaim, "c", "default")
            )
            stage.wire.unanswered(lambda request: request.method == "PATCH")
            try:
                await controller.reconcile(ClaimKey("default/c"))
            except Unreachable:
                continue
        pv = await stage.api.get(PersistentVolume, "pv")
        bound = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert (pv.status.phase, bound.status.phase) == ("Bound", "Bound")
        assert (pv.spec.claim_ref.uid, bound.spec.volume_name) == (bound.uid, "pv")

    play(story)


@pytest.mark.parametrize("shown", ["gone", "another claim's"])
def test_a_claim_has_not_lost_its_volume_because_a_late_cache_says_so(play: Play, shown: str):
    """Found by the simulation: its pods would be stopped; and of two controllers at once, one of which knew
    better, each undid what the other one wrote."""

    async def story(stage: ControllerStage):
        await free_volume(stage)
        former = await claim(stage, "former")
        taken = {"spec": {"claimRef": {"namespace": "default", "name": "former", "uid": former.uid}}}
        await stage.api.patch(PersistentVolume, "pv", taken)
        late = stage.make(BindingController)
        if shown != "gone":
            await stage.fill(late, PersistentVolume)
        await stage.api.patch(PersistentVolume, "pv", {"spec": {"claimRef": None}})
        await claim(stage)
        controller = stage.make(BindingController)
        await stage.fill(controller, PersistentVolume, PersistentVolumeClaim)
        controller.cache(PersistentVolumeClaim)._objects.pop("default/former")
        await controller.reconcile(ClaimKey("default/c"))
        await stage.fill(late, PersistentVolumeClaim)
        await marked(late)
        await late.reconcile(ClaimKey("default/c"))
        bound = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert (bound.status.phase, bound.spec.volume_name) == ("Bound", "pv")
        assert ClaimKey("default/c") in late.queue, "it is decided about anew"

    play(story)


def test_a_claim_whose_volume_is_gone_has_lost_it(play: Play):
    async def story(stage: ControllerStage):
        await bound(stage)
        await stripped(stage)
        controller = stage.make(BindingController)
        await stage.fill(controller, PersistentVolumeClaim)
        await controller.reconcile(ClaimKey("default/c"))
        assert (await stage.api.get(PersistentVolumeClaim, "c", "default")).status.phase == "Lost"

    play(story)


@pytest.mark.parametrize("phase", ["Bound", "Lost"])
def test_a_claim_that_ends_has_its_volume_until_no_pod_uses_it(play: Play, phase: str):
    """Found by the simulation: a volume that was made again was free for any claim, and the pods that used it
    waited for ever."""

    async def story(stage: ControllerStage):
        await bound(stage)
        await pod_with(stage, "c")
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        await stripped(stage)
        if phase == "Bound":
            await free_volume(stage)
        controller = stage.make(BindingController)
        await stage.fill(controller, PersistentVolume, PersistentVolumeClaim, Pod)
        await controller.reconcile(ClaimKey("default/c"))
        ending = await stage.api.get(PersistentVolumeClaim, "c", "default")
        assert (ending.deleting, ending.status.phase) == (True, phase)
        if phase == "Bound":
            assert (await stage.api.get(PersistentVolume, "pv")).spec.claim_ref.uid == ending.uid

    play(story)


def test_a_claim_that_ends_is_not_bound_for_the_first_time(play: Play):
    async def story(stage: ControllerStage):
        await free_volume(stage)
        await claim(stage)
        await pod_with(stage, "c")
        await stage.api.delete(PersistentVolumeClaim, "c", "default")
        controller = stage.make(BindingController)
        await stage.fill(controller, PersistentVolume, PersistentVolumeClaim, Pod)
        await controller.reconcile(ClaimKey("default/c"))
        assert (await stage.api.get(PersistentVolume, "pv")).spec.claim_ref is None

    play(story)


def test_a_volume_that_was_made_again_and_deleted_stays_for_the_claim_that_has_it(play: Play):
    """Found by the simulation: the volume was looked at before the claim had been bound to it anew."""

    async def story(stage: ControllerStage):
        await bound(stage)
        protected = {"metadata": {"finalizers": ["kubernetes.io/pv-protection"]}}
        await stripped(stage)
        await free_volume(stage)
        await stage.api.patch(PersistentVolume, "pv", protected)
        await stage.api.delete(PersistentVolume, "pv")
        controller = stage.make(BindingController)
        await stage.fill(controller, PersistentVolume, PersistentVolumeClaim)
        await marked(controller)
        await controller.reconcile(VolumeKey("pv"))
        assert await stage.api.find(PersistentVolume, "pv") is not None
        assert ClaimKey("default/c") in controller.queue
        await controller.reconcile(ClaimKey("default/c"))
        assert (await stage.api.get(PersistentVolume, "pv")).status.phase == "Bound"

    play(story)

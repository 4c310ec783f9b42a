"""Claims that wait for their first consumer: a pod gets volumes for all of them, or none is reserved."""

from __future__ import annotations

import asyncio

from controller_stage import ControllerStage, Play

from mooring.controllers.scheduling.controller import SchedulingController
from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from mooring.volumes.matching import BIND_COMPLETED


async def prepare(
    stage: ControllerStage, claims: dict[str, str], volumes: dict[str, str], mode: str = "ReadWriteOnce"
) -> None:
    """A node, a class that makes nothing, a pod with these claims, and these volumes: names
    with their sizes."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    await stage.api.create(Node, {"metadata": {"name": "n"}, "status": ready})
    kept = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    await stage.api.create(StorageClass, {"metadata": {"name": "kept"}, **kept})
    for name, size in claims.items():
        spec = {
            "storageClassName": "kept",
            "accessModes": [mode],
            "resources": {"requests": {"storage": size}},
        }
        await stage.api.create(PersistentVolumeClaim, {"metadata": {"name": name}, "spec": spec}, "default")
    for name, size in volumes.items():
        await add_volume(stage, name, size)
    mounts = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": mounts}
    await stage.api.create(Pod, {"metadata": {"name": "p"}, "spec": spec}, "default")


async def add_volume(stage: ControllerStage, name: str, size: str, on: str = "") -> None:
    of_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [of_node]}]}}}
    spec = {
        "storageClassName": "kept",
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": f"/{name}"},
        **(affinity if on else {}),
    }
    await stage.api.create(PersistentVolume, {"metadata": {"name": name}, "spec": spec})
    await stage.api.patch(PersistentVolume, name, {"status": {"phase": "Available"}}, subresource="status")


async def reserved(stage: ControllerStage) -> dict[str, str]:
    """Volumes by the claims that they are reserved for."""
    volumes = (await stage.api.list(PersistentVolume)).items
    return {pv.spec.claim_ref.name: pv.name for pv in volumes if pv.spec.claim_ref}


async def settled(stage: ControllerStage) -> dict[str, str]:
    task = asyncio.create_task(stage.make(SchedulingController).run())
    await asyncio.sleep(300)
    task.cancel()
    return await reserved(stage)


def test_nothing_is_reserved_for_a_pod_of_whose_claims_one_cannot_be_satisfied(play: Play):
    async def story(stage: ControllerStage):
        await prepare(stage, {"a": "1Gi", "b": "1Gi"}, {"only": "5Gi"})
        assert await settled(stage) == {}
        await add_volume(stage, "second", "5Gi")
        assert await settled(stage) == {"a": "only", "b": "second"}

    play(story)


def test_the_smaller_claim_chooses_first_and_takes_the_volume_that_it_wastes_least_of(play: Play):
    async def story(stage: ControllerStage):
        await prepare(stage, {"large": "5Gi", "small": "1Gi"}, {"x": "9Gi", "y": "5Gi"})
        assert await settled(stage) == {"small": "y", "large": "x"}

    play(story)


async def bound(stage: ControllerStage, mode: str = "ReadWriteOnce") -> PersistentVolumeClaim:
    """Pod p's claim a, bound to volume v."""
    await prepare(stage, {"a": "1Gi"}, {"v": "1Gi"}, mode)
    completed = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}, "spec": {"volumeName": "v"}}
    await stage.api.patch(PersistentVolumeClaim, "a", completed, "default")
    status = {"status": {"phase": "Bound"}}
    return await stage.api.patch(PersistentVolumeClaim, "a", status, "default", subresource="status")


async def knows(stage: ControllerStage, claim: PersistentVolumeClaim) -> SchedulingController:
    """A scheduler whose caches have everything, and this claim."""
    controller = stage.make(SchedulingController)
    controller.cache(Node).accept(await stage.api.get(Node, "n"))
    controller.cache(StorageClass).accept(await stage.api.get(StorageClass, "kept"))
    controller.cache(PersistentVolume).accept(await stage.api.get(PersistentVolume, "v"))
    controller.cache(Pod).accept(await stage.api.get(Pod, "p", "default"))
    controller.cache(PersistentVolumeClaim).accept(claim)
    return controller


async def delete_claim(stage: ControllerStage) -> None:
    await stage.api.patch(PersistentVolumeClaim, "a", {"metadata": {"finalizers": None}}, "default")
    await stage.api.delete(PersistentVolumeClaim, "a", "default")


def test_a_pod_is_bound_when_its_claims_are(play: Play):
    async def story(stage: ControllerStage):
        controller = await knows(stage, await bound(stage))
        await controller.reconcile("default/p")
        assert (await stage.api.get(Pod, "p", "default")).spec.node_name == "n"

    play(story)


def test_a_pod_is_not_bound_for_a_claim_that_was_made_again_and_a_node_is_chosen_for_that_one(play: Play):
    async def story(stage: ControllerStage):
        former = await bound(stage)
        await delete_claim(stage)
        spec = {
            "storageClassName": "kept",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        await stage.api.create(PersistentVolumeClaim, {"metadata": {"name": "a"}, "spec": spec}, "default")
        controller = await knows(stage, former)
        await controller.reconcile("default/p")
        assert not (await stage.api.get(Pod, "p", "default")).spec.node_name
        await controller.reconcile("default/p")
        assert await reserved(stage) == {"a": "v"}

    play(story)


def test_a_pod_is_not_bound_for_a_claim_that_is_gone(play: Play):
    async def story(stage: ControllerStage):
        former = await bound(stage)
        await delete_claim(stage)
        await (await knows(stage, former)).reconcile("default/p")
        assert not (await stage.api.get(Pod, "p", "default")).spec.node_name

    play(story)


def test_a_pod_is_not_bound_for_a_claim_that_is_being_deleted_and_is_told_so(play: Play):
    async def story(stage: ControllerStage):
        former = await bound(stage)
        await stage.api.delete(PersistentVolumeClaim, "a", "default")
        controller = await knows(stage, former)
        await controller.reconcile("default/p")
        await controller.reconcile("default/p")
        pod = await stage.api.get(Pod, "p", "default")
        assert not pod.spec.node_name
        assert [each.message for each in pod.status.conditions] == [
            'persistentvolumeclaim "a" is being deleted'
        ]

    play(story)


def test_a_pod_gets_the_claim_of_one_that_was_followed_unseen_by_another_of_its_name(play: Play):
    """A watch that was broken tells of both at once: the name is there as before."""

    async def story(stage: ControllerStage):
        claim = await bound(stage, "ReadWriteOncePod")
        volumes = [{"name": "a", "persistentVolumeClaim": {"claimName": "a"}}]
        containers = [{"name": "c", "image": "i"}]
        spec = {"containers": containers, "volumes": volumes, "nodeName": "n"}
        await stage.api.create(Pod, {"metadata": {"name": "first"}, "spec": spec}, "default")
        scheduler = await knows(stage, claim)
        scheduler.cache(Pod).accept(await stage.api.get(Pod, "first", "default"))
        working = asyncio.create_task(scheduler.queue.run(1, scheduler.reconcile))
        await asyncio.sleep(60)
        assert not (await stage.api.get(Pod, "p", "default")).spec.node_name
        await stage.api.delete(Pod, "first", "default", grace_period_seconds=0)
        spec = {"containers": containers}
        await stage.api.create(Pod, {"metadata": {"name": "first"}, "spec": spec}, "default")
        scheduler.cache(Pod).accept(await stage.api.get(Pod, "first", "default"))
        await asyncio.sleep(60)
        working.cancel()
        assert (await stage.api.get(Pod, "p", "default")).spec.node_name == "n"

    play(story)


def test_pods_that_keep_apart_do_so_while_their_claims_are_being_bound(play: Play):
    """A pod has no node yet when the next one is looked at, and its volumes keep it where they are."""

    async def story(stage: ControllerStage):
        nodes = ("n1", "n2")
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        kept = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
        await stage.api.create(StorageClass, {"metadata": {"name": "kept"}, **kept})
        for name in nodes:
            labels = {"kubernetes.io/hostname": name}
            await stage.api.create(Node, {"metadata": {"name": name, "labels": labels}, "status": ready})
            for number in "ab":
                await add_volume(stage, f"{name}{number}", "1Gi", on=name)
        for name in ("p1", "p2"):
            await add_pod_with_claim(stage, name, {"app": "db"})
        taken = await settled(stage)
        assert sorted(volume[:2] for volume in taken.values()) == ["n1", "n2"]

    play(story)


async def add_pod_with_claim(stage: ControllerStage, name: str, apart_from: dict[str, str]) -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": apart_from}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    claim = {
        "storageClassName": "kept",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    await stage.api.create(PersistentVolumeClaim, {"metadata": {"name": name}, "spec": claim}, "default")
    spec = {
        "affinity": {"podAntiAffinity": required},
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
    }
    await stage.api.create(Pod, {"metadata": {"name": name, "labels": apart_from}, "spec": spec}, "default")


def test_a_scheduler_that_starts_leaves_what_its_predecessor_said_of_a_pod_that_waits(play: Play):
    async def story(stage: ControllerStage):
        await prepare(stage, {"a": "1Gi"}, {})
        await settled(stage)
        before = await stage.api.get(Pod, "p", "default")
        assert [(each.type, each.reason) for each in before.status.conditions] == [
            ("PodScheduled", "Unschedulable")
        ]
        await settled(stage)
        assert await stage.api.get(Pod, "p", "default") == before

    play(story)

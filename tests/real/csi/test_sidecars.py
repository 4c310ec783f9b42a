"""Any sidecar: upstream's drive `disk.mooring.dev`, ours run as processes, on the real API server and on
ours; what one has begun the other one ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any

import pytest

from mooring.kube.errors import NotFound
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from mooring.kube.objects.snapshots import VolumeSnapshot, VolumeSnapshotClass, VolumeSnapshotContent

from .conftest import NAME, SIZE, Ground

pytestmark = [pytest.mark.root, pytest.mark.timeout(170)]

ATTACHERS: dict[str, Callable[[Ground], AbstractContextManager[Any]]] = {
    "theirs": lambda ground: ground.theirs("csi-attacher", "--http-endpoint="),
    "ours": lambda ground: ground.ours("attacher"),
}


async def want(ground: Ground) -> None:
    spec = {"attacher": NAME, "nodeName": ground.name, "source": {"persistentVolumeName": ground.name}}
    await ground.client.create(VolumeAttachment, {"metadata": {"name": ground.name}, "spec": spec})


async def is_attached(ground: Ground) -> bool:
    return (await ground.client.get(VolumeAttachment, ground.name)).status.attached


async def gone(ground: Ground, kind: Any, name: str, namespace: str = "") -> bool:
    return await ground.client.find(kind, name, namespace) is None


@pytest.mark.parametrize("last", ATTACHERS)
@pytest.mark.parametrize("first", ATTACHERS)
async def test_what_one_attaches_any_detaches(ground: Ground, first: str, last: str) -> None:
    disk = await ground.volume()
    await want(ground)
    with ExitStack() as stack:
        stack.enter_context(ATTACHERS[first](ground))
        await ground.until("it is attached", lambda: is_attached(ground))
        assert ground.attached() == {disk: [ground.name]}
        if first != last:
            stack.close()
            stack.enter_context(ATTACHERS[last](ground))
        await ground.client.delete(VolumeAttachment, ground.name)
        await ground.until("it is detached", lambda: gone(ground, VolumeAttachment, ground.name))
        assert ground.attached() == {disk: []}
        await ground.client.delete(PersistentVolume, ground.name)
        await unprotect(ground, PersistentVolume, ground.name)
        await ground.until("the volume is gone", lambda: gone(ground, PersistentVolume, ground.name))


async def unprotect(ground: Ground, kind: Any, name: str, namespace: str = "") -> None:
    """Removes the finalizers that admission adds and that no controller removes here."""
    finalizers = ["kubernetes.io/pv-protection", "kubernetes.io/pvc-protection"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers}}
    with suppress(NotFound):
        await ground.client.patch(kind, name, patch, namespace, strategy="strategic")


async def bound_claim(ground: Ground) -> None:
    """A claim of the test's volume, as a binder leaves it."""
    of_class = {"metadata": {"name": ground.name}, "provisioner": NAME, "allowVolumeExpansion": True}
    await ground.client.create(StorageClass, of_class)
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": str(SIZE)}}}
    spec = {**asked, "volumeName": ground.name, "storageClassName": ground.name}
    body = {
        "metadata": {"name": ground.name, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": spec,
    }
    claim = await ground.client.create(PersistentVolumeClaim, body, "default")
    reference = {
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": ground.name,
        "uid": claim.uid,
    }
    patch = {"spec": {"claimRef": reference, "storageClassName": ground.name}}
    await ground.client.patch(PersistentVolume, ground.name, patch)
    await ground.client.patch(
        PersistentVolume, ground.name, {"status": {"phase": "Bound"}}, subresource="status"
    )
    status = {"phase": "Bound", "capacity": {"storage": str(SIZE)}, "accessModes": ["ReadWriteOnce"]}
    await ground.client.patch(
        PersistentVolumeClaim, ground.name, {"status": status}, "default", subresource="status"
    )


@pytest.mark.parametrize("whose", ["theirs", "ours"])
async def test_a_claim_grows_up_to_the_nodes_part(ground: Ground, whose: str) -> None:
    disk = await ground.volume()
    await bound_claim(ground)
    role = ground.theirs("csi-resizer", "--http-endpoint=") if whose == "theirs" else ground.ours("resizer")
    with role:
        more = {"spec": {"resources": {"requests": {"storage": str(2 * SIZE)}}}}
        await ground.client.patch(PersistentVolumeClaim, ground.name, more, "default")
        await ground.until("the volume has grown", lambda: has_grown(ground))
        await ground.until("the node is asked", lambda: waits_for_node(ground))
    assert ground.array.list()[disk].size == 2 * SIZE


async def has_grown(ground: Ground) -> bool:
    pv = await ground.client.get(PersistentVolume, ground.name)
    return pv.spec.capacity["storage"] in (str(2 * SIZE), "32Mi")


async def waits_for_node(ground: Ground) -> bool:
    claim = await ground.client.get(PersistentVolumeClaim, ground.name, "default")
    return any(each.type == "FileSystemResizePending" for each in claim.status.conditions)


SNAPSHOT_CONTROLLERS: dict[str, Callable[[Ground], AbstractContextManager[Any]]] = {
    "theirs": lambda ground: ground.theirs(
        "snapshot-controller", "--feature-gates=CSIVolumeGroupSnapshot=false"
    ),
    "ours": lambda ground: ground.controller("snapshots"),
}
SNAPSHOTTERS: dict[str, Callable[[Ground], AbstractContextManager[Any]]] = {
    "theirs": lambda ground: ground.theirs("csi-snapshotter", "--http-endpoint="),
    "ours": lambda ground: ground.ours("snapshotter"),
}


@pytest.mark.parametrize("second", SNAPSHOTTERS)
@pytest.mark.parametrize("first", SNAPSHOT_CONTROLLERS)
async def test_a_snapshot_gets_ready_and_goes(ground: Ground, first: str, second: str) -> None:
    disk = await ground.volume()
    await bound_claim(ground)
    of_class = {"metadata": {"name": ground.name}, "driver": NAME, "deletionPolicy": "Delete"}
    await ground.client.create(VolumeSnapshotClass, of_class)
    with SNAPSHOT_CONTROLLERS[first](ground), SNAPSHOTTERS[second](ground):
        source = {"persistentVolumeClaimName": ground.name}
        spec = {"source": source, "volumeSnapshotClassName": ground.name}
        body = {"metadata": {"name": ground.name}, "spec": spec}
        await ground.client.create(VolumeSnapshot, body, "default")
        await ground.until("it is ready", lambda: is_ready(ground))
        taken = (await ground.client.get(VolumeSnapshot, ground.name, "default")).status
        assert taken.bound_volume_snapshot_content_name is not None
        content = await ground.client.get(VolumeSnapshotContent, taken.bound_volume_snapshot_content_name)
        assert content.spec.source.volume_handle == disk
        assert snapshots(ground) == [content.status.snapshot_handle]
        await ground.client.delete(VolumeSnapshot, ground.name, "default")
        await ground.until("it is gone", lambda: gone(ground, VolumeSnapshot, ground.name, "default"))
        await ground.until("so is its content", lambda: gone(ground, VolumeSnapshotContent, content.name))
    assert snapshots(ground) == []


async def is_ready(ground: Ground) -> bool:
    return (await ground.client.get(VolumeSnapshot, ground.name, "default")).status.ready_to_use


def snapshots(ground: Ground) -> list[str]:
    folder = ground.folder / "array" / "snapshots"
    return (
        sorted(each.name for each in folder.iterdir() if (each / "snapshot.json").exists())
        if folder.exists()
        else []
    )


async def test_our_provisioner_makes_a_volume_and_deletes_it(ground: Ground) -> None:
    await ground.client.create(StorageClass, {"metadata": {"name": ground.name}, "provisioner": NAME})
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": str(SIZE)}}}
    notes = {"volume.kubernetes.io/storage-provisioner": NAME}
    body = {
        "metadata": {"name": ground.name, "annotations": notes},
        "spec": {**asked, "storageClassName": ground.name},
    }
    claim = await ground.client.create(PersistentVolumeClaim, body, "default")
    name = f"pvc-{claim.uid}"
    with ground.ours("provisioner"):
        await ground.until("there is a volume", lambda: exists(ground, name))
        assert list(ground.attached()) == [name]
        await ground.client.delete(PersistentVolumeClaim, ground.name, "default")
        await unprotect(ground, PersistentVolumeClaim, ground.name, "default")
        await ground.until(
            "the claim is gone", lambda: gone(ground, PersistentVolumeClaim, ground.name, "default")
        )
        await ground.client.patch(
            PersistentVolume, name, {"status": {"phase": "Released"}}, subresource="status"
        )
        await ground.until("the disk is gone", lambda: no_disk(ground))
        await unprotect(ground, PersistentVolume, name)
        await ground.until("the volume is gone", lambda: gone(ground, PersistentVolume, name))


async def exists(ground: Ground, name: str) -> bool:
    return not await gone(ground, PersistentVolume, name)


async def no_disk(ground: Ground) -> bool:
    return ground.attached() == {}

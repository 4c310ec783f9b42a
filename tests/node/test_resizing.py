"""The node's part when a volume grows: when its file system is grown, and what the claim's status says."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.kube.errors import Unreachable
from mooring.kube.objects import (
    Condition,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
)
from mooring.kube.objects.persistentvolumes import PersistentVolumeClaimStatus
from mooring.node.volumes.resizing import grow_file_system
from mooring.volumes.errors import SizeInfeasible
from mooring.volumes.spec import VolumeSpec

PENDING = Condition(type="FileSystemResizePending", status="True")
OTHER = Condition(type="ModifyingVolume", status="True")
REFERENCE = ObjectReference(namespace="default", name="c", uid="claim")


MADE_ANEW = PersistentVolume(
    metadata=ObjectMeta(name="pv", uid="made anew"),
    spec=PersistentVolumeSpec(capacity={"storage": "2Gi"}, claim_ref=REFERENCE),
)


class Storage:
    """A volume of 2 GiB and its claim, as they are read live, and a plugin that grows file systems."""

    def __init__(self) -> None:
        self.objects: dict[type, Any] = {
            PersistentVolume: PersistentVolume(
                metadata=ObjectMeta(name="pv"),
                spec=PersistentVolumeSpec(capacity={"storage": "2Gi"}, claim_ref=REFERENCE),
            ),
            PersistentVolumeClaim: PersistentVolumeClaim(
                metadata=ObjectMeta(name="c", namespace="default", uid="claim"),
                status=PersistentVolumeClaimStatus(conditions=(OTHER, PENDING)),
            ),
        }
        self.asked: list[tuple[str, ...]] = []
        self.grown: list[tuple[Any, str]] = []
        self.written: list[Any] = []
        self.failure: Exception | None = None
        self.refusal: Exception | None = None
        self.is_another_disk = True
        """That of a PersistentVolume that was made anew."""

    async def find(self, kind: type[Any], *name: str) -> Any:
        self.asked.append((kind.__name__, *name))
        return self.objects[kind]

    async def revise(self, read: Any, change: Any, *, subresource: str, any_version: bool = False) -> None:
        assert not any_version, "what was computed from an older claim must not be written"
        if self.refusal is not None:
            raise self.refusal
        self.written.append((read, change, subresource))

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return f"disk {spec.persistent_volume and spec.persistent_volume.uid if self.is_another_disk else 1}"

    async def expand_fs(self, spec: VolumeSpec, path: str) -> None:
        self.grown.append((spec.persistent_volume, path))
        if self.failure is not None:
            raise self.failure

    async def grow(self) -> str | None:
        """What was seen when the volume was mounted is of the former size."""
        before = VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name="pv")))
        storage: Any = self
        return await grow_file_system(storage, storage, before, "/m")


async def test_a_file_system_grows_to_what_the_volume_is_now_and_the_claim_says_so() -> None:
    storage = Storage()
    assert await storage.grow() == "2Gi"
    assert storage.asked == [("PersistentVolume", "pv"), ("PersistentVolumeClaim", "c", "default")]
    assert storage.grown == [(storage.objects[PersistentVolume], "/m")]
    ((read, change, subresource),) = storage.written
    assert (read, subresource) == (storage.objects[PersistentVolumeClaim], "status")
    assert change["status"]["capacity"] == {"storage": "2Gi"}
    assert [each["type"] for each in change["status"]["conditions"]] == ["ModifyingVolume"]
    assert change["status"]["allocatedResourceStatuses"] == {"storage": None}


@pytest.mark.parametrize(
    "changes",
    [
        {PersistentVolume: None},
        {PersistentVolume: PersistentVolume(metadata=ObjectMeta(name="pv"))},
        {PersistentVolume: MADE_ANEW},
        {PersistentVolumeClaim: None},
        {
            PersistentVolumeClaim: PersistentVolumeClaim(
                metadata=ObjectMeta(name="c", namespace="default", uid="made anew"),
                status=PersistentVolumeClaimStatus(conditions=(PENDING,)),
            )
        },
        {
            PersistentVolumeClaim: PersistentVolumeClaim(
                metadata=ObjectMeta(name="c", namespace="default", uid="claim")
            )
        },
    ],
    ids=[
        "no volume",
        "no claim of the volume",
        "another volume of the name",
        "no claim",
        "another claim of the name",
        "it does not ask",
    ],
)
async def test_nothing_grows_unless_the_volumes_own_claim_asks_for_it(changes: dict[type, Any]) -> None:
    storage = Storage()
    storage.objects |= changes
    assert await storage.grow() is None
    assert (storage.grown, storage.written) == ([], [])


async def test_a_file_system_grows_though_its_volume_was_made_anew_for_the_same_disk() -> None:
    storage = Storage()
    storage.objects[PersistentVolume], storage.is_another_disk = MADE_ANEW, False
    assert await storage.grow() == "2Gi"


async def test_a_file_system_that_did_not_grow_leaves_the_claim_as_it_is() -> None:
    storage = Storage()
    storage.failure = OSError("resize2fs is not happy")
    with pytest.raises(OSError, match="not happy"):
        await storage.grow()
    assert storage.written == []


async def test_a_size_that_can_never_be_had_is_said_in_the_claim_once() -> None:
    storage = Storage()
    storage.failure = SizeInfeasible("at most 1 GiB here")
    with pytest.raises(SizeInfeasible):
        await storage.grow()
    ((read, change, subresource),) = storage.written
    assert (read, subresource) == (storage.objects[PersistentVolumeClaim], "status")
    assert change["status"]["allocatedResourceStatuses"] == {"storage": "NodeResizeInfeasible"}
    types = [each["type"] for each in change["status"]["conditions"]]
    assert types == ["ModifyingVolume", "FileSystemResizePending", "NodeResizeError"]
    told = (PENDING, Condition(type="NodeResizeError", status="True"))
    storage.objects[PersistentVolumeClaim] = PersistentVolumeClaim(
        metadata=ObjectMeta(name="c", namespace="default", uid="claim"),
        status=PersistentVolumeClaimStatus(
            conditions=told, allocated_resource_statuses={"storage": "NodeResizeInfeasible"}
        ),
    )
    with pytest.raises(SizeInfeasible):
        await storage.grow()
    assert len(storage.written) == 1


@pytest.mark.parametrize("failure", [None, SizeInfeasible("at most 1 GiB here")])
async def test_that_the_claim_could_not_be_told_is_the_api_servers_error(failure: Exception | None) -> None:
    """It is tried again soon, and is no failure of the volume."""
    storage = Storage()
    storage.failure, storage.refusal = failure, Unreachable("no answer")
    with pytest.raises(Unreachable):
        await storage.grow()

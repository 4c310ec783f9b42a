"""A data source is what a new volume begins with, or an error that says why not; never an empty volume."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import create_autospec

import pytest

from mooring.controllers.provisioning.content_source import content_of
from mooring.controllers.provisioning.decide import BEGUN
from mooring.controllers.provisioning.originals import Originals
from mooring.kube.informer import Informer
from mooring.kube.objects import (
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
)
from mooring.kube.objects.snapshots import (
    BEING_DELETED,
    GROUP,
    VolumeSnapshot,
    VolumeSnapshotContent,
    VolumeSnapshotContentSpec,
    VolumeSnapshotContentStatus,
    VolumeSnapshotStatus,
)
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.interfaces import ContentSource, ProvisionableVolumePlugin, SnapshottableVolumePlugin

DRIVER = "disk.example.com"
SNAPSHOT = {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": "s"}
CLAIM = {"kind": "PersistentVolumeClaim", "name": "original"}


class Live:
    """What the API server has."""

    def __init__(self, *objects: Any) -> None:
        self._objects = {(type(each), each.name, each.namespace): each for each in objects}

    async def find(self, kind: Any, name: str, namespace: str = "") -> Any:
        return self._objects.get((kind, name, namespace))


def claim(name: str = "c", finalizers: tuple[str, ...] = (), **spec: Any) -> PersistentVolumeClaim:
    meta = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", finalizers=finalizers)
    return PersistentVolumeClaim(metadata=meta, spec=PersistentVolumeClaimSpec(**spec))


def snapshot(content: str | None = "content", *, ready: bool = True) -> VolumeSnapshot:
    status = VolumeSnapshotStatus(bound_volume_snapshot_content_name=content, ready_to_use=ready)
    return VolumeSnapshot(metadata=ObjectMeta(name="s", namespace="default"), status=status)


def content(
    handle: str | None = "handle", *, of: str = "s", driver: str = DRIVER, **meta: Any
) -> VolumeSnapshotContent:
    spec = VolumeSnapshotContentSpec(
        driver=driver, volume_snapshot_ref=ObjectReference(namespace="default", name=of)
    )
    status = VolumeSnapshotContentStatus(snapshot_handle=handle)
    return VolumeSnapshotContent(metadata=ObjectMeta(name="content", **meta), spec=spec, status=status)


def found(
    source: dict[str, Any] | None,
    *live: Any,
    original: PersistentVolumeClaim | None = None,
    of: str = "uid-original",
    supported: bool = True,
    kind: Any = SnapshottableVolumePlugin,
    finalizers: tuple[str, ...] = (),
) -> ContentSource | None:
    plugin = create_autospec(kind, instance=True)
    plugin.get_plugin_name.return_value = DRIVER
    plugin.can_support.return_value = supported
    plugin.get_volume_name.return_value = "disk-1"
    claims: Any = {original.key: original} if original else {}
    reference = ObjectReference(namespace="default", name="original", uid=of)
    spec = PersistentVolumeSpec(claim_ref=reference if of else None)
    volumes = create_autospec(Informer, instance=True)
    there = {"pv": PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec)}
    volumes.read_live.side_effect = there.get
    client: Any = Live(*live)
    copy = claim(data_source=source, finalizers=finalizers)
    originals = create_autospec(Originals, instance=True)
    return asyncio.run(content_of(client, copy, claims, volumes, plugin, originals))


def test_a_claim_without_a_source_begins_with_an_empty_volume():
    assert found(None) is None


def test_a_snapshot_is_named_as_the_storage_names_it():
    assert found(SNAPSHOT, snapshot(), content()) == ContentSource(snapshot="handle")


@pytest.mark.parametrize(
    ("live", "why"),
    [
        ((), "is not there or not ready"),
        ((snapshot(ready=False), content()), "is not there or not ready"),
        ((snapshot(None), content()), "is not there or not ready"),
        ((snapshot(),), "is gone or not ready"),
        ((snapshot(), content(None)), "is gone or not ready"),
        ((snapshot(), content(of="other")), "is not of VolumeSnapshot"),
        ((snapshot(), content(driver="other.example.com")), "is of driver other.example.com"),
    ],
)
def test_a_snapshot_that_cannot_be_used_is_an_error(live: tuple[Any, ...], why: str):
    with pytest.raises(InvalidSpec, match=why):
        found(SNAPSHOT, *live)


GOING: list[dict[str, Any]] = [
    {"annotations": {BEING_DELETED: "yes"}},
    {"deletion_timestamp": "2030-01-01T00:00:00Z"},
]


@pytest.mark.parametrize("going", GOING)
def test_a_snapshot_that_waits_for_no_claim_any_more_is_an_error(going: dict[str, Any]):
    with pytest.raises(InvalidSpec, match="is being deleted"):
        found(SNAPSHOT, snapshot(), content(**going))


@pytest.mark.parametrize("going", GOING)
def test_what_may_be_there_of_a_snapshot_that_goes_is_still_asked_for(going: dict[str, Any]):
    assert found(SNAPSHOT, snapshot(), content(**going), finalizers=(BEGUN,)) == ContentSource("handle")


def test_a_copy_of_a_claim_begins_with_its_volume():
    assert found(CLAIM, original=claim("original", volume_name="pv")) == ContentSource(volume="disk-1")


@pytest.mark.parametrize("original", [None, claim("original"), claim("original", volume_name="gone")])
def test_a_claim_that_is_not_there_or_not_bound_cannot_be_copied(original: PersistentVolumeClaim | None):
    with pytest.raises(InvalidSpec, match="is not there or not bound yet"):
        found(CLAIM, original=original)


@pytest.mark.parametrize("of", ["", "uid-other"])
def test_a_volume_that_the_claim_names_and_does_not_have_is_not_copied(of: str):
    """A claim may name any volume, also another tenant's; or that was made anew for another claim."""
    with pytest.raises(InvalidSpec, match="is not there or not bound yet"):
        found(CLAIM, original=claim("original", volume_name="pv"), of=of)


def test_a_volume_of_another_storage_cannot_be_copied():
    with pytest.raises(InvalidSpec, match="is of another storage"):
        found(CLAIM, original=claim("original", volume_name="pv"), supported=False)


def test_nothing_is_copied_from_another_namespace():
    with pytest.raises(InvalidSpec, match="another namespace"):
        found({**CLAIM, "namespace": "other"}, original=claim("original", volume_name="pv"))


def test_a_plugin_that_copies_nothing_is_not_asked_to():
    with pytest.raises(InvalidSpec, match="copies nothing"):
        found(CLAIM, original=claim("original", volume_name="pv"), kind=ProvisionableVolumePlugin)


def test_a_source_of_another_kind_is_an_error():
    with pytest.raises(InvalidSpec, match="is not known"):
        found({"apiGroup": "example.com", "kind": "Backup", "name": "b"})

"""Which volumes are attached, and what is known of their storage."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.kube.objects import (
    CSIDriver,
    CSIPersistentVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeAttachment,
    VolumeAttachmentSpec,
)
from mooring.kube.objects.storage import CSIDriverSpec
from mooring.volumes.attachability import Attachability, driver_of
from mooring.volumes.attachment_lock import Closed, Lock, annotation, epoch_of, lock_of, may_open
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.names import is_about, volume_attachment_name
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec

DRIVER = "csi.example.com"


def volume(*modes: str, driver: str = DRIVER, **annotations: str) -> PersistentVolume:
    source = CSIPersistentVolumeSource(driver=driver, volume_handle="h")
    metadata = ObjectMeta(name="pv", annotations=annotations)
    return PersistentVolume(metadata=metadata, spec=PersistentVolumeSpec(access_modes=modes, csi=source))


def attachability(
    *, required: bool = True, annotations: dict[str, str] | None = None, **options: Any
) -> Attachability:
    driver = CSIDriver(
        metadata=ObjectMeta(name=DRIVER, annotations=annotations or {}),
        spec=CSIDriverSpec(attach_required=required),
    )
    host = ControllerVolumeHost(lambda: pytest.fail("no clock"))
    return Attachability(PluginManager([], host), {DRIVER: driver}.get, **options)


SPEC = VolumeSpec.of_persistent_volume(volume("ReadWriteOnce"))
NAME = f"kubernetes.io/csi/{DRIVER}^h"


def test_a_csi_volume_is_attached_under_upstreams_name_unless_its_driver_needs_none():
    assert attachability().attached_name(SPEC) == NAME
    assert attachability(required=False).attached_name(SPEC) is None
    assert attachability(required=False).name(SPEC) == NAME
    assert attachability(left_out=[DRIVER]).name(SPEC) is None


@pytest.mark.parametrize(
    ("modes", "several"),
    [(("ReadWriteOnce",), False), (("ReadWriteOncePod",), False), (("ReadWriteMany",), True), ((), True)],
)
def test_how_many_nodes_may_have_it_is_upstreams_rule(modes: tuple[str, ...], several: bool):
    assert attachability().several_nodes(VolumeSpec.of_persistent_volume(volume(*modes))) is several


def test_a_detach_revokes_only_where_that_is_known():
    assert not attachability().revokes(NAME)
    assert attachability(annotations={"mooring.dev/detach-revokes-access": "true"}).revokes(NAME)
    assert attachability(revokes={DRIVER: True}).revokes(NAME)
    assert attachability().revokes("kubernetes.io/csi/ebs.csi.aws.com^vol-1")
    assert not attachability(revokes={"ebs.csi.aws.com": False}).revokes(
        "kubernetes.io/csi/ebs.csi.aws.com^vol-1"
    )
    assert not attachability().revokes("kubernetes.io/csi/nfs.csi.k8s.io^share")


def test_a_driver_that_does_not_refuse_has_exclusive_volumes_locked():
    shy = attachability(annotations={"mooring.dev/refuses-second-attach": "false"})
    assert shy.needs_lock(SPEC)
    assert not shy.needs_lock(VolumeSpec.of_persistent_volume(volume("ReadWriteMany")))
    assert not attachability().needs_lock(SPEC)


def test_whose_a_volume_is_is_in_its_name():
    assert driver_of(NAME) == DRIVER
    assert driver_of("example.com/disk/d1") == "example.com/disk"
    assert driver_of("nonsense") == ""


def test_a_record_without_a_word_is_known_by_its_name():
    name = volume_attachment_name("kubernetes.io/csi", f"{DRIVER}^h", "n0")
    record = VolumeAttachment(
        metadata=ObjectMeta(name=name), spec=VolumeAttachmentSpec(attacher=DRIVER, node_name="n0")
    )
    assert is_about(record, NAME)
    assert not is_about(record, f"kubernetes.io/csi/{DRIVER}^other")
    assert not is_about(record, "example.com/disk/h")


# --- the lock


def test_a_lock_is_read_as_it_was_written():
    lock = Lock(3, "n0", "u", "default/p", {"n1": Closed(2, "b1")})
    assert lock_of(volume(**annotation(lock))) == lock
    assert lock_of(volume()) == Lock()
    with pytest.raises(InvalidSpec, match="is damaged"):
        lock_of(volume(**{"mooring.dev/attached-to": "{"}))


def test_an_epoch_that_cannot_be_read_is_none_that_a_lock_ever_has():
    stamped = {"mooring.dev/attach-epoch": "x"}
    assert epoch_of(VolumeAttachment(metadata=ObjectMeta(annotations=stamped))) == -1


def test_nothing_opens_a_node_that_is_not_there():
    assert not may_open(Closed(1), None, NAME)

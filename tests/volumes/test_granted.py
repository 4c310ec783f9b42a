"""Volumes that a lock alone grants to a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring.kube.objects import (
    FCVolumeSource,
    ISCSIVolumeSource,
    NFSVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Volume,
)
from mooring.volumes.attachability import Attachability
from mooring.volumes.host import ControllerVolumeHost, NodeVolumeHost
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.plugins import fc, nfs
from mooring.volumes.plugins.iscsi import plugin
from mooring.volumes.plugins.iscsi.source import PLUGIN_NAME
from mooring.volumes.spec import VolumeSpec

SOURCE = ISCSIVolumeSource(target_portal="10.0.0.1", iqn="iqn.2026-01.dev.mooring:a", lun=1)
NAME = "kubernetes.io/iscsi/10.0.0.1:3260:iqn.2026-01.dev.mooring:a:1"


def plugins(**settings: str) -> PluginManager:
    """As a controller has them: no directory, no mounts."""
    return PluginManager(
        [plugin()], ControllerVolumeHost(lambda: pytest.fail("no clock"), {PLUGIN_NAME: settings})
    )


def attachability(**settings: str) -> Attachability:
    return Attachability(plugins(**settings), lambda name: None)


def volume(*modes: str) -> VolumeSpec:
    spec = PersistentVolumeSpec(access_modes=modes, iscsi=SOURCE)
    return VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec))


@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteOncePod"])
def test_a_volume_for_one_node_is_attached_under_the_lock(mode: str):
    assert attachability().attached_name(volume(mode)) == NAME
    assert attachability().needs_lock(volume(mode))
    assert not attachability().several_nodes(volume(mode))


@pytest.mark.parametrize("modes", [("ReadOnlyMany",), ("ReadWriteOnce", "ReadOnlyMany"), ()])
def test_a_volume_for_several_nodes_is_not_attached(modes: tuple[str, ...]):
    assert attachability().attached_name(volume(*modes)) is None


def test_a_volume_that_a_pod_defines_itself_is_not_attached_for_it_has_no_lock():
    inline = VolumeSpec.of_volume(Volume(name="v", iscsi=SOURCE))
    assert attachability().attached_name(inline) is None


def test_nothing_is_attached_where_the_nodes_do_not_wait_for_it():
    assert attachability(lock="false").attached_name(volume("ReadWriteOnce")) is None


def test_a_setting_that_is_neither_yes_nor_no_leaves_the_plugin_out_with_the_reason():
    (error,) = plugins(lock="no").errors
    assert "`lock`" in error.problem
    assert "true or false" in error.problem


def export(*modes: str) -> VolumeSpec:
    spec = PersistentVolumeSpec(access_modes=modes, nfs=NFSVolumeSource(server="files", path="/data"))
    return VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec))


def test_an_export_for_one_node_is_granted_and_one_for_several_is_not():
    host = ControllerVolumeHost(lambda: pytest.fail("no clock"))
    found = Attachability(PluginManager([nfs.plugin()], host), lambda name: None)
    assert found.attached_name(export("ReadWriteOnce")) == "kubernetes.io/nfs/files//data"
    assert found.needs_lock(export("ReadWriteOnce"))
    assert found.attached_name(export("ReadWriteMany")) is None
    assert found.attached_name(export("ReadWriteOnce", "ReadWriteMany")) is None


async def test_the_permission_for_a_share_is_a_directory_that_comes_and_goes(tmp_path: Path):
    made = nfs.plugin()
    refuse: Any = None
    made.init(NodeVolumeHost("n", tmp_path, refuse, refuse, refuse, refuse))
    attacher = made.new_attacher()
    path = Path(attacher.get_device_mount_path(export("ReadWriteOnce")))
    assert made.can_device_mount(export("ReadWriteOnce"))
    assert not made.can_device_mount(export("ReadWriteMany"))
    for _ in range(2):
        await attacher.mount_device(export("ReadWriteOnce"), "", str(path))
    assert path.is_dir()
    assert path.is_relative_to(tmp_path / "plugins")
    for _ in range(2):
        await made.new_detacher().unmount_device(str(path))
    assert not path.exists()


def test_a_disk_of_a_fabric_is_granted_likewise():
    source = FCVolumeSource(target_wwns=("50060e801049cfd1",), lun=0)
    spec = PersistentVolumeSpec(access_modes=("ReadWriteOnce",), fc=source)
    volume = VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec))
    host = ControllerVolumeHost(lambda: pytest.fail("no clock"))
    found = Attachability(PluginManager([fc.plugin()], host), lambda name: None)
    assert (found.attached_name(volume) or "").startswith("kubernetes.io/fc/")
    assert found.needs_lock(volume)


async def test_the_storage_is_asked_nothing_so_that_no_request_is_ever_outstanding():
    found = plugins().find_attachable_plugin_by_spec(volume("ReadWriteOnce"))
    assert found is not None
    assert found.capabilities(volume("ReadWriteOnce")).request_validity_s == 0.0
    attacher: Any = found.new_attacher()
    assert await attacher.attach(volume("ReadWriteOnce"), "node-1") == {}
    assert await attacher.volumes_are_attached([volume("ReadWriteOnce")], "node-1") == {}
    await found.new_detacher().detach("10.0.0.1:3260:iqn.2026-01.dev.mooring:a:1", "node-1")

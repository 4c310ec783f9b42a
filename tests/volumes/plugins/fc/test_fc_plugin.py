"""The plugin on a node: it mounts what the fabric shows, and knows its volumes again after a restart."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from played_fc import ONE, A, B, PlayedFabric, PlayedPrograms
from played_mounts import PlayedMounts

from mooring.kube.objects import (
    FCVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    Volume,
)
from mooring.mounts.errors import FilesystemMismatch
from mooring.volumes.errors import InvalidSpec, StorageRefused, VolumeError
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.interfaces import Expansion
from mooring.volumes.plugin_manager import load_plugins
from mooring.volumes.plugins.fc import FCPlugin, plugin
from mooring.volumes.plugins.fc.connections import Connections
from mooring.volumes.plugins.fc.notes import Notes
from mooring.volumes.plugins.fc.source import PLUGIN_NAME
from mooring.volumes.spec import VolumeSpec

POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid"))


@pytest.fixture
def mounts() -> PlayedMounts:
    return PlayedMounts()


@pytest.fixture
def fabric(tmp_path: Path) -> PlayedFabric:
    found = PlayedFabric(tmp_path / "kernel")
    found.port(A)
    found.port(B, number=1)
    return found


@pytest.fixture
def fc(host: NodeVolumeHost, fabric: PlayedFabric) -> FCPlugin:
    made = plugin()
    made.init(host)
    run: Any = PlayedPrograms()
    notes = Notes(host.get_plugin_dir(PLUGIN_NAME), "boot-1")
    made.__dict__["_connections"] = Connections(notes, fabric, "a", run)
    return made


def spec(size: str = "64Mi", read_only: bool = False, mode: str = "Filesystem", **fields: Any) -> VolumeSpec:
    source = FCVolumeSource(**(fields or {"target_wwns": (A,), "lun": 0}))
    pv_spec = PersistentVolumeSpec(
        fc=source, capacity={"storage": size}, volume_mode=mode, mount_options=("noatime",)
    )
    pv = PersistentVolume(metadata=ObjectMeta(name="pv"), spec=pv_spec)
    return VolumeSpec.of_persistent_volume(pv, read_only)


async def mounted(fc: FCPlugin, of: VolumeSpec) -> str:
    mounter = fc.new_device_mounter()
    path = mounter.get_device_mount_path(of)
    await mounter.mount_device(of, "", path)
    return path


def test_the_source_is_read_as_the_api_writes_it():
    read = msgspec.json.decode(
        b'{"targetWWNs": ["x"], "lun": 3, "fsType": "xfs", "wwids": ["y"]}', type=FCVolumeSource
    )
    assert read == FCVolumeSource(target_wwns=("x",), lun=3, fs_type="xfs", wwids=("y",))


def test_the_plugin_comes_with_mooring(host: NodeVolumeHost):
    assert load_plugins(host).find_plugin_by_name(PLUGIN_NAME).can_support(spec())


async def test_a_volume_is_mounted_with_its_options_and_unmounted_before_its_disk_is_dropped(
    fc: FCPlugin, mounts: PlayedMounts, fabric: PlayedFabric
):
    path = await mounted(fc, spec())
    assert mounts.points[path] == ("/dev/sda", "ext4", ("noatime",))
    await fc.new_device_unmounter().unmount_device(path)
    assert mounts.points == {}
    assert fabric.names() == []


@pytest.mark.parametrize(
    "of",
    [spec(read_only=True), spec(target_wwns=(A,), lun=0, read_only=True), spec(wwids=(ONE,), read_only=True)],
)
async def test_a_read_only_volume_is_mounted_so(fc: FCPlugin, mounts: PlayedMounts, of: VolumeSpec):
    path = await mounted(fc, of)
    assert mounts.points[path][2] == ("noatime", "ro")
    assert fc.new_mounter(of, POD).get_attributes().read_only


async def test_a_disk_with_another_file_system_is_left_as_it_is_and_let_go_of(
    fc: FCPlugin, mounts: PlayedMounts, fabric: PlayedFabric
):
    mounts.holds = "xfs"
    of = spec()
    with pytest.raises(FilesystemMismatch, match="xfs"):
        await mounted(fc, of)
    await fc.new_device_unmounter().unmount_device(fc.new_device_mounter().get_device_mount_path(of))
    assert fabric.names() == []


@pytest.mark.parametrize("of", [spec(), spec(target_wwns=(A, B), lun=1), spec(wwids=(ONE,))])
async def test_a_pod_sees_what_is_mounted_and_its_volume_is_known_by_that_after_a_restart(
    fc: FCPlugin, mounts: PlayedMounts, of: VolumeSpec
):
    path = await mounted(fc, of)
    mounter = fc.new_mounter(of, POD)
    await mounter.set_up()
    again = await fc.construct_volume_spec("pv", mounter.get_path())
    assert fc.get_volume_name(again) == fc.get_volume_name(of) == fc.get_volume_name_at(path)
    await fc.new_unmounter("pv", POD.uid).tear_down()
    assert list(mounts.points) == [path]


async def test_a_directory_that_shows_no_disk_of_the_plugins_is_not_known(fc: FCPlugin, mounts: PlayedMounts):
    mounts.points["/x"] = ("/dev/vda", "ext4", ())
    with pytest.raises(InvalidSpec):
        await fc.construct_volume_spec("pv", "/x")


async def test_a_raw_device_is_given_as_it_is_and_dropped_after_it(
    fc: FCPlugin, fabric: PlayedFabric, monkeypatch: pytest.MonkeyPatch
):
    module = sys.modules["mooring.volumes.plugins.granted_disks"]
    monkeypatch.setattr(module, "block_device", lambda path, _: path)
    assert await fc.set_up_device(spec(mode="Block"), "") == "/dev/sda"
    assert await fc.set_up_device(spec(mode="Block"), "") == "/dev/sda"
    await fc.tear_down_device("/dev/sda")
    assert fabric.names() == []
    await fc.tear_down_device("/dev/sda")


async def test_a_lun_that_has_grown_grows_its_file_system(fc: FCPlugin, mounts: PlayedMounts):
    path = await mounted(fc, spec())
    await fc.expand_fs(spec(), path)
    assert mounts.grown == [("/dev/sda", path)]


async def test_a_volume_grows_to_what_its_persistent_volume_says_that_its_lun_has(fc: FCPlugin):
    assert await fc.expand_volume_device(spec(size="64Mi"), 64 << 20) == Expansion(64 << 20, on_node=True)
    with pytest.raises(StorageRefused, match=r"spec\.capacity"):
        await fc.expand_volume_device(spec(size="64Mi"), 65 << 20)


async def test_a_lun_that_is_smaller_than_its_volume_says_is_not_taken_for_grown(
    fc: FCPlugin, mounts: PlayedMounts
):
    path = await mounted(fc, spec())
    with pytest.raises(VolumeError, match="grow the LUN"):
        await fc.expand_fs(spec(size="1Gi"), path)
    assert mounts.grown == []


async def test_a_source_that_cannot_be_meant_asks_nothing_of_the_kernel(fc: FCPlugin, fabric: PlayedFabric):
    with pytest.raises(InvalidSpec):
        await mounted(fc, spec(target_wwns=("../../x",), lun=0))
    assert fabric.scanned == []


def test_the_plugin_takes_pods_and_persistent_volumes(fc: FCPlugin):
    inline = VolumeSpec.of_volume(Volume(name="v", fc=FCVolumeSource(wwids=(ONE,))))
    assert fc.can_support(inline)
    assert fc.can_support(spec())
    assert not fc.can_support(VolumeSpec.of_volume(Volume(name="v")))

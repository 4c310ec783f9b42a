"""The plugin on a node: it mounts what its sessions give it, and knows its volumes again after a restart."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import pytest
from played_iscsi import PlayedIscsiadm, PlayedKernel
from played_mounts import PlayedMounts

from mooring.kube.objects import (
    ISCSIVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    Secret,
    SecretReference,
    Volume,
)
from mooring.mounts.errors import FilesystemMismatch
from mooring.volumes.errors import ContentMissing, InvalidSpec, StorageRefused, VolumeError
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.interfaces import Expansion
from mooring.volumes.plugins.iscsi import IscsiPlugin, plugin
from mooring.volumes.plugins.iscsi.iscsiadm import Iscsiadm
from mooring.volumes.plugins.iscsi.notes import Notes
from mooring.volumes.plugins.iscsi.plugin import read_chap
from mooring.volumes.plugins.iscsi.sessions import Sessions
from mooring.volumes.plugins.iscsi.source import PLUGIN_NAME, disk
from mooring.volumes.spec import VolumeSpec

IQN = "iqn.2026-01.dev.mooring:storage.a"
POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid"))


@pytest.fixture
def mounts() -> PlayedMounts:
    return PlayedMounts()


@pytest.fixture
def kernel(tmp_path: Path) -> PlayedKernel:
    return PlayedKernel(tmp_path / "kernel")


@pytest.fixture
def iscsi(host: NodeVolumeHost, kernel: PlayedKernel) -> IscsiPlugin:
    made = plugin()
    made.init(host)
    played: Any = PlayedIscsiadm(kernel, IQN)
    notes = Notes(host.get_plugin_dir(PLUGIN_NAME), "boot-1")
    made.__dict__["_sessions"] = Sessions(notes, Iscsiadm(played, (played.records,)), kernel, "a", played)
    return made


def spec(size: str = "64Mi", read_only: bool = False, mode: str = "Filesystem", **fields: Any) -> VolumeSpec:
    source = ISCSIVolumeSource(**{"target_portal": "10.88.0.2", "iqn": IQN, "lun": 1, **fields})
    pv_spec = PersistentVolumeSpec(
        iscsi=source, capacity={"storage": size}, volume_mode=mode, mount_options=("noatime",)
    )
    return VolumeSpec.of_persistent_volume(
        PersistentVolume(metadata=ObjectMeta(name="pv"), spec=pv_spec), read_only
    )


async def mounted(iscsi: IscsiPlugin, of: VolumeSpec) -> str:
    mounter = iscsi.new_device_mounter()
    path = mounter.get_device_mount_path(of)
    await mounter.mount_device(of, "", path)
    return path


async def test_a_volume_is_mounted_with_its_options_and_unmounted_before_its_session_ends(
    iscsi: IscsiPlugin, mounts: PlayedMounts, kernel: PlayedKernel
):
    path = await mounted(iscsi, spec())
    assert mounts.points[path] == ("/dev/sda", "ext4", ("noatime",))
    await iscsi.new_device_unmounter().unmount_device(path)
    assert mounts.points == {}
    assert kernel.sessions(IQN) == []


@pytest.mark.parametrize("of", [spec(read_only=True), spec(read_only=True)])
async def test_a_read_only_volume_is_mounted_so(iscsi: IscsiPlugin, mounts: PlayedMounts, of: VolumeSpec):
    path = await mounted(iscsi, of)
    assert mounts.points[path][2] == ("noatime", "ro")
    assert iscsi.new_mounter(of, POD).get_attributes().read_only


async def test_a_disk_with_another_file_system_is_left_as_it_is_and_let_go_of(
    iscsi: IscsiPlugin, mounts: PlayedMounts, kernel: PlayedKernel
):
    mounts.holds = "xfs"
    of = spec()
    with pytest.raises(FilesystemMismatch, match="xfs"):
        await mounted(iscsi, of)
    await iscsi.new_device_unmounter().unmount_device(iscsi.new_device_mounter().get_device_mount_path(of))
    assert kernel.sessions(IQN) == []


async def test_a_pod_sees_what_is_mounted_and_its_volume_is_known_by_that_after_a_restart(
    iscsi: IscsiPlugin, mounts: PlayedMounts
):
    of = spec()
    path = await mounted(iscsi, of)
    mounter = iscsi.new_mounter(of, POD)
    await mounter.set_up()
    again = await iscsi.construct_volume_spec("pv", mounter.get_path())
    assert iscsi.get_volume_name(again) == iscsi.get_volume_name(of) == iscsi.get_volume_name_at(path)
    await iscsi.new_unmounter("pv", POD.uid).tear_down()
    assert list(mounts.points) == [path]


async def test_a_directory_that_shows_no_disk_of_the_plugins_is_not_known(
    iscsi: IscsiPlugin, mounts: PlayedMounts
):
    mounts.points["/x"] = ("/dev/vda", "ext4", ())
    with pytest.raises(InvalidSpec):
        await iscsi.construct_volume_spec("pv", "/x")


async def test_a_raw_device_is_given_as_it_is_and_its_session_ends_after_it(
    iscsi: IscsiPlugin, kernel: PlayedKernel, monkeypatch: pytest.MonkeyPatch
):
    module = sys.modules["mooring.volumes.plugins.granted_disks"]
    monkeypatch.setattr(module, "block_device", lambda path, _: path)
    assert await iscsi.set_up_device(spec(mode="Block"), "") == "/dev/sda"
    assert await iscsi.set_up_device(spec(mode="Block"), "") == "/dev/sda"
    await iscsi.tear_down_device("/dev/sda")
    assert kernel.sessions(IQN) == []
    await iscsi.tear_down_device("/dev/sda")


async def test_a_lun_that_has_grown_grows_its_file_system(iscsi: IscsiPlugin, mounts: PlayedMounts):
    path = await mounted(iscsi, spec())
    await iscsi.expand_fs(spec(), path)
    assert mounts.grown == [("/dev/sda", path)]


async def test_a_volume_grows_to_what_its_persistent_volume_says_that_its_lun_has(iscsi: IscsiPlugin):
    assert await iscsi.expand_volume_device(spec(size="64Mi"), 64 << 20) == Expansion(64 << 20, on_node=True)
    with pytest.raises(StorageRefused, match=r"spec\.capacity"):
        await iscsi.expand_volume_device(spec(size="64Mi"), 65 << 20)


async def test_a_lun_that_is_smaller_than_its_volume_says_is_not_taken_for_grown(
    iscsi: IscsiPlugin, mounts: PlayedMounts
):
    path = await mounted(iscsi, spec())
    with pytest.raises(VolumeError, match="grow the LUN"):
        await iscsi.expand_fs(spec(size="1Gi"), path)
    assert mounts.grown == []


async def test_a_source_that_cannot_be_meant_asks_no_program(iscsi: IscsiPlugin, kernel: PlayedKernel):
    with pytest.raises(InvalidSpec):
        await mounted(iscsi, spec(iqn="--logout"))
    assert kernel.count == 0


def test_the_plugin_takes_pods_and_persistent_volumes(iscsi: IscsiPlugin):
    inline = VolumeSpec.of_volume(
        Volume(name="v", iscsi=ISCSIVolumeSource(target_portal="10.0.0.1", iqn=IQN))
    )
    assert iscsi.can_support(inline)
    assert iscsi.can_support(spec())
    assert not iscsi.can_support(VolumeSpec.of_volume(Volume(name="v")))
    assert iscsi.get_volume_name(inline) == f"10.0.0.1:3260:{IQN}:0"


async def test_chap_is_read_from_its_secret(host: NodeVolumeHost, cluster: Any):
    reference = SecretReference(name="chap", namespace="shop")
    wanted = disk(spec(chap_auth_session=True, secret_ref=reference))
    with pytest.raises(ContentMissing, match="shop/chap"):
        await read_chap(host, wanted)
    keys = {"node.session.auth.username": "u", "node.session.auth.password": "p"}
    data = {key: base64.b64encode(value.encode()).decode() for key, value in keys.items()}
    cluster.secrets["shop", "chap"] = Secret(data=data)
    found = await read_chap(host, wanted)
    assert (found.discovery, found.session) == ({}, {"node.session.auth.authmethod": "CHAP", **keys})
    cluster.secrets["shop", "chap"] = Secret(data={"node.session.auth.username": "\xe9"})
    with pytest.raises(InvalidSpec):
        await read_chap(host, wanted)

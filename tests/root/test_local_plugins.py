"""Local plugins on real mounts: memory, directories of the node, block devices of the node."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mooring.kube.objects import (
    EmptyDirVolumeSource,
    LocalVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    Secret,
    SecretVolumeSource,
    Volume,
)
from mooring.mounts import loop, syscalls
from mooring.mounts.host import HostMounts
from mooring.mounts.table import mount_at, mounts_below, read_mount_table
from mooring.volumes.errors import DeletedVolumeInUse, InvalidSpec, VolumeError
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.interfaces import VolumePlugin
from mooring.volumes.plugins import emptydir, local, secret
from mooring.volumes.scrub import scrub
from mooring.volumes.spec import VolumeSpec

pytestmark = pytest.mark.root

MIB = 1024 * 1024
POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid"))
OTHER = Pod(metadata=ObjectMeta(name="web-1", namespace="shop", uid="other-uid"))


@pytest.fixture
def host(tmp_path: Path) -> Generator[NodeVolumeHost]:
    async def get_secret(namespace: str, name: str) -> Secret | None:
        return Secret(data={"key": "aGVsbG8="})

    async def nothing(namespace: str, name: str) -> None:
        return None

    now = datetime(2030, 1, 1, tzinfo=UTC)
    yield NodeVolumeHost("a", tmp_path / "node", HostMounts(), lambda: now, nothing, get_secret)
    for mount in mounts_below(read_mount_table(), str(tmp_path)):
        syscalls.unmount(mount.mount_point)


@pytest.fixture
def device(tmp_path: Path) -> Generator[str]:
    medium = tmp_path / "medium"
    with medium.open("wb") as file:
        file.truncate(32 * MIB)
    made = loop.create(str(medium))
    yield made
    for mount in mounts_below(read_mount_table(), str(tmp_path)):
        syscalls.unmount(mount.mount_point)
    loop.remove(made, str(medium))


def persistent(path: str) -> VolumeSpec:
    spec = PersistentVolumeSpec(local=LocalVolumeSource(path=path))
    return VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec))


def mounted_at(path: str) -> str | None:
    found = mount_at(read_mount_table(), path)
    return found.fs_type if found else None


def installed(plugin: VolumePlugin, host: NodeVolumeHost) -> VolumePlugin:
    plugin.init(host)
    return plugin


async def test_memory_has_the_size_that_was_asked_for(host: NodeVolumeHost):
    source = EmptyDirVolumeSource(medium="Memory", size_limit="1Mi")
    plugin = installed(emptydir.plugin(), host)
    mounter = plugin.new_mounter(VolumeSpec.of_volume(Volume(name="v", empty_dir=source)), POD)
    await mounter.set_up()
    with pytest.raises(OSError, match="No space left"):
        Path(mounter.get_path(), "big").write_bytes(b"x" * 2 * MIB)
    measured = await mounter.get_metrics()
    assert measured.capacity == MIB
    assert measured.available == 0
    await plugin.new_unmounter("v", "pod-uid").tear_down()
    assert mounted_at(mounter.get_path()) is None
    assert not os.path.exists(mounter.get_path())


async def test_a_secret_never_reaches_a_disk(host: NodeVolumeHost):
    plugin = installed(secret.plugin(), host)
    mounter = plugin.new_mounter(VolumeSpec.of_volume(Volume(name="v", secret=SecretVolumeSource())), POD)
    for _ in range(2):
        await mounter.set_up(fs_group=4242)
    assert mounted_at(mounter.get_path()) == "tmpfs"
    assert Path(mounter.get_path(), "key").read_text() == "hello"
    for path in (mounter.get_path(), *(os.path.join(mounter.get_path(), name) for name in ("..data", "key"))):
        assert os.stat(path).st_gid == os.lstat(path).st_gid == 4242
    assert stat.S_IMODE(os.stat(mounter.get_path()).st_mode) == 0o2755
    await plugin.new_unmounter("v", "pod-uid").tear_down()
    assert not os.path.exists(mounter.get_path())


async def test_two_pods_share_a_directory_of_the_node(host: NodeVolumeHost, tmp_path: Path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "kept").touch()
    plugin = local.plugin()
    plugin.init(host)
    devices, spec = plugin.new_device_mounter(), persistent(str(data))
    path = devices.get_device_mount_path(spec)
    await devices.mount_device(spec, "", path)
    for pod in (POD, OTHER):
        await plugin.new_mounter(spec, pod).set_up()
    first = plugin.new_mounter(spec, POD).get_path()
    Path(first, "written").touch()
    assert sorted(os.listdir(plugin.new_mounter(spec, OTHER).get_path())) == ["kept", "written"]
    await plugin.new_unmounter("pv", "pod-uid").tear_down()
    assert await plugin.get_device_mount_refs(path) == [plugin.new_mounter(spec, OTHER).get_path()]
    await plugin.new_unmounter("pv", "other-uid").tear_down()
    assert await plugin.get_device_mount_refs(path) == []
    await plugin.new_device_unmounter().unmount_device(path)
    assert sorted(os.listdir(data)) == ["kept", "written"]


async def test_a_blank_block_device_is_formatted_once(host: NodeVolumeHost, device: str):
    plugin = local.plugin()
    plugin.init(host)
    devices, spec = plugin.new_device_mounter(), persistent(device)
    path = devices.get_device_mount_path(spec)
    for _ in range(2):
        await devices.mount_device(spec, "", path)
        mounter = plugin.new_mounter(spec, POD)
        await mounter.set_up()
        assert mounted_at(mounter.get_path()) == "ext4"
        Path(mounter.get_path(), "kept").touch()
        assert "kept" in os.listdir(mounter.get_path())
        assert (await mounter.get_metrics()).capacity < 32 * MIB
        await plugin.new_unmounter("pv", "pod-uid").tear_down()
        await devices.unmount_device(path)


async def test_a_pod_does_not_get_a_local_volume_before_the_node_has_it(host: NodeVolumeHost, tmp_path: Path):
    plugin = local.plugin()
    plugin.init(host)
    with pytest.raises(VolumeError, match="not mounted on the node yet"):
        await plugin.new_mounter(persistent(str(tmp_path)), POD).set_up()


async def test_what_is_missing_or_of_another_kind_is_no_local_volume(host: NodeVolumeHost, tmp_path: Path):
    plugin = local.plugin()
    plugin.init(host)
    (tmp_path / "file").touch()
    for name, problem in (("none", VolumeError), ("file", InvalidSpec)):
        with pytest.raises(problem, match=name):
            await plugin.new_device_mounter().mount_device(
                persistent(str(tmp_path / name)), "", str(tmp_path / "m")
            )


async def test_what_is_mounted_below_is_not_recycled(host: NodeVolumeHost, tmp_path: Path):
    inside = tmp_path / "data" / "inside"
    await host.mounts.mount("tmpfs", str(inside), "tmpfs")
    (inside / "kept").touch()
    with pytest.raises(DeletedVolumeInUse, match="covered by a mount at"):
        await scrub(str(tmp_path / "data"), "pv", lambda kind, message: None)
    assert (inside / "kept").exists()


@contextmanager
def mount_namespace(script: str) -> Iterator[None]:
    """A process in a mount namespace of its own, which has run `script`."""
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-ec", f"{script}; echo ready; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.communicate("\n")


def no_word(kind: str, message: str) -> None: ...


@pytest.mark.parametrize("part", ["", "part"])
async def test_what_a_mount_shows_elsewhere_is_not_recycled(tmp_path: Path, part: str):
    """As a container has it, in a mount namespace of its own; the API need not know of it."""
    data, target = tmp_path / "data", tmp_path / "target"
    (data / "part").mkdir(parents=True)
    target.mkdir()
    with mount_namespace(f"mount --make-rprivate /; mount --bind {data / part} {target}"):
        with pytest.raises(DeletedVolumeInUse, match=f"mounted at {target}"):
            await scrub(str(data), "pv", no_word)
        assert (data / "part").exists()
    await scrub(str(data), "pv", no_word)
    assert list(data.iterdir()) == []


async def test_a_directory_that_is_a_mount_point_itself_is_recycled(host: NodeVolumeHost, tmp_path: Path):
    """Also where a mount namespace was copied meanwhile: the copy is not a user."""
    data = tmp_path / "data"
    await host.mounts.mount("tmpfs", str(data), "tmpfs")
    (data / "old").touch()
    with mount_namespace("true"):
        await scrub(str(data), "pv", no_word)
    assert list(data.iterdir()) == []


def raw(path: str) -> VolumeSpec:
    spec = PersistentVolumeSpec(local=LocalVolumeSource(path=path), volume_mode="Block")
    return VolumeSpec.of_persistent_volume(PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec))


async def test_a_raw_device_is_a_link_in_the_pods_directory(
    host: NodeVolumeHost, device: str, tmp_path: Path
):
    plugin = local.plugin()
    plugin.init(host)
    link = tmp_path / "by-id"
    link.symlink_to(device)
    found = await plugin.set_up_device(raw(str(link)), "")
    assert found == device
    mapper = plugin.new_block_volume_mapper(raw(str(link)), POD)
    path = mapper.get_pod_device_map_path()
    assert path == str(tmp_path / "node/pods/pod-uid/volumeDevices/kubernetes.io~local-volume/pv")
    for target in ("/dev/another", found, found):  # also when another device was there before
        await mapper.map_pod_device(target)
    assert os.path.realpath(path) == device
    for _ in range(2):
        await plugin.new_block_volume_unmapper("pv", "pod-uid").unmap_pod_device()
    assert not os.path.lexists(path)


async def test_what_is_no_block_device_is_not_given_as_one(host: NodeVolumeHost, tmp_path: Path):
    plugin = local.plugin()
    plugin.init(host)
    with pytest.raises(InvalidSpec, match="not a block device"):
        await plugin.set_up_device(raw(str(tmp_path)), "")

"""A directory that lives as long as its pod."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mooring.kube.objects import EmptyDirVolumeSource, ObjectMeta, Pod, Volume
from mooring.mounts.errors import DeviceBusy
from mooring.mounts.host import HostMounts
from mooring.volumes.directories import remove_tree
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.plugins.emptydir import EmptyDirPlugin, plugin
from mooring.volumes.spec import VolumeSpec

POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid"))


@pytest.fixture
def empty_dirs(tmp_path: Path) -> EmptyDirPlugin:
    async def nothing(namespace: str, name: str) -> None:
        return None

    made = plugin()
    now = datetime(2030, 1, 1, tzinfo=UTC)
    made.init(NodeVolumeHost("a", tmp_path, HostMounts(), lambda: now, nothing, nothing))
    return made


def volume(**source: str) -> VolumeSpec:
    return VolumeSpec.of_volume(Volume(name="cache", empty_dir=EmptyDirVolumeSource(**source)))


async def test_anybody_may_write_into_a_new_one_and_its_content_stays_until_tear_down(
    empty_dirs: EmptyDirPlugin,
):
    mounter = empty_dirs.new_mounter(volume(), POD)
    await mounter.set_up()
    path = Path(mounter.get_path())
    assert path.stat().st_mode & 0o7777 == 0o777
    (path / "file").touch()
    await mounter.set_up()
    assert (path / "file").exists()
    for _ in range(2):
        await empty_dirs.new_unmounter("cache", "pod-uid").tear_down()
    assert not path.exists()


async def test_the_mode_that_a_pod_gave_its_directory_survives_a_restart_of_the_agent(
    empty_dirs: EmptyDirPlugin,
):
    mounter = empty_dirs.new_mounter(volume(), POD)
    await mounter.set_up()
    path = Path(mounter.get_path())
    (path / "file").touch()
    path.chmod(0o700)
    await mounter.set_up()
    assert path.stat().st_mode & 0o7777 == 0o700


async def test_a_group_gets_the_directory(empty_dirs: EmptyDirPlugin):
    mounter = empty_dirs.new_mounter(volume(), POD)
    await mounter.set_up(fs_group=os.getgid())
    status = os.stat(mounter.get_path())
    assert (status.st_gid, status.st_mode & 0o2070) == (os.getgid(), 0o2070)


@pytest.mark.parametrize(
    ("source", "match"),
    [({"medium": "HugePages"}, "medium"), ({"medium": "Memory", "size_limit": "x"}, "sizeLimit")],
)
async def test_what_cannot_be_made_is_refused_naming_the_volume(
    empty_dirs: EmptyDirPlugin, source: dict[str, str], match: str
):
    with pytest.raises(InvalidSpec, match=f"emptyDir cache has {match}"):
        await empty_dirs.new_mounter(volume(**source), POD).set_up()


@pytest.mark.root
async def test_in_memory_it_is_a_tmpfs_of_the_given_size_and_gone_after_tear_down(empty_dirs: EmptyDirPlugin):
    mounter = empty_dirs.new_mounter(volume(medium="Memory", size_limit="4Mi"), POD)
    for _ in range(2):
        await mounter.set_up()
    assert (await mounter.get_metrics()).capacity == 4 * 1024 * 1024
    assert stat.S_IMODE(Path(mounter.get_path()).stat().st_mode) == 0o1777, "as any tmpfs, and upstream's"
    with pytest.raises(OSError, match="No space left"):
        Path(mounter.get_path(), "big").write_bytes(bytes(5 * 1024 * 1024))
    for _ in range(2):
        await empty_dirs.new_unmounter("cache", "pod-uid").tear_down()
    assert not Path(mounter.get_path()).exists()


@pytest.mark.root
async def test_what_is_mounted_inside_is_never_removed_with_it(empty_dirs: EmptyDirPlugin, tmp_path: Path):
    mounter = empty_dirs.new_mounter(volume(), POD)
    await mounter.set_up()
    inside = f"{mounter.get_path()}/inside"
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    await HostMounts().bind_mount(str(precious), inside)
    with pytest.raises(DeviceBusy, match="mounted there"):
        await empty_dirs.new_unmounter("cache", "pod-uid").tear_down()
    await HostMounts().unmount(inside)
    await empty_dirs.new_unmounter("cache", "pod-uid").tear_down()
    assert (precious / "file").exists()


def test_removing_what_is_not_there_is_success(tmp_path: Path):
    remove_tree(str(tmp_path / "nothing"))
    assert list(tmp_path.iterdir()) == []


async def test_what_is_above_its_limit_on_disk_is_told(empty_dirs: EmptyDirPlugin):
    mounter = empty_dirs.new_mounter(volume(size_limit="64Ki"), POD)
    await mounter.set_up()
    assert await mounter.limit_exceeded() is None
    Path(mounter.get_path(), "big").write_bytes(b"x" * 100_000)
    assert await mounter.limit_exceeded() == 'Usage of EmptyDir volume "cache" exceeds the limit "64Ki".'
    assert (await mounter.get_metrics()).capacity == 64 * 1024


async def test_without_a_limit_nothing_is_too_much(empty_dirs: EmptyDirPlugin):
    mounter = empty_dirs.new_mounter(volume(), POD)
    await mounter.set_up()
    Path(mounter.get_path(), "big").write_bytes(b"x" * 100_000)
    assert await mounter.limit_exceeded() is None

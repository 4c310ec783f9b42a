"""Files, directories and devices of the node, as they are."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from mooring.kube.objects import (
    HostPathVolumeSource,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeSpec,
    Pod,
    Volume,
)
from mooring.volumes.errors import InvalidSpec, VolumeError
from mooring.volumes.host import NodeVolumeHost
from mooring.volumes.interfaces import MetricsNotSupported
from mooring.volumes.plugins.hostpath import HostPathPlugin, check_host_path, plugin
from mooring.volumes.spec import VolumeSpec

POD = Pod(metadata=ObjectMeta(name="web-0", namespace="shop", uid="pod-uid"))


@pytest.fixture
def host_paths(host: NodeVolumeHost) -> HostPathPlugin:
    made = plugin()
    made.init(host)
    return made


def spec(path: Path, kind: str | None = None) -> VolumeSpec:
    return VolumeSpec.of_volume(Volume(name="v", host_path=HostPathVolumeSource(path=str(path), type=kind)))


def make(path: Path, kind: str) -> None:
    match kind:
        case "directory":
            path.mkdir()
        case "file":
            path.touch()
        case "socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(str(path))
        case _:
            pass


FITS = [
    ("directory", "Directory"),
    ("directory", "DirectoryOrCreate"),
    ("nothing", "DirectoryOrCreate"),
    ("file", "File"),
    ("file", "FileOrCreate"),
    ("nothing", "FileOrCreate"),
    ("socket", "Socket"),
]


@pytest.mark.parametrize(("there", "kind"), FITS)
def test_what_is_there_or_can_be_made_is_taken(tmp_path: Path, there: str, kind: str):
    path = tmp_path / "v"
    make(path, there)
    check_host_path(str(path), kind)
    assert path.is_dir() if kind.startswith("Directory") else path.exists()


@pytest.mark.parametrize("kind", ["Directory", "File", "Socket", "CharDevice", "BlockDevice"])
def test_what_is_not_there_is_refused(tmp_path: Path, kind: str):
    with pytest.raises(VolumeError, match=f"does not exist on this node, and must be a {kind}"):
        check_host_path(str(tmp_path / "v"), kind)


@pytest.mark.parametrize(
    ("there", "kind"),
    [
        ("directory", "File"),
        ("directory", "FileOrCreate"),
        ("file", "Directory"),
        ("file", "DirectoryOrCreate"),
        ("file", "Socket"),
        ("socket", "File"),
        ("file", "CharDevice"),
        ("file", "BlockDevice"),
    ],
)
def test_what_is_of_another_type_is_refused(tmp_path: Path, there: str, kind: str):
    make(tmp_path / "v", there)
    with pytest.raises(VolumeError, match=f"is not a {kind}"):
        check_host_path(str(tmp_path / "v"), kind)


def test_a_character_device_is_told_from_a_block_device():
    check_host_path("/dev/null", "CharDevice")
    with pytest.raises(VolumeError, match="is not a BlockDevice"):
        check_host_path("/dev/null", "BlockDevice")


@pytest.mark.parametrize("path", ["relative", "/a/../b"])
def test_a_path_that_may_lead_anywhere_is_refused(path: str):
    with pytest.raises(InvalidSpec, match="absolute"):
        check_host_path(path, "")


def test_a_type_that_does_not_exist_is_refused(tmp_path: Path):
    with pytest.raises(InvalidSpec, match="choose one of DirectoryOrCreate"):
        check_host_path(str(tmp_path), "Folder")


async def test_a_pod_gets_the_path_itself_and_leaves_it_as_it_was(host_paths: HostPathPlugin, tmp_path: Path):
    path = tmp_path / "v"
    path.mkdir(mode=0o700)
    mounter = host_paths.new_mounter(spec(path), POD)
    await mounter.set_up(fs_group=4242)
    assert mounter.get_path() == str(path)
    assert not mounter.get_attributes().managed
    assert path.stat().st_gid != 4242
    (path / "kept").touch()
    await host_paths.new_unmounter("v", "pod-uid").tear_down()
    assert (path / "kept").exists()


async def test_without_a_type_a_directory_is_made_where_nothing_is(
    host_paths: HostPathPlugin, tmp_path: Path
):
    await host_paths.new_mounter(spec(tmp_path / "a" / "v"), POD).set_up()
    assert stat.S_IMODE((tmp_path / "a" / "v").stat().st_mode) == 0o755


@pytest.mark.parametrize("there", ["file", "socket", "directory"])
async def test_without_a_type_anything_is_taken_as_it_is(
    host_paths: HostPathPlugin, tmp_path: Path, there: str
):
    make(tmp_path / "v", there)
    before = (tmp_path / "v").stat()
    await host_paths.new_mounter(spec(tmp_path / "v"), POD).set_up()
    assert (tmp_path / "v").stat().st_ino == before.st_ino


async def test_only_directories_have_metrics(host_paths: HostPathPlugin, tmp_path: Path):
    assert (await host_paths.new_mounter(spec(tmp_path), POD).get_metrics()).capacity > 0
    with pytest.raises(MetricsNotSupported):
        await host_paths.new_mounter(spec(Path("/dev/null")), POD).get_metrics()


def test_it_is_also_a_persistent_volume(host_paths: HostPathPlugin):
    source = HostPathVolumeSource(path="/srv/data")
    pv = PersistentVolume(metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(host_path=source))
    assert host_paths.can_support(VolumeSpec.of_persistent_volume(pv))
    assert host_paths.get_volume_name(VolumeSpec.of_persistent_volume(pv)) == "/srv/data"


async def test_recycling_empties_the_directory_and_says_so(host_paths: HostPathPlugin, tmp_path: Path):
    data, outside = tmp_path / "data", tmp_path / "outside"
    (data / "deep" / "er").mkdir(parents=True)
    (data / "deep" / "file").touch()
    outside.mkdir()
    (outside / "kept").touch()
    (data / "link").symlink_to(outside)
    events: list[Any] = []
    for _ in range(2):
        await host_paths.recycle("pv", spec(data), lambda kind, message: events.append((kind, message)))
    assert os.listdir(data) == []
    assert (outside / "kept").exists()
    assert events[0] == ("Normal", f"everything in {data} is being removed")


@pytest.mark.parametrize("path", ["/", "/home", "/home/.."])
async def test_nobody_means_to_recycle_a_top_level_directory(host_paths: HostPathPlugin, path: str):
    with pytest.raises(InvalidSpec, match="not recycled"):
        await host_paths.recycle("pv", spec(Path(path)), lambda kind, message: None)

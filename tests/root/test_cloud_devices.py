"""An attached volume is a block device of its instance; one that is in use is not taken away."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from mooring.cloud.devices import BY_ID, GIB, LoopDevices
from mooring.cloud.errors import VolumeBusy
from mooring.mounts import loop

pytestmark = pytest.mark.root

HERE, THERE = "i-0a", "i-0b"
VOLUME = "vol-0123"


class CloudFolder(LoopDevices):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.root = root

    def by_id(self, instance: str, volume: str = VOLUME) -> Path:
        return self.device_directory(instance) / "disk/by-id" / (BY_ID + volume.replace("-", ""))

    def medium(self, volume: str = VOLUME) -> Path:
        return self.root / "volumes" / f"{volume}.img"


@pytest.fixture
async def cloud(tmp_path: Path) -> CloudFolder:
    made = CloudFolder(tmp_path)
    await made.create(VOLUME, 1)
    return made


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Generator[None]:
    yield
    for medium in (tmp_path / "volumes").glob("*"):
        for device in loop.devices_of(str(medium)):
            loop.remove(device, str(medium))


@pytest.fixture
def mounted(tmp_path: Path) -> Generator[Path]:
    path = tmp_path / "mounted"
    path.mkdir()
    yield path
    subprocess.run(["umount", path], check=False, stderr=subprocess.DEVNULL)


def format_and_mount(device: Path, where: Path) -> None:
    subprocess.run(["mkfs.ext4", "-q", os.path.realpath(device)], check=True)
    subprocess.run(["mount", os.path.realpath(device), where], check=True)


def unmount(where: Path) -> None:
    subprocess.run(["umount", where], check=True)


def holder_of(device: Path) -> subprocess.Popen[bytes]:
    with open(device) as opened:
        return subprocess.Popen(["sleep", "600"], stdin=opened)


def size_of(device: Path | str) -> int:
    with open(device, "rb") as opened:
        return opened.seek(0, os.SEEK_END)


async def test_an_attached_volume_has_the_name_that_was_asked_for_and_that_of_its_serial(
    cloud: CloudFolder,
) -> None:
    await cloud.attach(VOLUME, HERE, "/dev/xvdba")
    device = os.path.realpath(cloud.by_id(HERE))
    assert os.path.realpath(cloud.device_directory(HERE) / "xvdba") == device
    assert size_of(device) == GIB
    await cloud.detach(VOLUME, HERE)
    assert not cloud.by_id(HERE).is_symlink()
    assert loop.backing_file(device) is None


async def test_to_attach_again_changes_nothing(cloud: CloudFolder) -> None:
    await cloud.attach(VOLUME, HERE, "/dev/xvdba")
    before = os.path.realpath(cloud.by_id(HERE))
    await cloud.attach(VOLUME, HERE, "/dev/xvdba")
    assert os.path.realpath(cloud.by_id(HERE)) == before
    assert loop.devices_of(str(cloud.medium())) == [before]


async def test_a_device_that_was_made_and_not_linked_is_used(cloud: CloudFolder) -> None:
    left_over = loop.create(str(cloud.medium()))
    await cloud.attach(VOLUME, HERE, "/dev/xvdba")
    assert os.path.realpath(cloud.by_id(HERE)) == left_over


async def test_a_link_from_before_a_reboot_leads_to_the_volume_again(cloud: CloudFolder) -> None:
    await cloud.create("vol-0456", 1)
    await cloud.attach("vol-0456", THERE, "/dev/xvdba")
    foreign = os.path.realpath(cloud.by_id(THERE, "vol-0456"))
    cloud.by_id(HERE).parent.mkdir(parents=True)
    for link in (cloud.by_id(HERE), cloud.device_directory(HERE) / "xvdba"):
        link.symlink_to(foreign)
    await cloud.attach(VOLUME, HERE, "/dev/xvdba")
    assert loop.is_device_of(str(cloud.by_id(HERE)), str(cloud.medium()))
    assert os.path.realpath(cloud.by_id(THERE, "vol-0456")) == foreign


async def test_a_stale_link_does_not_cost_another_volume_its_device(cloud: CloudFolder) -> None:
    await cloud.create("vol-0456", 1)
    await cloud.attach("vol-0456", THERE, "/dev/xvdba")
    foreign = os.path.realpath(cloud.by_id(THERE, "vol-0456"))
    cloud.by_id(HERE).parent.mkdir(parents=True)
    cloud.by_id(HERE).symlink_to(foreign)
    await cloud.detach(VOLUME, HERE)
    assert loop.backing_file(foreign) == str(cloud.medium("vol-0456"))
    assert not cloud.by_id(HERE).is_symlink()


async def test_a_mounted_volume_is_not_taken_away_and_the_error_says_where_it_is_mounted(
    cloud: CloudFolder, mounted: Path
) -> None:
    await cloud.attach(VOLUME, HERE, "/dev/xvdba")
    format_and_mount(cloud.by_id(HERE), mounted)
    with pytest.raises(VolumeBusy, match=str(mounted)):
        await cloud.detach(VOLUME, HERE)
    (mounted / "still").write_text("there")
    unmount(mounted)
    await cloud.detach(VOLUME, HERE)


async def test_an_open_raw_device_is_not_taken_away(cloud: CloudFolder) -> None:
    await cloud.attach(VOLUME, HERE, "/dev/xvdba")
    holder = holder_of(cloud.by_id(HERE))
    try:
        with pytest.raises(VolumeBusy, match="sleep"):
            await cloud.detach(VOLUME, HERE)
    finally:
        holder.kill()
        holder.wait()
    await cloud.detach(VOLUME, HERE)


async def test_force_stops_the_file_system_that_is_mounted(cloud: CloudFolder, mounted: Path) -> None:
    await cloud.attach(VOLUME, HERE, "/dev/xvdba")
    format_and_mount(cloud.by_id(HERE), mounted)
    with pytest.raises(VolumeBusy):
        await cloud.detach(VOLUME, HERE, force=True)
    with pytest.raises(OSError):
        (mounted / "late").write_text("no")
    unmount(mounted)
    await cloud.detach(VOLUME, HERE, force=True)


async def test_a_snapshot_keeps_the_moment_and_a_volume_begins_with_it(cloud: CloudFolder) -> None:
    await cloud.attach(VOLUME, HERE, "/dev/xvdba")
    cloud.by_id(HERE).write_bytes(b"before")
    await cloud.snapshot(VOLUME, "snap-1")
    cloud.by_id(HERE).write_bytes(b"after ")
    await cloud.create("vol-0456", 2, "snap-1")
    await cloud.create("vol-0789", 1, VOLUME)
    assert cloud.medium("vol-0456").read_bytes()[:6] == b"before"
    assert cloud.medium("vol-0789").read_bytes()[:6] == b"after "
    assert cloud.medium("vol-0456").stat().st_size == 2 * GIB
    await cloud.delete_snapshot("snap-1")
    await cloud.delete("vol-0456")
    assert not cloud.medium("vol-0456").exists()
    await cloud.detach(VOLUME, HERE)


async def test_an_attached_volume_grows(cloud: CloudFolder) -> None:
    await cloud.attach(VOLUME, HERE, "/dev/xvdba")
    await cloud.resize(VOLUME, 3)
    assert size_of(cloud.by_id(HERE)) == 3 * GIB
    await cloud.detach(VOLUME, HERE)


async def test_two_instances_have_devices_of_their_own(cloud: CloudFolder) -> None:
    await cloud.attach(VOLUME, HERE, "/dev/xvdba")
    await cloud.attach(VOLUME, THERE, "/dev/xvdba")
    assert os.path.realpath(cloud.by_id(HERE)) != os.path.realpath(cloud.by_id(THERE))
    await cloud.detach(VOLUME, HERE)
    assert loop.is_device_of(str(cloud.by_id(THERE)), str(cloud.medium()))
    await cloud.detach(VOLUME, THERE)

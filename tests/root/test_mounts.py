"""Real loop devices, file systems, mounts and mount namespaces."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from mooring.mounts import loop, syscalls
from mooring.mounts.commands import run
from mooring.mounts.errors import DeviceBusy, FilesystemCheckFailed, FilesystemMismatch, MountsError
from mooring.mounts.holders import device_number
from mooring.mounts.host import HostMounts
from mooring.mounts.interface import Content, Probe
from mooring.mounts.power_loss import shutdown_filesystem, shutdown_filesystems
from mooring.mounts.table import mounts_below, read_mount_table

pytestmark = pytest.mark.root

SIZE = 32 * 1024 * 1024
MOUNTS = HostMounts()


@pytest.fixture
def folder(tmp_path: Path) -> Generator[Path]:
    yield tmp_path
    for mount in mounts_below(read_mount_table(), str(tmp_path)):
        syscalls.unmount(mount.mount_point)


@pytest.fixture
def device(folder: Path) -> Generator[str]:
    """A blank loop device. It is torn down first of all, but after the mounts."""
    image = folder / "image"
    with open(image, "wb") as file:
        file.truncate(SIZE)
    made = loop.create(str(image))
    with ExitStack() as at_end:
        at_end.callback(loop.remove, made, str(image))
        at_end.callback(lambda: [syscalls.unmount(each.mount_point) for each in _below(folder)])
        yield made


def _below(folder: Path):
    return mounts_below(read_mount_table(), str(folder))


@contextmanager
def process_with(script: str, **options: object) -> Generator[subprocess.Popen[str]]:
    """A process that ran `script` and waits; it is ended at the end."""
    command = ["unshare", "-m", "--propagation", "private", "sh", "-ec", f"{script}\necho ready; read end"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
    ) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.stdin.close()
            process.wait()


def digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def write(device: str, content: bytes, offset: int = 0) -> None:
    with open(device, "r+b") as file:
        file.seek(offset)
        file.write(content)


# --- what a device holds


async def test_a_new_device_is_blank(device: str):
    assert await MOUNTS.probe(device) == Probe(Content.BLANK)


@pytest.mark.parametrize("offset", [0, 4096, 1024 * 1024 - 1, SIZE - 1])
async def test_a_single_byte_at_either_end_is_data(device: str, offset: int):
    write(device, b"x", offset)
    assert (await MOUNTS.probe(device)).content is Content.UNKNOWN


async def test_a_partition_table_is_recognised(device: str):
    entry = bytes([0, 0, 2, 0, 0x83, 0, 0, 0]) + (2048).to_bytes(4, "little") + (8192).to_bytes(4, "little")
    write(device, entry.ljust(64, b"\0") + b"\x55\xaa", 446)
    assert (await MOUNTS.probe(device)).content is Content.PARTITION_TABLE


# --- formatting and mounting


async def test_a_blank_device_is_formatted_and_mounted_and_mounted_again_without_harm(
    device: str, folder: Path
):
    target = str(folder / "mnt")
    await MOUNTS.format_and_mount(device, target, "ext4")
    Path(target, "file").write_text("kept")
    await MOUNTS.format_and_mount(device, target, "ext4")
    await MOUNTS.unmount(target)
    await MOUNTS.format_and_mount(device, target, "ext4")
    assert Path(target, "file").read_text() == "kept"
    assert [mount.mount_point for mount in _below(folder)] == [target]


async def test_mount_options_are_honoured(device: str, folder: Path):
    await MOUNTS.format_and_mount(device, str(folder / "mnt"), "ext4", ["noatime", "nodev"])
    assert _below(folder)[0].options >= {"noatime", "nodev"}


@pytest.mark.parametrize("content", [b"precious", None])
async def test_what_is_not_blank_is_never_formatted(device: str, folder: Path, content: bytes | None):
    if content is None:
        await run("mkfs.ext3", "-q", device)
    else:
        write(device, content, 4096)
    before = digest(device)
    with pytest.raises(FilesystemMismatch, match="neither formatted nor mounted"):
        await MOUNTS.format_and_mount(device, str(folder / "mnt"), "ext4")
    assert digest(device) == before
    assert _below(folder) == []


async def test_a_blank_device_is_not_formatted_for_a_read_only_mount(device: str, folder: Path):
    with pytest.raises(FilesystemMismatch, match="read-only"):
        await MOUNTS.format_and_mount(device, str(folder / "mnt"), "ext4", ["ro"])
    assert await MOUNTS.probe(device) == Probe(Content.BLANK)


async def test_damage_that_fsck_does_not_repair_by_itself_is_refused_with_its_words(
    device: str, folder: Path
):
    await run("mkfs.ext4", "-q", device)
    await run("debugfs", "-w", "-R", "clri <2>", device)
    await run("debugfs", "-w", "-R", "set_super_value state 2", device)
    with pytest.raises(FilesystemCheckFailed, match="RUN fsck MANUALLY"):
        await MOUNTS.format_and_mount(device, str(folder / "mnt"), "ext4")
    assert _below(folder) == []


async def test_damage_that_fsck_repairs_is_repaired_and_mounted(device: str, folder: Path):
    await run("mkfs.ext4", "-q", device)
    await run("debugfs", "-w", "-R", "set_super_value state 2", device)
    await run("debugfs", "-w", "-R", "set_super_value free_blocks_count 3", device)
    await MOUNTS.format_and_mount(device, str(folder / "mnt"), "ext4")
    assert os.statvfs(folder / "mnt").f_bfree > 3


async def test_a_device_that_another_mount_namespace_has_mounted_is_not_touched(device: str, folder: Path):
    await run("mkfs.ext4", "-q", device)
    (folder / "there").mkdir()
    with (
        process_with(f"mount {device} {folder}/there"),
        pytest.raises(DeviceBusy, match=f"mounted at {folder}/there"),
    ):
        await MOUNTS.format_and_mount(device, str(folder / "mnt"), "ext4")


async def test_a_mount_point_that_shows_something_else_is_refused(device: str, folder: Path):
    await MOUNTS.mount("tmpfs", str(folder / "mnt"), "tmpfs")
    with pytest.raises(DeviceBusy, match="tmpfs is mounted there"):
        await MOUNTS.format_and_mount(device, str(folder / "mnt"), "ext4")


CAP_SYS_RESOURCE = 24


def _has_capability(number: int) -> bool:
    status = Path("/proc/self/status").read_text()
    return bool(int(status.partition("CapEff:")[2].split()[0], 16) >> number & 1)


@pytest.mark.skipif(
    not _has_capability(CAP_SYS_RESOURCE), reason="a mounted ext4 grows with CAP_SYS_RESOURCE only"
)
async def test_a_file_system_grows_with_its_device(device: str, folder: Path):
    await MOUNTS.format_and_mount(device, str(folder / "mnt"), "ext4")
    before = os.statvfs(folder / "mnt").f_blocks
    os.truncate(folder / "image", 2 * SIZE)
    loop.set_capacity(device)
    await MOUNTS.resize(device, str(folder / "mnt"))
    await MOUNTS.resize(device, str(folder / "mnt"))
    assert os.statvfs(folder / "mnt").f_blocks > 1.5 * before


async def test_a_file_system_that_is_smaller_than_its_device_grows_when_it_is_mounted(
    device: str, folder: Path
):
    await MOUNTS.format_and_mount(device, str(folder / "mnt"), "ext4")
    (folder / "mnt" / "kept").write_text("kept")
    before = os.statvfs(folder / "mnt").f_blocks
    await MOUNTS.unmount(str(folder / "mnt"))
    os.truncate(folder / "image", 2 * SIZE)
    loop.set_capacity(device)
    for _ in range(2):
        await MOUNTS.format_and_mount(device, str(folder / "mnt"), "ext4")
        assert os.statvfs(folder / "mnt").f_blocks > 1.5 * before
        assert (folder / "mnt" / "kept").read_text() == "kept"
        await MOUNTS.resize(device, str(folder / "mnt"))  # nothing is left to do: that takes no capability
        await MOUNTS.unmount(str(folder / "mnt"))


# --- mount points


async def test_a_bind_mount_shows_the_same_and_can_be_read_only(folder: Path):
    (folder / "source").mkdir()
    (folder / "source" / "file").write_text("seen")
    for _ in range(2):
        await MOUNTS.bind_mount(str(folder / "source"), str(folder / "bound"), read_only=True)
    assert (folder / "bound" / "file").read_text() == "seen"
    with pytest.raises(OSError, match="Read-only"):
        (folder / "bound" / "other").touch()
    (folder / "source" / "other").touch()
    assert len(_below(folder)) == 1


async def test_a_target_that_shows_another_device_is_not_taken_for_the_one_that_is_asked_for(
    folder: Path, device: str
):
    image, target = folder / "other", folder / "raw"
    for path in (image, target):
        path.touch()
    os.truncate(image, SIZE)
    other = loop.create(str(image))
    try:
        for _ in range(2):
            await MOUNTS.bind_mount(other, str(target))
        with pytest.raises(DeviceBusy, match=f"is mounted there, not {device}"):
            await MOUNTS.bind_mount(device, str(target))
        assert device_number(str(target)) == device_number(other)
        await MOUNTS.unmount(str(target))
    finally:
        loop.remove(other, str(image))


async def test_paths_with_blanks_and_backslashes_are_mount_points_like_others(folder: Path):
    target = str(folder / "a b\\c\td")
    await MOUNTS.mount("tmpfs", target, "tmpfs")
    assert await MOUNTS.is_mount_point(target)
    await MOUNTS.remove_mount_point(target)
    assert not os.path.exists(target)


async def test_a_mount_point_below_a_linked_directory_is_found(folder: Path):
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    await MOUNTS.mount("tmpfs", str(folder / "real" / "mnt"), "tmpfs")
    assert await MOUNTS.is_mount_point(str(folder / "link" / "mnt"))
    await MOUNTS.unmount(str(folder / "link" / "mnt"))
    assert _below(folder) == []


async def test_unmounting_takes_all_layers_and_is_success_when_nothing_is_mounted(folder: Path):
    for _ in range(3):
        await MOUNTS.mount("tmpfs", str(folder / "mnt"), "tmpfs")
    await MOUNTS.unmount(str(folder / "mnt"))
    await MOUNTS.unmount(str(folder / "mnt"))
    await MOUNTS.unmount(str(folder / "no such directory"))
    assert _below(folder) == []


async def test_a_mount_in_use_is_not_unmounted_and_its_user_is_named(folder: Path):
    await MOUNTS.mount("tmpfs", str(folder / "mnt"), "tmpfs")
    (folder / "mnt" / "file").touch()
    descriptor = os.open(folder / "mnt" / "file", os.O_RDONLY)
    try:
        with pytest.raises(DeviceBusy, match=rf"used by process {os.getpid()} "):
            await MOUNTS.unmount(str(folder / "mnt"))
    finally:
        os.close(descriptor)
    assert await MOUNTS.is_mount_point(str(folder / "mnt"))


async def test_a_mount_below_another_is_named_as_its_user(folder: Path):
    await MOUNTS.mount("tmpfs", str(folder / "mnt"), "tmpfs")
    await MOUNTS.mount("tmpfs", str(folder / "mnt" / "sub"), "tmpfs")
    with pytest.raises(DeviceBusy, match=r"mounted below it: .*/mnt/sub"):
        await MOUNTS.unmount(str(folder / "mnt"))


async def test_a_mount_point_with_content_underneath_is_never_removed(folder: Path):
    (folder / "mnt").mkdir()
    (folder / "mnt" / "precious").touch()
    await MOUNTS.mount("tmpfs", str(folder / "mnt"), "tmpfs")
    with pytest.raises(MountsError, match="yet it holds files"):
        await MOUNTS.remove_mount_point(str(folder / "mnt"))
    assert (folder / "mnt" / "precious").exists()


async def test_references_of_a_mount_are_all_others_that_show_it(device: str, folder: Path):
    target, bound, part = (str(folder / name) for name in ("mnt", "bound", "part"))
    await MOUNTS.format_and_mount(device, target, "ext4")
    assert await MOUNTS.get_device_mount_refs(target) == []
    os.mkdir(f"{target}/dir")
    await MOUNTS.bind_mount(target, bound)
    await MOUNTS.bind_mount(f"{target}/dir", part)
    assert sorted(await MOUNTS.get_device_mount_refs(target)) == [bound, part]
    assert sorted(await MOUNTS.get_device_mount_refs(device)) == [bound, target, part]
    assert await MOUNTS.get_device_mount_refs(str(folder)) == []


# --- loop devices


def _autoclear(device: str) -> str:
    return Path(f"/sys/block/{Path(device).name}/loop/autoclear").read_text().strip()


def test_a_loop_device_is_found_by_its_file_also_after_that_was_deleted(device: str, folder: Path):
    image = folder / "image"
    assert loop.devices_of(str(image)) == [device]
    assert loop.is_device_of(device, str(image))
    image.unlink()
    assert loop.devices_of(str(image)) == [device]
    image.touch()
    assert not loop.is_device_of(device, str(image))


def test_removing_a_loop_device_again_is_success(device: str, folder: Path):
    image = str(folder / "image")
    loop.remove(device, image)
    loop.remove(device, image)
    assert loop.devices_of(image) == []


def test_a_number_that_another_file_has_by_now_is_left_alone(device: str, folder: Path):
    """Another program may have taken it since its former device was looked up."""
    loop.remove(device, str(folder / "former"))
    assert loop.devices_of(str(folder / "image")) == [device]


def test_a_device_mounted_in_another_mount_namespace_is_not_removed_nor_marked_for_it(
    device: str, folder: Path
):
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    (folder / "mnt").mkdir()
    with process_with(f"mount {device} {folder}/mnt") as process:
        with pytest.raises(
            DeviceBusy, match=rf"mounted at {folder}/mnt in the mount namespace of process {process.pid} "
        ):
            loop.remove(device, str(folder / "image"))
        assert (loop.backing_file(device), _autoclear(device)) == (str(folder / "image"), "0")
    loop.remove(device, str(folder / "image"))


@pytest.mark.parametrize("how", ["<", "<>"])
def test_a_device_held_by_another_process_is_not_removed_nor_marked_for_it(
    device: str, folder: Path, how: str
):
    with process_with(f"exec 7{how}{device}") as process:
        with pytest.raises(DeviceBusy, match=rf"held open by process {process.pid} \(sh\)"):
            loop.remove(device, str(folder / "image"))
        assert (loop.backing_file(device), _autoclear(device)) == (str(folder / "image"), "0")
    loop.remove(device, str(folder / "image"))
    assert loop.backing_file(device) is None


async def test_many_at_once_each_get_a_device_of_their_own(folder: Path):
    images = [folder / f"image{number}" for number in range(12)]
    for image in images:
        image.write_bytes(bytes(4096))
    made = await asyncio.gather(*(asyncio.to_thread(loop.create, str(image)) for image in images))
    try:
        assert len(set(made)) == len(images)
        assert [loop.backing_file(device) for device in made] == [str(image) for image in images]
    finally:
        for device, image in zip(made, images, strict=True):
            loop.remove(device, str(image))


# --- power


def _keep(path: Path, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


async def test_a_power_failure_loses_what_was_not_fsynced_and_keeps_what_was(device: str, folder: Path):
    target = folder / "mnt"
    await MOUNTS.format_and_mount(device, str(target), "ext4")
    _keep(target / "kept", "fsynced")
    (target / "lost").write_text("only in memory")
    shutdown_filesystem(str(target))
    await MOUNTS.unmount(str(target))
    await MOUNTS.format_and_mount(device, str(target), "ext4")
    assert (target / "kept").read_text() == "fsynced"
    assert not (target / "lost").exists()


async def test_after_a_power_failure_every_io_of_the_old_mount_fails(device: str, folder: Path):
    target = folder / "mnt"
    await MOUNTS.format_and_mount(device, str(target), "ext4")
    file = os.open(target / "file", os.O_WRONLY | os.O_CREAT)
    try:
        shutdown_filesystem(str(target))
        with pytest.raises(OSError) as caught:
            os.write(file, b"x")
            os.fsync(file)
        assert caught.value.errno == errno.EIO
        with pytest.raises(OSError):
            (target / "new").touch()
    finally:
        os.close(file)


async def test_the_file_systems_of_one_machine_lose_power_wherever_it_mounted_them(device: str, folder: Path):
    """Also where another mount hides one of the mount points; mounts of other devices are left alone."""
    await run("mkfs.ext4", "-q", device)
    script = f"cd {folder}; mount {device} hidden; mount --bind hidden seen; mount -t tmpfs none hidden"
    for name in ("hidden", "seen"):
        (folder / name).mkdir()
    with process_with(script) as process:
        number = device_number(device)
        assert shutdown_filesystems([number, (7, 250)], process.pid) == [number]
        with pytest.raises(OSError):
            Path(f"/proc/{process.pid}/root{folder}/seen/file").touch()
        Path(f"/proc/{process.pid}/root{folder}/hidden/file").touch()


def test_a_file_system_that_cannot_lose_power_is_named(folder: Path):
    with process_with(f"mount -t tmpfs none {folder}") as process:
        table = read_mount_table(process.pid)
        number = next(mount.device for mount in table if mount.mount_point == str(folder))
        with pytest.raises(MountsError, match=str(folder)):
            shutdown_filesystems([number], process.pid)


def test_a_new_loop_device_can_be_written_though_its_number_was_read_only_before(tmp_path: Path):
    backing = tmp_path / "disk"
    backing.write_bytes(bytes(1024 * 1024))
    first = losetup("--find", "--show", str(backing))
    subprocess.run(["blockdev", "--setro", first], check=True)
    losetup("--detach", first)
    devices = [loop.create(str(backing))]
    while devices[-1] != first and len(devices) < 8:
        devices.append(loop.create(str(backing)))
    try:
        assert first in devices
        with open(first, "r+b") as device:
            device.write(b"x" * 512)
    finally:
        for device in devices:
            loop.remove(device, str(backing))
        subprocess.run(["blockdev", "--setrw", first], check=True)


@pytest.mark.parametrize("read_only", [True, False])
def test_the_number_of_a_removed_device_can_be_written_by_whatever_has_it_next(
    tmp_path: Path, read_only: bool
):
    """The kernel keeps "read-only" for a number: mkfs of the next device would fail with EPERM."""
    backing = tmp_path / "disk"
    backing.write_bytes(bytes(1024 * 1024))
    device = loop.create(str(backing), read_only=read_only)
    subprocess.run(["blockdev", "--setro", device], check=True)
    loop.remove(device, str(backing))
    devices = [losetup("--find", "--show", str(backing))]
    while devices[-1] != device and len(devices) < 8:
        devices.append(losetup("--find", "--show", str(backing)))
    try:
        assert device in devices
        with open(device, "r+b") as written:
            written.write(b"x" * 512)
    finally:
        losetup("--detach", *devices)


def losetup(*words: str) -> str:
    return subprocess.run(["losetup", *words], check=True, capture_output=True, text=True).stdout.strip()

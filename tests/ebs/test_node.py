"""The node service with real devices, file systems and mounts: what it does, and what it refuses."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import Awaitable, Generator
from pathlib import Path
from typing import Any

import pytest
from ebs_machine import OTHER, SIZE, TIMEOUT_S, VOLUME, XFS_SIZE, EbsMachine, mounted, raw

from mooring.csi.driver.services import AccessMode
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.mounts import loop
from mooring.mounts.commands import run
from mooring.mounts.holders import device_number
from mooring.mounts.host import HostMounts
from mooring.mounts.table import mount_at, read_mount_table

pytestmark = pytest.mark.root
CAP_SYS_RESOURCE = 24
needs_xfs = pytest.mark.skipif(shutil.which("mkfs.xfs") is None, reason="mkfs.xfs is not installed")


def may_grow_mounted() -> bool:
    status = Path("/proc/self/status").read_text()
    return bool(int(status.partition("CapEff:")[2].split()[0], 16) >> CAP_SYS_RESOURCE & 1)


@pytest.fixture
def machine(tmp_path: Path) -> Generator[EbsMachine]:
    made = EbsMachine(tmp_path)
    yield made
    made.clean_up()


async def refused(call: Awaitable[Any]) -> CsiError:
    with pytest.raises(CsiError) as caught:
        await call
    return caught.value


def digest(device: str) -> str:
    return hashlib.sha256(Path(device).read_bytes()).hexdigest()


def write(device: str, content: bytes, offset: int) -> None:
    with open(device, "r+b") as file:
        file.seek(offset)
        file.write(content)


# --- a volume's life


@pytest.mark.parametrize("fs_type", ["", "ext3", "ext4", pytest.param("xfs", marks=needs_xfs)])
async def test_what_was_written_is_there_when_the_volume_is_mounted_again(machine: EbsMachine, fs_type: str):
    machine.attach(size=XFS_SIZE)
    for content in ("", "kept"):
        await machine.stage(mounted(fs_type))
        target = await machine.publish(mounted(fs_type))
        file = target / "file"
        assert (file.read_text() if file.exists() else "") == content
        file.write_text("kept")
        shown = mount_at(read_mount_table(), str(target))
        assert shown is not None
        assert shown.fs_type == (fs_type or "ext4")
        await machine.unpublish()
        assert not target.exists()
        await machine.unstage()
        assert machine.mounts() == []


async def test_every_step_can_be_repeated(machine: EbsMachine):
    machine.attach()
    for _ in range(3):
        await machine.stage()
    for _ in range(3):
        await machine.publish()
    assert len(machine.mounts()) == 2
    for _ in range(3):
        await machine.unpublish()
    for _ in range(3):
        await machine.unstage()
    assert machine.mounts() == []


async def test_a_raw_volume_is_its_device(machine: EbsMachine):
    device = machine.attach()
    for _ in range(2):
        await machine.stage(raw())
        target = await machine.publish(raw())
    assert device_number(str(target)) == device_number(device)
    [usage] = await machine.stats(target)
    assert (usage.total, usage.unit) == (SIZE, csi.VolumeUsage.Unit.BYTES)
    await machine.unpublish()
    await machine.unpublish()
    await machine.unstage()
    assert not target.exists()
    assert machine.mounts() == []


async def test_a_volume_can_be_at_several_targets_of_the_node(machine: EbsMachine):
    machine.attach()
    await machine.stage()
    first, second = await machine.publish(target="a"), await machine.publish(target="b", readonly=True)
    (first / "file").write_text("seen")
    assert (second / "file").read_text() == "seen"
    with pytest.raises(OSError, match="Read-only"):
        (second / "file").write_text("")


async def test_mount_flags_and_format_parameters_are_honoured(machine: EbsMachine):
    device = machine.attach()
    context = {"blocksize": "1024", "inodesize": "512", "storage.kubernetes.io/csiProvisionerIdentity": "x"}
    await machine.stage(mounted("ext4", ["noatime", "nodev"]), context=context)
    shown = mount_at(read_mount_table(), str(machine.staging()))
    assert shown is not None
    assert shown.options >= {"noatime", "nodev"}
    _, words = await run("dumpe2fs", "-h", device)
    assert "Block size:               1024" in words
    assert "Inode size:	          512" in words


async def test_a_target_that_shows_the_volume_otherwise_is_said_to_exist(machine: EbsMachine):
    machine.attach()
    await machine.stage()
    await machine.publish()
    assert (await refused(machine.publish(readonly=True))).code is Code.ALREADY_EXISTS


async def test_a_volume_that_is_not_staged_is_not_published(machine: EbsMachine):
    machine.attach()
    error = await refused(machine.publish())
    assert error.code is Code.FAILED_PRECONDITION
    assert "not staged" in error.message
    assert machine.mounts() == []


async def test_another_volume_at_the_target_is_left_alone(machine: EbsMachine):
    machine.attach()
    machine.attach(OTHER, name="xvdbb")
    for volume, name in ((VOLUME, "/dev/xvdba"), (OTHER, "/dev/xvdbb")):
        await machine.stage(raw(), volume=volume, attached_as=name)
    await machine.publish(raw(), volume=OTHER, attached_as="/dev/xvdbb")
    assert (await refused(machine.publish(raw()))).code is Code.FAILED_PRECONDITION


async def test_a_partition_can_be_the_volume(machine: EbsMachine):
    machine.attach()
    error = await refused(machine.stage(context={"partition": "1"}))
    assert error.code is Code.NOT_FOUND
    assert "no partition 1" in error.message
    assert (await refused(machine.stage(context={"partition": "1;id"}))).code is Code.INVALID_ARGUMENT


@needs_xfs
async def test_two_xfs_volumes_of_one_snapshot_can_be_on_one_node(machine: EbsMachine):
    machine.attach(size=XFS_SIZE)
    await machine.stage(mounted("xfs"))
    await machine.unstage()
    shutil.copyfile(machine.root / f"{VOLUME}.img", machine.root / f"{OTHER}.img")
    machine.attach(OTHER, name="xvdbb")
    await machine.stage(mounted("xfs"))
    await machine.stage(mounted("xfs"), volume=OTHER, attached_as="/dev/xvdbb")
    assert len(machine.mounts()) == 2


@needs_xfs
async def test_an_xfs_for_old_kernels_is_made_without_what_they_do_not_know(machine: EbsMachine):
    machine.attach(size=XFS_SIZE)
    machine.restart(HostMounts(), legacy_xfs=True)
    await machine.stage(mounted("xfs"), context={"blocksize": "2048"})
    _, words = await run("xfs_info", str(machine.staging()))
    for feature in ("bigtime=0", "inobtcount=0", "reflink=0", "nrext64=0", "bsize=2048"):
        assert feature in words


# --- the device is the volume's


async def test_a_link_is_enough_if_the_name_says_nothing(machine: EbsMachine):
    machine.attach(name="xvdzz")
    await machine.stage(attached_as="/dev/xvdba")
    assert len(machine.mounts()) == 1


@pytest.mark.parametrize("end", ["-ns-1", "_1"])
async def test_links_are_found_as_udev_makes_them(machine: EbsMachine, end: str):
    machine.attach(name="xvdzz", image="disk.img")
    machine.link().rename(machine.link(end=end))
    await machine.stage()
    assert len(machine.mounts()) == 1


async def test_a_name_that_leads_to_another_volume_is_not_followed(machine: EbsMachine):
    device = machine.attach(OTHER)
    before = digest(device)
    error = await refused(machine.stage())
    assert error.code is Code.FAILED_PRECONDITION
    assert f"which is {OTHER}" in error.message
    assert digest(device) == before
    assert machine.mounts() == []


async def test_a_link_that_was_left_behind_is_not_followed(machine: EbsMachine):
    machine.link().symlink_to(machine.attach(OTHER, name="xvdbb"))
    error = await refused(machine.stage())
    assert error.code is Code.FAILED_PRECONDITION
    assert machine.mounts() == []


async def test_a_link_that_was_left_behind_is_not_followed_to_a_disk_that_says_nothing(machine: EbsMachine):
    machine.link().symlink_to(machine.attach(OTHER, name="xvdbb", image="disk.img"))
    error = await refused(machine.stage())
    assert error.code is Code.FAILED_PRECONDITION
    assert VOLUME in error.message
    assert OTHER in error.message


async def test_the_right_device_is_used_beside_a_name_that_leads_elsewhere(machine: EbsMachine):
    machine.attach(OTHER, name="xvdba")
    right = machine.attach(VOLUME, name="xvdbb")
    await machine.stage()
    shown = mount_at(read_mount_table(), str(machine.staging()))
    assert shown is not None
    assert shown.device == device_number(right)


async def test_a_device_that_nothing_names_is_not_used(machine: EbsMachine):
    machine.attach(image="disk.img")
    machine.link().unlink()
    error = await refused(machine.stage())
    assert error.code is Code.FAILED_PRECONDITION
    assert "does not say what it is" in error.message


async def test_a_device_that_is_not_there_is_not_found(machine: EbsMachine):
    assert (await refused(machine.stage())).code is Code.NOT_FOUND
    machine.attach()
    machine.link().unlink()
    (machine.dev / "xvdba").unlink()
    (machine.dev / "xvdba").symlink_to("/dev/null")
    machine.link().symlink_to("/etc/passwd")
    assert (await refused(machine.stage())).code is Code.NOT_FOUND


async def test_a_device_that_appears_a_little_later_is_waited_for(machine: EbsMachine):
    machine.restart(HostMounts(), device_wait_s=60)
    call = asyncio.create_task(machine.stage())
    await asyncio.sleep(0.05)
    assert not call.done()
    machine.attach()
    await call
    assert len(machine.mounts()) == 1


@pytest.mark.parametrize(
    "name", ["/dev/../etc/passwd", "/dev/a b", "xvdba", "/dev/", "/dev/xvdba\n", "$(id)", ""]
)
async def test_a_device_path_that_cannot_be_one_is_invalid(machine: EbsMachine, name: str):
    machine.attach()
    assert (await refused(machine.stage(attached_as=name))).code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize("volume", ["fake-vol-id", "vol-../../x", "vol-0123;id", "disk1", "vol-"])
async def test_an_id_that_is_none_is_not_found(machine: EbsMachine, volume: str):
    error = await refused(machine.publish(volume=volume.replace("/", "_")))
    assert error.code in (Code.NOT_FOUND, Code.FAILED_PRECONDITION)
    assert (await refused(machine.stats(machine.staging(), volume=volume))).code is Code.NOT_FOUND


# --- what the device holds


async def test_foreign_data_is_never_formatted(machine: EbsMachine):
    device = machine.attach()
    write(device, b"precious", SIZE - 10)
    before = digest(device)
    error = await refused(machine.stage())
    assert error.code is Code.FAILED_PRECONDITION
    assert "neither formatted nor mounted" in error.message
    assert digest(device) == before


async def test_another_file_system_than_asked_for_is_kept(machine: EbsMachine):
    device = machine.attach()
    await run("mkfs.ext3", "-q", device)
    before = digest(device)
    assert (await refused(machine.stage(mounted("ext4")))).code is Code.FAILED_PRECONDITION
    assert digest(device) == before


async def test_a_damaged_file_system_is_refused_with_fscks_words(machine: EbsMachine):
    device = machine.attach()
    await run("mkfs.ext4", "-q", device)
    await run("debugfs", "-w", "-R", "clri <2>", device)
    await run("debugfs", "-w", "-R", "set_super_value state 2", device)
    content = Path(device).read_bytes()[
        4096:
    ]  # before that is the superblock, where fsck writes that it was here
    for _ in range(2):
        error = await refused(machine.stage())
        assert error.code is Code.FAILED_PRECONDITION
        assert "RUN fsck MANUALLY" in error.message
        assert Path(device).read_bytes()[4096:] == content
    assert machine.mounts() == []


async def test_what_is_left_of_a_device_that_has_gone_is_cleared_away(machine: EbsMachine, monkeypatch: Any):
    """The kernel does not let a mounted loop device go, so its going is played; the rest is real."""
    gone = machine.attach(OTHER, name="xvdbb")
    await run("mkfs.ext4", "-q", gone)
    await run("mount", gone, str(machine.staging()))
    machine.attach()
    finder = type(machine.devices)
    real = finder.disk_of
    number = device_number(gone)
    monkeypatch.setattr(finder, "disk_of", lambda self, asked: None if asked == number else real(self, asked))
    await machine.stage()
    shown = mount_at(read_mount_table(), str(machine.staging()))
    assert shown is not None
    assert shown.device != number


# --- sizes


async def test_a_file_system_grows_when_it_is_staged_on_a_larger_device(machine: EbsMachine):
    machine.attach()
    await machine.stage()
    before = os.statvfs(machine.staging()).f_blocks
    await machine.unstage()
    machine.grow(2 * SIZE)
    await machine.stage()
    assert os.statvfs(machine.staging()).f_blocks > 1.5 * before


@needs_xfs
async def test_xfs_grows_when_it_is_staged_on_a_larger_device(machine: EbsMachine):
    machine.attach(size=XFS_SIZE)
    await machine.stage(mounted("xfs"))
    before = os.statvfs(machine.staging()).f_blocks
    await machine.unstage()
    machine.grow(2 * XFS_SIZE)
    await machine.stage(mounted("xfs"))
    assert os.statvfs(machine.staging()).f_blocks > 1.5 * before


@pytest.mark.skipif(not may_grow_mounted(), reason="a mounted ext4 grows with CAP_SYS_RESOURCE only")
async def test_a_mounted_file_system_grows(machine: EbsMachine):
    machine.attach()
    await machine.stage()
    target = await machine.publish()
    before = os.statvfs(target).f_blocks
    machine.grow(2 * SIZE)
    for _ in range(2):
        assert await machine.expand(target, 2 * SIZE) == 2 * SIZE
    assert os.statvfs(target).f_blocks > 1.5 * before


async def test_a_raw_volume_has_grown_already(machine: EbsMachine):
    machine.attach()
    await machine.stage(raw())
    target = await machine.publish(raw())
    machine.grow(2 * SIZE)
    assert await machine.expand(target, 2 * SIZE) == 2 * SIZE


async def test_a_size_that_the_device_does_not_have_yet_is_to_be_asked_for_again(machine: EbsMachine):
    machine.attach()
    await machine.stage()
    error = await refused(machine.expand(machine.staging(), 2 * SIZE))
    assert error.code is Code.UNAVAILABLE
    assert "ControllerExpandVolume" in error.message


async def test_usage_is_of_bytes_and_inodes(machine: EbsMachine):
    machine.attach()
    await machine.stage()
    size, inodes = await machine.stats(machine.staging())
    assert (size.unit, inodes.unit) == (csi.VolumeUsage.Unit.BYTES, csi.VolumeUsage.Unit.INODES)
    assert 0 < size.available <= size.total <= SIZE
    assert inodes.used + inodes.available == inodes.total


@pytest.mark.parametrize("path", ["some/path", "{kubelet}/nothing", "{kubelet}/plugins", "/etc"])
async def test_a_path_where_the_volume_is_not_is_not_found(machine: EbsMachine, path: str):
    machine.attach()
    await machine.stage()
    where = path.format(kubelet=machine.kubelet)
    assert (await refused(machine.stats(where))).code is Code.NOT_FOUND
    assert (await refused(machine.expand(where, SIZE))).code is Code.NOT_FOUND


async def test_another_volume_at_the_path_is_not_found(machine: EbsMachine):
    machine.attach()
    await machine.stage()
    assert (await refused(machine.stats(machine.staging(), volume=OTHER))).code is Code.NOT_FOUND


# --- ways of use


@pytest.mark.parametrize(
    "capability",
    [
        mounted(mode=AccessMode.MULTI_NODE_MULTI_WRITER),
        mounted(mode=AccessMode.SINGLE_NODE_READER_ONLY),
        raw(AccessMode.MULTI_NODE_READER_ONLY),
        mounted("ntfs"),
        mounted("ext4; reboot"),
        mounted(flags=["bind"]),
        mounted(flags=["noatime; touch /tmp/pwned"]),
    ],
)
async def test_what_an_ebs_volume_is_not_for_is_invalid(
    machine: EbsMachine, capability: csi.VolumeCapability
):
    machine.attach()
    assert (await refused(machine.stage(capability))).code is Code.INVALID_ARGUMENT
    assert machine.mounts() == []


async def test_a_raw_volume_can_be_for_several_nodes(machine: EbsMachine):
    machine.attach()
    await machine.stage(raw(AccessMode.MULTI_NODE_MULTI_WRITER))
    path = await machine.publish(raw(AccessMode.MULTI_NODE_MULTI_WRITER))
    assert path.is_block_device()


@pytest.mark.parametrize("context", [{"blocksize": "4096 -E discard"}, {"ext4bigalloc": "true"}])
async def test_a_context_that_was_tampered_with_is_refused(machine: EbsMachine, context: dict[str, str]):
    device = machine.attach()
    before = digest(device)
    capability = mounted("ext3") if "ext4bigalloc" in context else mounted()
    assert (await refused(machine.stage(capability, context=context))).code is Code.INVALID_ARGUMENT
    assert digest(device) == before


async def test_the_node_says_who_it_is_and_what_it_can(machine: EbsMachine):
    info = await machine.node.node_get_info(csi.NodeGetInfoRequest(), timeout_s=TIMEOUT_S)
    assert info.node_id == "i-0123"
    assert info.max_volumes_per_node == 26
    assert info.accessible_topology.segments["topology.kubernetes.io/zone"] == "us-east-1a"
    reply = await machine.node.node_get_capabilities(csi.NodeGetCapabilitiesRequest(), timeout_s=TIMEOUT_S)
    types = csi.NodeServiceCapability.RPC.Type
    assert {types.Name(each.rpc.type) for each in reply.capabilities} == {
        "STAGE_UNSTAGE_VOLUME",
        "EXPAND_VOLUME",
        "GET_VOLUME_STATS",
    }


async def test_a_device_of_this_machine_that_is_no_volume_is_never_touched(machine: EbsMachine):
    """A loop device that belongs to another program, and to which a planted name leads."""
    image = machine.root / "somebody.img"
    image.write_bytes(bytes(SIZE))
    machine.images.append(image)
    (machine.dev / "xvdba").symlink_to(loop.create(str(image)))
    assert (await refused(machine.stage())).code is Code.FAILED_PRECONDITION
    assert image.read_bytes() == bytes(SIZE)

"""What a device holds, judged from blkid's answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mooring.mounts.commands import find_tool, run
from mooring.mounts.errors import CommandFailed, MountsError, ProbeFailed, ToolMissing
from mooring.mounts.filesystem import (
    ext_has_room,
    ext_size,
    filesystem_type,
    interpret_blkid,
    make_command,
    probe,
)
from mooring.mounts.interface import Content, Probe


def test_a_file_system_is_recognised_by_its_type():
    assert interpret_blkid("/dev/x", 0, "DEVNAME=/dev/x\nTYPE=ext4\n", True) == Probe(
        Content.FILESYSTEM, "ext4"
    )


def test_a_partition_table_is_not_a_file_system():
    assert interpret_blkid("/dev/x", 0, "DEVNAME=/dev/x\nPTTYPE=dos\n", True) == Probe(
        Content.PARTITION_TABLE, "dos"
    )


def test_no_signature_and_zeros_is_blank():
    assert interpret_blkid("/dev/x", 2, "", False) == Probe(Content.BLANK)


def test_no_signature_but_data_is_not_blank():
    assert interpret_blkid("/dev/x", 2, "", True) == Probe(Content.UNKNOWN)


def test_a_signature_that_has_no_type_is_not_blank():
    assert interpret_blkid("/dev/x", 0, "DEVNAME=/dev/x\n", False) == Probe(Content.UNKNOWN)


@pytest.mark.parametrize("status", [1, 4, 8, -9])
def test_any_other_answer_means_that_nothing_is_known(status: int):
    with pytest.raises(ProbeFailed, match="/dev/x"):
        interpret_blkid("/dev/x", status, "ambivalent", False)


async def test_a_device_that_cannot_be_read_is_not_blank():
    with pytest.raises(ProbeFailed, match="/no/such/device"):
        await probe("/no/such/device")


@pytest.mark.parametrize("fs_type", ["ext4", "xfs"])
def test_arguments_for_mkfs_come_before_the_device(fs_type: str):
    plain, more = make_command("/dev/x", fs_type), make_command("/dev/x", fs_type, ["-b", "1024"])
    assert plain[0] == more[0] == f"mkfs.{fs_type}"
    assert more == [*plain[:-1], "-b", "1024", "/dev/x"]


def test_braces_in_arguments_for_mkfs_are_only_braces():
    assert make_command("/dev/x", "ext4", ["{device}"])[-2:] == ["{device}", "/dev/x"]


def test_an_unknown_file_system_type_names_the_known_ones():
    with pytest.raises(MountsError, match=r"'zfs' is not known: choose one of .*ext4"):
        filesystem_type("zfs")


def test_a_missing_tool_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mooring.mounts.commands.SEARCH_PATH", "/nowhere")
    with pytest.raises(ToolMissing, match=r"mkfs\.ext4 is not installed .* e2fsprogs"):
        find_tool("mkfs.ext4")


@pytest.mark.parametrize("moments", range(6))
async def test_a_tool_whose_caller_is_cancelled_comes_to_its_end_even_while_it_starts(
    tmp_path: Path, moments: int
):
    call = asyncio.create_task(run("sh", "-c", f"sleep 0.1; touch {tmp_path}/done"))
    for _ in range(moments):
        await asyncio.sleep(0)
    began = moments > 0
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (tmp_path / "done").exists() == began


async def test_a_failed_command_shows_its_output_and_status():
    with pytest.raises(CommandFailed, match="exit status 3: no way"):
        await run("sh", "-c", "echo no way; exit 3")


def test_the_size_of_an_ext_file_system_is_in_its_superblock():
    superblock = bytearray(1024)
    superblock[4:8] = (8192).to_bytes(4, "little")
    superblock[24:28] = (2).to_bytes(4, "little")  # blocks of 4 KiB
    assert ext_size(bytes(superblock)) == 8192 * 4096
    superblock[336:340] = (1).to_bytes(4, "little")
    assert ext_size(bytes(superblock)) == 8192 * 4096, "the high half counts with the feature 64bit only"
    superblock[96:100] = (0x80).to_bytes(4, "little")
    assert ext_size(bytes(superblock)) == (8192 + 2**32) * 4096


def superblock_of(blocks: int) -> bytes:
    """As mkfs.ext4 writes it for 20G: 4 KiB blocks in groups of 32768, of which 513 have inodes."""
    found = bytearray(1024)
    for offset, value in ((4, blocks), (24, 2), (32, 32768), (40, 8208)):
        found[offset : offset + 4] = value.to_bytes(4, "little")
    found[88:90] = (256).to_bytes(2, "little")
    return bytes(found)


@pytest.mark.parametrize(("device_mib", "has_room"), [(19072, False), (19074, False), (19075, True)])
def test_what_is_too_small_for_a_group_of_blocks_is_no_room(device_mib: int, has_room: bool):
    """mkfs leaves it, and so does resize2fs: a whole check before each mount would be for nothing."""
    assert ext_has_room(superblock_of(149 * 32768), device_mib * 2**20) == has_room


@pytest.mark.parametrize(("more_mib", "has_room"), [(0, False), (0.5, False), (1, True)])
def test_a_last_group_grows_by_any_mebibyte(more_mib: float, has_room: bool):
    blocks = 100 * 32768 + 8192
    assert ext_has_room(superblock_of(blocks), blocks * 4096 + int(more_mib * 2**20)) == has_room

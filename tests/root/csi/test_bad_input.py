"""Whatever is asked of `disk.mooring.dev`: the right code, nothing executed, nothing outside its folders
touched."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from csi_answers import code_of
from fuzzed_driver import fuzz
from google.protobuf.message import Message

from mooring.csi.errors import Code
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import Controller, Node

from .conftest import SIZE, TIMEOUT_S, Disks, mounted

pytestmark = pytest.mark.root

FINE = {
    Code.OK,
    Code.INVALID_ARGUMENT,
    Code.NOT_FOUND,
    Code.ALREADY_EXISTS,
    Code.FAILED_PRECONDITION,
    Code.OUT_OF_RANGE,
    Code.UNIMPLEMENTED,
    Code.RESOURCE_EXHAUSTED,
    Code.ABORTED,
}


def test_fuzzed_requests(disks: Disks) -> None:
    """Requests of all kinds about a volume that is attached, staged and published, and about everything
    else."""
    asyncio.run(_mounted(disks))
    known = (
        "v1",
        "n1",
        "s1",
        "ext4",
        f"{disks.target()}",
        f"{disks.staging()}",
        f"{disks.kubelet}/../x",
        "noatime",
    )
    rpcs = [*Controller.methods(), *Node.methods()]
    fuzz(disks.client, rpcs, good_requests(disks), known, root=disks.root, fine=FINE, timeout_s=TIMEOUT_S)


def good_requests(disks: Disks) -> list[Message]:
    """A request that works for each method that changes something."""
    staging, target, use = str(disks.staging()), str(disks.target()), mounted("ext4", ("noatime",))
    size = csi.CapacityRange(required_bytes=SIZE)
    return [
        csi.CreateVolumeRequest(
            name="v1", capacity_range=size, volume_capabilities=[use], parameters={"fsType": "ext4"}
        ),
        csi.DeleteVolumeRequest(volume_id="v1"),
        csi.ControllerPublishVolumeRequest(volume_id="v1", node_id="n1", volume_capability=use),
        csi.ControllerUnpublishVolumeRequest(volume_id="v1", node_id="n1"),
        csi.ControllerExpandVolumeRequest(volume_id="v1", capacity_range=size, volume_capability=use),
        csi.CreateSnapshotRequest(source_volume_id="v1", name="s1"),
        csi.DeleteSnapshotRequest(snapshot_id="s1"),
        csi.ValidateVolumeCapabilitiesRequest(volume_id="v1", volume_capabilities=[use]),
        csi.NodeStageVolumeRequest(volume_id="v1", staging_target_path=staging, volume_capability=use),
        csi.NodeUnstageVolumeRequest(volume_id="v1", staging_target_path=staging),
        csi.NodePublishVolumeRequest(
            volume_id="v1", staging_target_path=staging, target_path=target, volume_capability=use
        ),
        csi.NodeUnpublishVolumeRequest(volume_id="v1", target_path=target),
        csi.NodeGetVolumeStatsRequest(volume_id="v1", volume_path=target, staging_target_path=staging),
        csi.NodeExpandVolumeRequest(
            volume_id="v1", volume_path=target, capacity_range=size, volume_capability=use
        ),
    ]


async def _mounted(disks: Disks) -> None:
    await disks.create()
    await disks.mount()


@pytest.mark.parametrize(
    "fs_type", ["ext4; reboot", "$(id)", "--help", "btrfs", "../ext4", "ext4\n", "tmpfs", "overlay"]
)
async def test_a_file_system_that_is_not_known_is_invalid(disks: Disks, fs_type: str) -> None:
    assert await code_of(disks.create(capability=mounted(fs_type))) is Code.INVALID_ARGUMENT
    await disks.create()
    await disks.attach()
    assert await code_of(disks.stage(capability=mounted(fs_type))) is Code.INVALID_ARGUMENT


async def test_a_volume_context_cannot_name_another_file_system(disks: Disks) -> None:
    await disks.create()
    await disks.attach()
    request = csi.NodeStageVolumeRequest(
        volume_id="v1",
        staging_target_path=str(disks.staging()),
        volume_capability=mounted(),
        volume_context={"fsType": "tmpfs; touch /tmp/pwned"},
    )
    assert await code_of(disks.node.node_stage_volume(request, timeout_s=TIMEOUT_S)) is Code.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "flag",
    [
        "noatime; touch /tmp/pwned",
        "$(touch /tmp/pwned)",
        "ro,bind",
        "bind",
        "remount",
        "loop",
        "offset=4096",
        "user",
        "-o",
        "--bind",
        "X-mount.mkdir",
        "x-systemd.automount",
        "",
        "a b",
        "noatime\n",
    ],
)
async def test_a_mount_option_that_is_none_is_invalid(disks: Disks, flag: str) -> None:
    assert await code_of(disks.create(capability=mounted(flags=(flag,)))) is Code.INVALID_ARGUMENT


async def test_a_planted_link_in_the_targets_place_is_not_followed(disks: Disks, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    await disks.create()
    await disks.attach()
    await disks.stage()
    disks.target().symlink_to(precious)
    assert await code_of(disks.publish()) is Code.INVALID_ARGUMENT
    assert await code_of(disks.unpublish()) is Code.INVALID_ARGUMENT
    disks.target().unlink()
    (disks.kubelet / "pods").rmdir()
    (disks.kubelet / "pods").symlink_to(precious)
    assert await code_of(disks.publish()) is Code.INVALID_ARGUMENT
    assert os.listdir(precious) == []


async def test_a_file_of_somebody_in_the_targets_place_is_kept(disks: Disks) -> None:
    disks.target().write_text("precious")
    assert await code_of(disks.unpublish()) in (Code.FAILED_PRECONDITION, Code.INTERNAL)
    assert disks.target().read_text() == "precious"


async def test_a_directory_with_files_in_the_targets_place_is_kept(disks: Disks) -> None:
    disks.target().mkdir()
    (disks.target() / "file").write_text("precious")
    assert await code_of(disks.unpublish()) is Code.FAILED_PRECONDITION
    assert (disks.target() / "file").read_text() == "precious"


@pytest.mark.parametrize("path", ["/etc", "/tmp", "/proc/self/root/tmp", "relative"])
async def test_a_path_outside_is_invalid(disks: Disks, path: str) -> None:
    for request, call in (
        (csi.NodeUnpublishVolumeRequest(volume_id="v1", target_path=path), disks.node.node_unpublish_volume),
        (
            csi.NodeUnstageVolumeRequest(volume_id="v1", staging_target_path=path),
            disks.node.node_unstage_volume,
        ),
    ):
        assert await code_of(call(request, timeout_s=TIMEOUT_S)) is Code.INVALID_ARGUMENT  # type: ignore[arg-type]


async def test_parameters_that_do_not_exist_or_cannot_be(disks: Disks) -> None:
    for given_ in (
        {"encrypted": "yes"},
        {"exclusive": "maybe"},
        {"attachDelaySeconds": "-1"},
        {"fsType": "ntfs;id"},
    ):
        assert await code_of(disks.create(parameters=given_)) is Code.INVALID_ARGUMENT
    await disks.create(parameters={"csi.storage.k8s.io/pvc/name": "data"})

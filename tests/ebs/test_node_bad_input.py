"""Whatever is asked of the node service: the right code, nothing executed, nothing outside its folders
touched."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from csi_answers import code_of
from ebs_machine import TIMEOUT_S, VOLUME, EbsMachine, mounted, raw
from fuzzed_driver import fuzz
from google.protobuf.message import Message

from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import Node

pytestmark = pytest.mark.root

FINE = {
    Code.OK,
    Code.INVALID_ARGUMENT,
    Code.NOT_FOUND,
    Code.ALREADY_EXISTS,
    Code.FAILED_PRECONDITION,
    Code.UNAVAILABLE,
    Code.UNIMPLEMENTED,
    Code.ABORTED,
}


@pytest.fixture
def machine(tmp_path: Path) -> Generator[EbsMachine]:
    made = EbsMachine(tmp_path)
    yield made
    made.clean_up()


def good_requests(machine: EbsMachine) -> list[Message]:
    staging, target, use = str(machine.staging()), str(machine.target()), mounted("ext4", ["noatime"])
    published = {"devicePath": "/dev/xvdba"}
    return [
        csi.NodeStageVolumeRequest(
            volume_id=VOLUME, staging_target_path=staging, volume_capability=use, publish_context=published
        ),
        csi.NodeUnstageVolumeRequest(volume_id=VOLUME, staging_target_path=staging),
        csi.NodePublishVolumeRequest(
            volume_id=VOLUME,
            staging_target_path=staging,
            target_path=target,
            volume_capability=use,
            publish_context=published,
        ),
        csi.NodeUnpublishVolumeRequest(volume_id=VOLUME, target_path=target),
        csi.NodeGetVolumeStatsRequest(volume_id=VOLUME, volume_path=target, staging_target_path=staging),
        csi.NodeExpandVolumeRequest(volume_id=VOLUME, volume_path=target),
    ]


def test_fuzzed_requests(machine: EbsMachine):
    """About a volume that is attached, perhaps staged and published, and about everything else."""
    machine.attach()
    known = (
        VOLUME,
        "devicePath",
        "/dev/xvdba",
        "partition",
        "blocksize",
        "ext4",
        str(machine.target()),
        "noatime",
    )
    fuzz(
        machine.client,
        Node.methods(),
        good_requests(machine),
        known,
        root=machine.root,
        fine=FINE,
        timeout_s=TIMEOUT_S,
    )


async def test_mount_flags_that_mount_refuses_are_answered_with_what_it_said(machine: EbsMachine):
    machine.attach()
    with pytest.raises(CsiError, match="bad option") as refused:
        await machine.stage(mounted("ext4", ["partition"]))
    assert refused.value.code is Code.INTERNAL
    assert await code_of(machine.stage()) is Code.OK  # it has left nothing behind


async def test_a_planted_link_in_the_targets_place_is_not_followed(machine: EbsMachine, tmp_path: Path):
    precious = tmp_path / "precious"
    precious.mkdir()
    machine.attach()
    await machine.stage()
    machine.target().symlink_to(precious)
    assert await code_of(machine.publish()) is Code.INVALID_ARGUMENT
    assert await code_of(machine.unpublish()) is Code.INVALID_ARGUMENT
    machine.target().unlink()
    (machine.kubelet / "pods").rmdir()
    (machine.kubelet / "pods").symlink_to(precious)
    assert await code_of(machine.publish()) is Code.INVALID_ARGUMENT
    assert os.listdir(precious) == []


async def test_a_planted_link_in_the_place_of_the_staging_directory_is_not_followed(
    machine: EbsMachine, tmp_path: Path
):
    machine.attach()
    machine.staging().rmdir()
    (machine.kubelet / "plugins" / VOLUME).symlink_to(tmp_path)
    request = csi.NodeStageVolumeRequest(
        volume_id=VOLUME,
        staging_target_path=str(machine.kubelet / "plugins" / VOLUME),
        volume_capability=mounted(),
        publish_context={"devicePath": "/dev/xvdba"},
    )
    assert (
        await code_of(machine.node.node_stage_volume(request, timeout_s=TIMEOUT_S)) is Code.INVALID_ARGUMENT
    )
    assert machine.mounts() == []


async def test_files_of_somebody_in_the_targets_place_are_kept(machine: EbsMachine):
    machine.target().write_text("precious")
    assert await code_of(machine.unpublish()) is Code.FAILED_PRECONDITION
    assert machine.target().read_text() == "precious"
    machine.target().unlink()
    machine.target().mkdir()
    (machine.target() / "file").write_text("precious")
    assert await code_of(machine.unpublish()) is Code.FAILED_PRECONDITION
    assert (machine.target() / "file").read_text() == "precious"


@pytest.mark.parametrize("path", ["/etc", "/tmp", "/proc/self/root/tmp", "relative"])
async def test_a_path_outside_is_invalid(machine: EbsMachine, path: str):
    unpublish = csi.NodeUnpublishVolumeRequest(volume_id=VOLUME, target_path=path)
    assert (
        await code_of(machine.node.node_unpublish_volume(unpublish, timeout_s=TIMEOUT_S))
        is Code.INVALID_ARGUMENT
    )
    unstage = csi.NodeUnstageVolumeRequest(volume_id=VOLUME, staging_target_path=path)
    assert (
        await code_of(machine.node.node_unstage_volume(unstage, timeout_s=TIMEOUT_S)) is Code.INVALID_ARGUMENT
    )


async def test_a_volume_is_not_published_without_the_path_at_which_it_is_staged(machine: EbsMachine):
    machine.attach()
    request = csi.NodePublishVolumeRequest(
        volume_id=VOLUME, target_path=str(machine.target()), volume_capability=mounted()
    )
    assert (
        await code_of(machine.node.node_publish_volume(request, timeout_s=TIMEOUT_S))
        is Code.FAILED_PRECONDITION
    )
    assert not machine.target().exists()


async def test_a_target_that_shows_the_volume_in_the_other_way_is_refused(machine: EbsMachine):
    machine.attach()
    await machine.stage()
    path = await machine.publish()
    assert await code_of(machine.publish(raw())) is Code.FAILED_PRECONDITION
    await machine.unpublish()
    await machine.publish(raw())
    assert await code_of(machine.publish()) is Code.FAILED_PRECONDITION
    assert path.is_block_device()
